/**
 * Training jobs: accepted ones, their order, their ends, and races.
 */

import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import {
  MLTrainingService,
  ModelFramework,
  ModelType,
  type TrainingJobMetadata,
  TrainingStatus,
} from "../../proto/gen/ml_training_pb.ts";
import { TrainingService } from "../../proto/gen/training_pb.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { Organizations } from "../../lib/cloud/tenants/organizations.ts";
import { Keys } from "../../lib/cloud/access/keys.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { TrainingJobs } from "../../lib/cloud/training/training.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { catsAndDogs, FakeExecutor, newDataset, newJob, newScript } from "./training_world.ts";
import { newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { until } from "../support/until.ts";

type Api = ServiceClient<typeof MLTrainingService>;
const { COMPLETED, FAILED, CANCELED, PENDING, IN_PROGRESS, CANCELING } = TrainingStatus;

interface Setting {
  readonly served: ServedCloud;
  readonly world: World;
  readonly api: Api;
  readonly clock: FakeClock;
  readonly executor: FakeExecutor;
  readonly scripts: FakeExecutor;
  readonly dataset: string;
  submit(version: string, more?: Parameters<Api["submitTrainingJob"]>[0]): Promise<string>;
  custom(version: string, more?: Parameters<Api["submitCustomTrainingJob"]>[0]): Promise<string>;
}

/** A served control plane with a dataset and a script, whose executors do as the test says. */
async function withTraining(
  database: TestDatabase,
  run: (setting: Setting) => Promise<void>,
  executor = new FakeExecutor(),
): Promise<void> {
  const clock = new FakeClock();
  const scripts = new FakeExecutor();
  await withCloud(database, async (served) => {
    const { store, files } = served;
    const world = await newWorld(store);
    const api = client(MLTrainingService, await served.channel(world.owner));
    const dataset = await newDataset(store, files, world, catsAndDogs());
    const registryItemId = await newScript(store, files, world.organization, packed([]));
    const common = { organizationId: world.organization, datasetId: dataset, modelName: "pets" };
    await run({
      served,
      world,
      api,
      clock,
      executor,
      scripts,
      dataset,
      submit: async (modelVersion, more) => {
        const modelType = ModelType.SINGLE_LABEL_CLASSIFICATION;
        const tags = ["cat", "dog"];
        return (await api.submitTrainingJob({ ...common, modelVersion, modelType, tags, ...more })).id;
      },
      custom: async (modelVersion, more) =>
        (await api.submitCustomTrainingJob({
          ...common,
          modelVersion,
          registryItemId,
          registryItemVersion: "latest",
          ...more,
        })).id,
    });
  }, { clock, training: { managed: executor, custom: scripts } });
}

async function get(api: Api, id: string): Promise<TrainingJobMetadata> {
  return (await api.getTrainingJob({ id })).metadata!;
}

/** Waits until a job is in one of these states. */
async function reached(api: Api, id: string, ...states: TrainingStatus[]): Promise<TrainingJobMetadata> {
  return await until(async () => {
    const job = await get(api, id);
    return states.includes(job.status) && job;
  });
}

async function linesOf(api: Api, id: string): Promise<string[]> {
  return (await api.getTrainingJobLogs({ id })).logs.map(({ message }) => message);
}

async function refusal(run: Promise<unknown>): Promise<string> {
  try {
    await run;
    return "ok";
  } catch (error) {
    const { code, message } = SvcError.from(error);
    return `${code}: ${message}`;
  }
}

async function code(run: Promise<unknown>): Promise<string> {
  return (await refusal(run)).split(":")[0];
}

storeTest(
  "a job keeps its training settings, within bounds, and shows the ones that were set",
  (database) =>
    withTraining(database, async ({ served, world, api, executor, submit, dataset }) => {
      const plain = await submit("1");
      assertEquals((await executor.next()).job.learning, {});
      const { epochs, seed, holdoutPercent } = await get(api, plain);
      assertEquals([epochs, seed, holdoutPercent], [undefined, undefined, undefined]);
      await api.cancelTrainingJob({ id: plain });
      const own = client(TrainingService, await served.channel(world.owner));
      const request = {
        organizationId: world.organization,
        datasetId: dataset,
        modelName: "pets",
        modelVersion: "2",
        modelType: ModelType.SINGLE_LABEL_CLASSIFICATION,
        tags: ["cat", "dog"],
      };
      assertEquals(
        await refusal(own.submitTrainingJob({ ...request, epochs: 501 })),
        "invalid_argument: epochs: found 501, wanted a whole number from 1 to 500",
      );
      assertEquals(
        await refusal(own.submitTrainingJob({ ...request, holdoutPercent: 4 })),
        "invalid_argument: holdout_percent: found 4, wanted a whole number from 5 to 50",
      );
      const operator = client(TrainingService, await served.channel(world.operator));
      assertEquals(await code(operator.submitTrainingJob({ ...request, seed: 0 })), "permission_denied");
      const { id } = await own.submitTrainingJob({ ...request, epochs: 30, seed: 0 });
      const { job } = await executor.next();
      assertEquals([job.id, job.learning], [id, { epochs: 30, seed: 0 }]);
      const found = await get(api, id);
      assertEquals([found.epochs, found.seed, found.holdoutPercent], [30, 0, undefined]);
    }),
);

storeTest(
  "a training job runs, logs its progress and publishes its model",
  (database) =>
    withTraining(database, async ({ served: { store, files }, world, api, executor, submit }) => {
      const id = await submit("1");
      const work = await executor.next();
      assertEquals([work.images.length, work.images[0].tags, work.job.labels], [16, ["cat"], ["cat", "dog"]]);
      const running = await get(api, id);
      assertEquals([running.status, running.isCustomJob, running.modelFramework], [
        IN_PROGRESS,
        false,
        ModelFramework.ONNX,
      ]);
      assert(running.trainingStarted && !running.trainingEnded);
      work.log("info", "epoch 1/2 loss 0.5");
      work.finish("weights");
      const done = await reached(api, id, COMPLETED);
      assertEquals([done.syncedModelId, done.tags, done.modelName], [`${world.organization}/pets`, [
        "cat",
        "dog",
      ], "pets"]);
      assert(done.trainingEnded);
      const model = await new Packages(store).find(done.syncedModelId, "latest");
      assertEquals([model.item.kind, model.version, model.metadata.model_framework], [
        "ml_model",
        "1",
        "onnx",
      ]);
      assertEquals(await files.size(model.sha256), model.bytes);
      const lines = await linesOf(api, id);
      assertStringIncludes(lines[0], "16 images, 16 of them labeled (cat 8, dog 8)");
      assertEquals(lines.slice(1, 4), [
        "waiting: next in the queue",
        "training begins",
        "epoch 1/2 loss 0.5",
      ]);
      assertMatch(lines[4], /^completed: /);
      await api.deleteCompletedTrainingJob({ id });
      assertEquals(await code(get(api, id)), "not_found");
      assertEquals(await code(api.deleteCompletedTrainingJob({ id })), "not_found");
      assertEquals(await code(submit("1")), "already_exists");
    }),
);

storeTest(
  "refuses an impossible job, with the reason",
  (database) =>
    withTraining(database, async ({ served: { store, files }, world, submit, custom, dataset }) => {
      const few = await newDataset(store, files, world, catsAndDogs(14));
      const bare = await newDataset(store, files, world, [
        ...catsAndDogs(16),
        ...Array.from({ length: 5 }, (_, index) => ({ bytes: Uint8Array.of(index) })),
      ]);
      const both = await newDataset(store, files, world, [
        ...catsAndDogs(14),
        { bytes: Uint8Array.of(1), tags: ["cat", "dog"] },
      ]);
      const sequences = await newDataset(store, files, world, [], "sequences");
      const other = await newDataset(store, files, await newWorld(store), catsAndDogs());
      const wanted: [() => Promise<unknown>, string, string][] = [
        [() => submit(""), "invalid_argument", "found model_version"],
        [() => submit("1", { modelName: "a b" }), "invalid_argument", "found model_name"],
        [() => submit("1", { modelType: ModelType.UNSPECIFIED }), "invalid_argument", "model_type"],
        [() => submit("1", { tags: [] }), "invalid_argument", "tags: found 0"],
        [() => submit("1", { tags: ["cat", "cat"] }), "invalid_argument", "twice"],
        [() => submit("1", { tags: ["cat", " "] }), "invalid_argument", "tags[1]"],
        [() => submit("1", { datasetId: "" }), "invalid_argument", "dataset_id"],
        [() => submit("1", { datasetId: "x" }), "not_found", "dataset"],
        [() => submit("1", { datasetId: other }), "not_found", "dataset"],
        [() => submit("1", { datasetId: few }), "failed_precondition", "cat 7, dog 7"],
        [() => submit("1", { datasetId: bare }), "failed_precondition", "21 images, 16 of them labeled"],
        [() => submit("1", { datasetId: both }), "failed_precondition", "1 left out"],
        [() => submit("1", { datasetId: sequences }), "failed_precondition", "sequences"],
        [() => submit("1", { tags: ["cat", "cow"] }), "failed_precondition", '"cow"'],
        [
          () => submit("1", { modelType: ModelType.OBJECT_DETECTION }),
          "failed_precondition",
          "0 of them labeled",
        ],
        [() => submit("1", { modelFramework: ModelFramework.TFLITE }), "unimplemented", "tflite"],
        [() => submit("1", { modelName: "script" }), "already_exists", "ml_training"],
        [() => custom("1", { registryItemId: "script" }), "invalid_argument", "my-org:my-model"],
        [() => custom("1", { registryItemId: `${world.organization}:none` }), "not_found", "none"],
        [() => custom("1", { registryItemId: "" }), "invalid_argument", "registry_item_id is empty"],
        [() => custom("1", { registryItemVersion: "9" }), "not_found", "1.0.0"],
        [
          () => custom("1", { registryItemVersion: "" }),
          "invalid_argument",
          "registry_item_version is empty",
        ],
        [() => custom("1", { containerVersion: "tf:1" }), "invalid_argument", "python:3, python:2"],
        [() => custom("1", { arguments: { "a b": "" } }), "invalid_argument", "a b"],
        [() => custom("1", { arguments: { dataset_file: "" } }), "invalid_argument", "dataset_file"],
        [() => custom("1", { datasetId: sequences }), "failed_precondition", "sequences"],
      ];
      for (const [run, code, words] of wanted) {
        const found = await refusal(run());
        assert(
          found.startsWith(`${code}: `) && found.includes(words),
          `found "${found}", wanted ${code}, ${words}`,
        );
      }
      assertEquals(await code(submit("1", { datasetId: dataset })), "ok");
      // One label is distinguished from images without it.
      assertEquals(await code(submit("2", { datasetId: dataset, tags: ["cat"] })), "ok");
      assertStringIncludes(await refusal(submit("3", { organizationId: "" })), "organization_id is empty");
    }),
);

storeTest(
  "of several jobs for one version of a model at the same time, one is accepted",
  (database) =>
    withTraining(database, async ({ api, executor, submit, world }) => {
      const outcomes = await Promise.all(Array.from({ length: 5 }, () => code(submit("1"))));
      assertEquals(outcomes.sort(), [...Array(4).fill("already_exists"), "ok"]);
      assertEquals(await code(submit("1", { modelName: "others" })), "ok");
      // A failed job can be repeated with another version, or after its deletion.
      (await executor.next()).fail(new SvcError("failed_precondition", "no luck"));
      const { jobs } = await api.listTrainingJobs({ organizationId: world.organization });
      const failed = await reached(api, jobs[1].id, FAILED);
      assertEquals([failed.errorStatus?.code, failed.errorStatus?.message], [9, "no luck"]);
      assertEquals((await linesOf(api, failed.id)).at(-1), "failed: no luck");
      assertEquals(
        await refusal(submit("1")),
        `already_exists: training job "${failed.id}", which is FAILED, has version "1" of model "pets" already: wanted ` +
          "a new model_version, or delete that job first",
      );
      await api.deleteCompletedTrainingJob({ id: failed.id });
      assertEquals(await code(submit("1")), "ok");
    }),
);

storeTest(
  "organizations take turns, and changed places in the queue are logged",
  (database) =>
    withTraining(database, async ({ served: { store }, world, api, executor, submit }) => {
      const mine: string[] = [];
      for (const version of ["1", "2", "3", "4"]) mine.push(await submit(version));
      await executor.next();
      assertEquals((await linesOf(api, mine[3])).at(-1), "waiting: 2 before it in the queue");
      const others = await store.transaction(async (sql) => {
        const id = await new Organizations(sql).create("others", 0);
        return await new TrainingJobs(sql).add({ ...newJob(id), modelVersion: "1" }, [], 0);
      });
      const order = async () =>
        (await new TrainingJobs(store).waiting("managed", 1)).jobs.map(({ id }) => id);
      assertEquals(await order(), [others, ...mine.slice(1)]);
      // Deleting an ended job gives no other job a turn.
      executor.begun[0].finish();
      assertEquals((await executor.next()).job.id, others);
      await reached(api, mine[0], COMPLETED);
      await api.deleteCompletedTrainingJob({ id: mine[0] });
      assertEquals(await order(), mine.slice(1));
      const { jobs } = await api.listTrainingJobs({ organizationId: world.organization });
      assertEquals(jobs.length, 3);
    }),
);

storeTest(
  "an organization's waiting jobs are limited",
  (database) =>
    withTraining(database, async ({ served: { store }, world }) => {
      await store.transaction(async (sql) => {
        const jobs = new TrainingJobs(sql);
        for (let count = 0; count < 3; count++) await jobs.add(newJob(world.organization), [], 0, 3);
        const { message, code } = await assertRejects(
          () => jobs.add(newJob(world.organization), [], 0, 3),
          SvcError,
        );
        assertEquals(code, "resource_exhausted");
        assertStringIncludes(
          message,
          "3 training jobs of this organization wait already, wanted fewer than 3",
        );
        throw new Error("undone");
      }).catch((error) => assertEquals(error.message, "undone"));
    }),
);

storeTest(
  "jobs run in order, as many at once as there is room for",
  (database) =>
    withTraining(database, async ({ api, world, executor, submit }) => {
      const ids: string[] = [];
      for (const version of ["1", "2", "3", "4"]) ids.push(await submit(version));
      const [first, second] = [await executor.next(), await executor.next()];
      // They begin together.
      assertEquals([first.job.id, second.job.id].sort(), ids.slice(0, 2).sort());
      assertEquals((await get(api, ids[2])).status, PENDING);
      assertEquals((await linesOf(api, ids[3])).at(-1), "waiting: 1 before it in the queue");
      (second.job.id === ids[1] ? second : first).finish();
      const third = await executor.next();
      assertEquals(third.job.id, ids[2]);
      assertEquals((await linesOf(api, ids[3])).at(-1), "waiting: next in the queue");
      assertEquals(executor.begun.length, 3);
      const organizationId = world.organization;
      const { jobs } = await api.listTrainingJobs({ organizationId });
      assertEquals(jobs.map(({ modelVersion }) => modelVersion), ["4", "3", "2", "1"]);
      await reached(api, ids[1], COMPLETED);
      const { jobs: busy } = await api.listTrainingJobs({ organizationId, status: IN_PROGRESS });
      assertEquals(busy.map(({ modelVersion }) => modelVersion), ["3", "1"]);
      assertEquals(
        await code(api.listTrainingJobs({ organizationId, status: 9 as TrainingStatus })),
        "invalid_argument",
      );
    }, new FakeExecutor(2)),
);

storeTest(
  "CancelTrainingJob cancels waiting and running jobs, and refuses jobs that have ended",
  (database) =>
    withTraining(database, async ({ served: { store }, world, api, executor, submit }) => {
      const [running, waiting] = [await submit("1"), await submit("2")];
      const work = await executor.next();
      await api.cancelTrainingJob({ id: waiting });
      assertEquals((await get(api, waiting)).status, CANCELED);
      assertEquals(await code(api.deleteCompletedTrainingJob({ id: running })), "failed_precondition");
      await api.cancelTrainingJob({ id: running });
      const canceled = await reached(api, running, CANCELED);
      assertEquals([work.signal.aborted, canceled.errorStatus, canceled.syncedModelId], [
        true,
        undefined,
        "",
      ]);
      assertStringIncludes(await refusal(api.cancelTrainingJob({ id: running })), "CANCELED");
      assertEquals(
        await new Packages(store).has(world.organization, { name: "pets", version: "1", kind: "ml_model" }),
        false,
      );
      // The one that was cancelled while it waited never starts.
      await submit("3");
      assertEquals((await executor.next()).job.modelVersion, "3");
    }),
);

storeTest(
  "a job cancelled before its model is published publishes no model and leaves no files",
  (database) =>
    withTraining(database, async ({ served: { store, files }, world, api, executor, submit }) => {
      const before = await contentsIn(database);
      const id = await submit("1");
      const work = await executor.next();
      // In the database only, as another control plane would do it: this one does not hear of it in time.
      await store.transaction((sql) =>
        sql.query("UPDATE training_jobs SET state = 'canceling' WHERE id = ?", id)
      );
      work.finish();
      assertEquals((await reached(api, id, CANCELED, COMPLETED)).status, CANCELED);
      assertEquals(
        await new Packages(store).has(world.organization, { name: "pets", version: "1", kind: "ml_model" }),
        false,
      );
      await until(async () => await contentsIn(database) <= before);
      assert(
        await files.size((await new Packages(store).find(`${world.organization}:script`, "latest")).sha256),
      );
    }),
);

storeTest(
  "a job cancelled while it completes ends with its model or without, and says which",
  (database) =>
    withTraining(database, async ({ served: { store }, world, api, executor, submit }) => {
      for (let round = 0; round < 12; round++) {
        const id = await submit(`${round}`);
        const work = await executor.next();
        const canceling = code(api.cancelTrainingJob({ id }));
        work.finish();
        const output = await canceling;
        const { status, syncedModelId } = await reached(api, id, CANCELED, COMPLETED);
        const published = await new Packages(store).has(world.organization, {
          name: "pets",
          version: `${round}`,
          kind: "ml_model",
        });
        const completed = status === COMPLETED;
        assertEquals([published, syncedModelId !== "", output === "ok"], [completed, completed, !completed]);
      }
    }),
);

storeTest(
  "a job keeps the images of its submission, even if the dataset changes",
  (database) =>
    withTraining(database, async ({ served: { store }, api, executor, dataset, submit }) => {
      const first = await submit("1");
      const second = await submit("2");
      await store.transaction((sql) => new Datasets(sql).delete(dataset));
      assertEquals((await executor.next()).images.length, 16);
      await api.cancelTrainingJob({ id: first });
      const work = await executor.next();
      assertEquals([work.job.id, work.images.length], [second, 16]);
      for await (const _ of work.read(work.images[3].sha256));
    }),
);

storeTest(
  "a custom job gets its script, its arguments and an API key that ends with the job",
  (database) =>
    withTraining(database, async ({ served: { store, app }, world, api, scripts, custom }) => {
      const id = await custom("1", { arguments: { epochs: "3", note: "a=b, c" } });
      const { job, apiKey, read, ...work } = await scripts.next();
      const { script } = job;
      assertEquals([script?.version, script?.container, script?.arguments], ["1.0.0", "python:3", {
        epochs: "3",
        note: "a=b, c",
      }]);
      for await (const _ of read(script!.sha256));
      const { organizations } = await (await app(apiKey)).listOrganizations({});
      assertEquals(organizations.map(({ id }) => id), [world.organization]);
      const shown = await get(api, id);
      assertEquals([shown.isCustomJob, shown.registryItemVersion, shown.arguments.note], [
        true,
        "1.0.0",
        "a=b, c",
      ]);
      assertEquals([shown.modelType, shown.modelFramework, shown.containerVersion], [
        ModelType.SINGLE_LABEL_CLASSIFICATION,
        ModelFramework.TENSORFLOW,
        "python:3",
      ]);
      work.finish();
      await reached(api, id, COMPLETED);
      assertEquals((await new Keys(store).all()).filter((key) => key.id === apiKey!.id), []);
      const { containerMap } = await api.listSupportedContainers({});
      assertEquals(Object.keys(containerMap), ["python:3", "python:2"]);
    }),
);

storeTest(
  "GetTrainingJobLogs pages through the log, and logs expire after a week",
  async (database) => {
    let [id, owner] = ["", undefined as World["owner"] | undefined];
    await withTraining(database, async ({ world, api, executor, submit }) => {
      owner = world.owner;
      id = await submit("1");
      const work = await executor.next();
      for (let line = 0; line < 250; line++) work.log(line === 0 ? "warn" : "info", `line ${line}`);
      work.finish();
      await reached(api, id, COMPLETED);
      const found: string[] = [];
      let pageToken = "";
      const pages: number[] = [];
      do {
        const page = await api.getTrainingJobLogs({ id, pageToken });
        found.push(...page.logs.map(({ level, message }) => `${level} ${message}`));
        pages.push(page.logs.length);
        pageToken = page.nextPageToken;
      } while (pageToken !== "");
      assertEquals([pages, found[3], found[4], found.length], [
        [100, 100, 54],
        "warn line 0",
        "info line 1",
        254,
      ]);
      // A follower continues after the number of lines that it has.
      assertEquals((await api.getTrainingJobLogs({ id, pageToken: "253" })).logs.length, 1);
      assertEquals(await code(api.getTrainingJobLogs({ id, pageToken: "x" })), "invalid_argument");
    });
    const later = new FakeClock(new FakeClock().nowMs() + 7 * 24 * 3600 * 1000 + 1);
    await withCloud(database, async ({ channel }) => {
      const api = client(MLTrainingService, await channel(owner));
      await until(async () => (await linesOf(api, id)).length === 0);
      assertEquals((await get(api, id)).status, COMPLETED);
    }, { clock: later, training: {} });
  },
);

storeTest(
  "a job that takes too long fails, and so does a job without output",
  (database) =>
    withTraining(database, async ({ api, clock, executor, scripts, submit, custom }) => {
      const id = await submit("1");
      await executor.next();
      const empty = await custom("2");
      (await scripts.next()).succeed();
      assertStringIncludes((await reached(api, empty, FAILED)).errorStatus!.message, "empty");
      while ((await get(api, id)).status === IN_PROGRESS) await clock.advance(3600 * 1000);
      const { errorStatus, status } = await get(api, id);
      assertEquals([status, errorStatus?.code], [FAILED, 4]);
    }),
);

storeTest(
  "the jobs of a control plane that stops wait again, and begin anew before those that waited",
  async (database) => {
    let [running, waiting] = ["", ""];
    let owner: World["owner"] | undefined;
    let later = new FakeClock();
    await withTraining(database, async ({ world, executor, clock, submit }) => {
      later = new FakeClock(clock.nowMs());
      owner = world.owner;
      running = await submit("1");
      waiting = await submit("2");
      await executor.next();
    });
    const executor = new FakeExecutor();
    await withCloud(database, async ({ channel }) => {
      const api = client(MLTrainingService, await channel(owner));
      const again = await executor.next();
      assertEquals(again.job.id, running);
      const { logs } = await api.getTrainingJobLogs({ id: running });
      const logged = logs.map(({ message }) => message).filter((one) => one.startsWith("interrupted"));
      assertEquals(logged, [
        "interrupted: the control plane that ran the job was stopped; it waits, and begins anew",
      ]);
      again.finish();
      await reached(api, running, COMPLETED);
      assertEquals((await executor.next()).job.id, waiting);
    }, { clock: later, training: { managed: executor } });
  },
);

storeTest(
  "if a control plane hangs, a second control plane on its database takes over its jobs",
  (database) =>
    withTraining(database, async ({ served: { store }, world, api, clock, executor: dying, submit }) => {
      const living = new FakeExecutor();
      const later = new FakeClock(clock.nowMs());
      await withCloud(database, async (other) => {
        const second = client(MLTrainingService, await other.channel(world.owner));
        const [lost, canceled] = [await submit("1"), await submit("2")];
        const [work, other2] = [await dying.next(), await dying.next()];
        // The first one is stuck from here on: its clock does not move. The second one waits for its time to run out.
        await second.cancelTrainingJob({ id: canceled });
        assertEquals((await get(second, canceled)).status, CANCELING);
        const anew = living.next();
        let isAnew = false;
        void anew.then(() => isAnew = true);
        while (!isAnew) await later.advance(1_000);
        assert(later.nowMs() - clock.nowMs() >= 20_000, "taken for dead before its time");
        assertEquals((await anew).job.id, lost);
        assertEquals((await reached(second, canceled, CANCELED)).errorStatus, undefined);
        // The first one's results now come too late.
        work.finish("too late");
        other2.finish("too late");
        (await anew).finish();
        await reached(api, lost, COMPLETED);
        assertEquals(await code(second.submitTrainingJob(again(world, work.job.datasetId))), "ok");
        await Promise.race([living.next(), dying.next()]).then((work) => work.finish());
        const { jobs } = await api.listTrainingJobs({ organizationId: world.organization });
        await reached(api, jobs[0].id, COMPLETED);
        assertEquals(jobs.slice(1).map(({ status }) => status), [CANCELED, COMPLETED]);
        assertEquals(
          await new Packages(store).has(world.organization, { name: "pets", version: "2", kind: "ml_model" }),
          false,
        );
      }, { clock: later, training: { managed: living } });
    }, new FakeExecutor(2)),
);

storeTest(
  "a job that three control planes did not survive fails, and says so",
  (database) =>
    withTraining(database, async ({ served: { store }, world, api, clock, submit }) => {
      const id = await submit("1");
      await reached(api, id, IN_PROGRESS);
      const jobs = new TrainingJobs(store);
      const states = [];
      for (let died = 0; died < 3; died++) {
        const { state } = await store.transaction(async (sql) => {
          const inSql = new TrainingJobs(sql);
          if ((await inSql.get(id)).state === "pending") await inSql.start(id, "another", 0, clock.nowMs());
          return await inSql.interrupt(id, true, clock.nowMs());
        });
        states.push(state);
      }
      assertEquals(states, ["pending", "pending", "failed"]);
      assertEquals(
        (await jobs.get(id)).error!.message,
        "interrupted: the control plane that ran the job went away, as did 2 before it",
      );
      assertEquals(world.organization, (await jobs.get(id)).organizationId);
    }),
);

function again(world: World, datasetId: string) {
  const modelType = ModelType.SINGLE_LABEL_CLASSIFICATION;
  const tags = ["cat", "dog"];
  return {
    organizationId: world.organization,
    datasetId,
    modelName: "pets",
    modelVersion: "3",
    modelType,
    tags,
  };
}

/** How many contents are in the file store. */
async function contentsIn({ folder }: TestDatabase): Promise<number> {
  let count = 0;
  for await (const entry of Deno.readDir(`${folder}/files`)) {
    if (!entry.isDirectory) continue;
    for await (const _ of Deno.readDir(`${folder}/files/${entry.name}`)) count++;
  }
  return count;
}
