/** `svc-ml` against the control plane itself: from files on this computer to a model on this computer. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { exampleImages, pngOf } from "../../lib/learn/example_scene.ts";
import type { Executor } from "../../lib/cloud/executors/executor.ts";
import { EmbeddedExecutor } from "../../lib/cloud/executors/embedded.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { PNG } from "./fake_cloud.ts";
import { svcMl } from "./program.ts";
import { storeTest, type TestDatabase } from "../cloud/stores.ts";
import { FakeExecutor } from "../cloud/training_world.ts";
import { CONTENT, newWorld, type ServedCloud, withCloud, type World } from "../cloud/world.ts";

interface Place extends Pick<ServedCloud, "app" | "channel"> {
  readonly world: World;
  readonly folder: string;
  readonly executor: FakeExecutor;
  /** Runs the program as the owner, and requires success. */
  readonly ml: (...args: string[]) => Promise<string>;
  readonly env: Record<string, string>;
}

async function withPlace(
  database: TestDatabase,
  run: (place: Place) => Promise<void>,
  managed?: Executor,
): Promise<void> {
  const executor = new FakeExecutor();
  const executors = { managed: managed ?? executor, custom: executor };
  await withCloud(database, async ({ store, url, app, channel }) => {
    const world = await newWorld(store);
    const { id, key } = world.owner;
    const env = { SVC_BASE_URL: url, SVC_API_KEY_ID: id, SVC_API_KEY: key, SVC_HOME: database.folder };
    const ml = async (...args: string[]) => {
      const { code, output, errors } = await svcMl(args, { env });
      assertEquals(code, 0, `svc-ml ${args.join(" ")}: ${errors}`);
      return output;
    };
    await run({ world, folder: database.folder, executor, ml, env, app, channel });
  }, { training: executors });
}

/** A dataset of cats and dogs, by folder. */
/** A picture that differs from those of other numbers. */
function picture(number: number): Uint8Array {
  return encodePng({ width: 4, height: 4, channels: 1, samples: new Uint8Array(16).fill(number) });
}

async function addDataset({ folder, ml }: Pick<Place, "folder" | "ml">): Promise<void> {
  for (let at = 0; at < 16; at++) {
    const label = at % 2 === 0 ? "cat" : "dog";
    await Deno.mkdir(`${folder}/photos/${label}`, { recursive: true });
    await Deno.writeFile(`${folder}/photos/${label}/${at}.png`, picture(at));
  }
  await ml("dataset", "create", "pets");
  assertEquals(await ml("dataset", "add", "pets", `${folder}/photos`), "16 images are in pets\n");
}

const SUBMIT = ["submit", "--model-type", "single-label-classification", "--model-version", "v1"];

storeTest(
  "svc-ml adds photographs, trains a model and downloads it",
  (database) =>
    withPlace(database, async (place) => {
      const { ml, executor, folder, env } = place;
      await addDataset(place);
      // Added again they are the same ones.
      await ml("dataset", "add", "pets", `${folder}/photos`);
      assertStringIncludes(
        await ml("dataset", "check", "pets", "--model-type", "single-label-classification"),
        "16 images, 16 of them labeled\nLABEL  IMAGES\ncat    8\ndog    8\n",
      );
      const following = ml(...SUBMIT, "--follow");
      const work = await executor.next();
      assertEquals(work.images.length, 16);
      work.log("info", "epoch 1/1 loss 0.5 validation 0.5 accuracy 1");
      work.finish("what was learned");
      const lines = (await following).trimEnd().split("\n");
      const [id] = lines;
      assertMatch(id, /^[0-9a-f-]{36}$/);
      assertEquals(
        lines.filter((line) => line.endsWith("epoch 1/1 loss 0.5 validation 0.5 accuracy 1")).length,
        1,
      );
      assertStringIncludes(await ml("get", id), "status        COMPLETED\n");
      assertStringIncludes(await ml("list", "--status", "completed"), `${id}  COMPLETED  pets   v1`);
      assertStringIncludes(await ml("models", "list"), "pets  v1       single-label-classification  onnx");
      await ml("models", "download", "pets", "--extract", "-d", folder);
      assertEquals(await Deno.readTextFile(`${folder}/pets-v1/model.txt`), "what was learned");
      const again = await svcMl(SUBMIT, { env });
      assertEquals(again.code, 5);
      assertStringIncludes(again.errors, 'version "v1" already');
      assertEquals(await ml(...SUBMIT, "--if-not-exists"), `${id}\n`);
      assertEquals(await ml("delete", id), `${id}\n`);
      assertEquals((await svcMl(["get", id], { env })).code, 4);
    }),
);

storeTest(
  "epochs, seed and holdout are part of a job and of its identity",
  (database) =>
    withPlace(database, async (place) => {
      const { ml, executor, env } = place;
      await addDataset(place);
      const learning = ["--epochs", "30", "--seed", "0", "--holdout", "25"];
      const dry = JSON.parse(await ml(...SUBMIT, ...learning, "--dry-run", "--json")).request;
      assertEquals([dry.epochs, dry.seed, dry.holdoutPercent], [30, 0, 25]);
      const id = await ml(...SUBMIT, ...learning);
      const { job, finish } = await executor.next();
      assertEquals(job.learning, { epochs: 30, seed: 0, holdoutPercent: 25 });
      assertEquals(await ml(...SUBMIT, ...learning, "--if-not-exists"), id);
      const others = await svcMl([...SUBMIT, "--if-not-exists", "--seed", "1"], { env });
      assertEquals(others.code, 5);
      assertStringIncludes(others.errors, "epochs 30, not none; seed 0, not 1; holdout 25, not none;");
      await finish();
      assertStringIncludes(await ml("wait", id.trim()), "epochs        30 at most\n");
      // What cannot be made at all is refused with why.
      const tflite = await svcMl(
        [...SUBMIT, "--model-version", "v2", "--seed", "1", "--framework", "tflite"],
        { env },
      );
      assertStringIncludes(
        tflite.errors,
        "found model_framework tflite, which this control plane does not train",
      );
    }),
);

storeTest(
  "a failed job, a canceled job, and forbidden operations",
  (database) =>
    withPlace(database, async (place) => {
      const { ml, executor, env, world } = place;
      await addDataset(place);
      const waiting = svcMl([...SUBMIT, "--wait"], { env });
      (await executor.next()).fail(new SvcError("unknown", "nothing could be learned"));
      const failed = await waiting;
      assertEquals(failed.code, 1);
      assertStringIncludes(failed.errors, "nothing could be learned");
      const [id] = failed.output.split("\n");
      assertEquals((await svcMl(["cancel", id], { env })).code, 5);
      // The version is that of the failed job for as long as there is one.
      const taken = await svcMl(SUBMIT, { env });
      assertEquals(taken.code, 5);
      assertStringIncludes(taken.errors, "wanted a new model_version, or delete that job first");
      await ml("delete", id);
      const second = (await ml(...SUBMIT)).trim();
      await executor.next();
      assertEquals((await svcMl(["delete", second], { env })).code, 5);
      await ml("cancel", second);
      const canceled = await svcMl(["wait", second, "--json"], { env });
      assertEquals([canceled.code, JSON.parse(canceled.output).status], [1, "TRAINING_STATUS_CANCELED"]);
      const operator = { ...env, SVC_API_KEY_ID: world.operator.id, SVC_API_KEY: world.operator.key };
      assertEquals((await svcMl(SUBMIT, { env: operator })).code, 3);
      const tflite = await svcMl([...SUBMIT, "--framework", "tflite"], { env });
      assertEquals(tflite.code, 1);
      assertStringIncludes(
        tflite.errors,
        "found model_framework tflite, which this control plane does not train",
      );
    }),
);

storeTest(
  "svc-ml submit-custom uploads a script and runs it",
  (database) =>
    withPlace(database, async (place) => {
      const { ml, executor, folder, env } = place;
      await addDataset(place);
      await Deno.mkdir(`${folder}/script/model`, { recursive: true });
      await Deno.writeTextFile(`${folder}/script/setup.py`, "");
      await Deno.writeTextFile(`${folder}/script/model/training.py`, "print('hello')\n");
      assertStringIncludes(await ml("containers"), "python:3");
      const path = ["--path", `${folder}/script`, "--script-name", "train", "--script-version", "1.0.0"];
      const following = ml(
        "submit-custom",
        ...path,
        "--arg",
        "labels=a=b",
        "--model-name",
        "own",
        "--wait",
        "--json",
      );
      const { job, finish } = await executor.next();
      assertEquals([job.script?.version, job.script?.arguments], ["1.0.0", { labels: "a=b" }]);
      await finish();
      const ended = JSON.parse((await following).trimEnd().split("\n").at(-1)!);
      assertEquals([ended.status, ended.isCustomJob], ["TRAINING_STATUS_COMPLETED", true]);
      // The version of the model is there: the script that was uploaded for another one goes again.
      const again = ["submit-custom", "--path", `${folder}/script`, "--script-name", "train"];
      const model = ["--model-name", "own", "--model-version", ended.modelVersion];
      const refused = await svcMl([...again, "--script-version", "1.0.1", ...model], { env });
      assertEquals(refused.code, 5);
      assertStringIncludes(refused.errors, "took back version 1.0.1 of script");
      assertEquals(
        await ml(
          "script",
          "upload",
          `${folder}/script`,
          "--script-name",
          "train",
          "--script-version",
          "1.1.0",
          "--description",
          "says hello",
        ),
        `${place.world.organization}:train 1.1.0\n`,
      );
    }),
);

storeTest(
  "an exported dataset can be added to another dataset",
  (database) =>
    withPlace(database, async (place) => {
      const { ml, folder } = place;
      await addDataset(place);
      await ml("dataset", "export", "pets", "-d", `${folder}/out`);
      await ml("dataset", "create", "more pets");
      await ml("dataset", "add", "more pets", `${folder}/out`);
      await ml("dataset", "export", "more pets", "-d", `${folder}/again`);
      const labels = async (name: string) =>
        (await Deno.readTextFile(`${folder}/${name}/dataset.jsonl`)).trimEnd().split("\n")
          .map((line) => JSON.parse(line).classification_annotations[0].annotation_label).sort();
      assertEquals(await labels("again"), await labels("out"));
      assertEquals((await labels("out")).length, 16);
    }),
);

storeTest(
  "dataset import imports a YOLO folder, and a second import adds nothing",
  (database) =>
    withPlace(database, async ({ ml, folder, env }) => {
      await Deno.mkdir(`${folder}/set/images`, { recursive: true });
      await Deno.mkdir(`${folder}/set/labels`);
      await Deno.writeTextFile(`${folder}/set/data.yaml`, "names: [cat, dog]\n");
      for (let at = 0; at < 16; at++) {
        await Deno.writeFile(`${folder}/set/images/${at}.png`, picture(at));
        await Deno.writeTextFile(`${folder}/set/labels/${at}.txt`, `${at % 2} 0.5 0.5 0.25 0.5\n`);
      }
      await ml("dataset", "create", "pets");
      for (let time = 0; time < 2; time++) {
        const logged = await ml("dataset", "import", "pets", `${folder}/set`);
        assertEquals(
          logged,
          "LABEL  BOXES\ncat    8\ndog    8\n16 images are in pets, 16 of them with boxes\n",
        );
      }
      const { images } = JSON.parse(await ml("dataset", "images", "pets", "--json"));
      assertEquals(images.length, 16);
      for (const { boxes: [{ xMin, yMin, xMax, yMax }, ...others] } of images) {
        assertEquals([xMin, yMin, xMax, yMax, others], [0.375, 0.25, 0.625, 0.75, []]);
      }
      assertStringIncludes(await ml("dataset", "check", "pets"), "ready to train\n");

      const [first] = images;
      const ofFirst = async (dataset = "pets") => {
        const all = JSON.parse(await ml("dataset", "images", dataset, "--json")).images;
        return all.find(({ id }: { id: string }) => id === first.id);
      };
      assertEquals(
        await ml("dataset", "label", "pets", "good,new", first.fileName),
        "1 image has good, new\n",
      );
      await ml("dataset", "unlabel", "pets", "new", first.id);
      assertEquals((await ofFirst()).tags, ["good"]);
      const box = (await ml("dataset", "box", "pets", first.id, "ear", "0,0,2,1")).trim();
      const drawn = (await ofFirst()).boxes.find(({ id }: { id: string }) => id === box);
      assertEquals([drawn.label, drawn.xMax, drawn.yMin], ["ear", 0.5, 0]);
      await ml("dataset", "unbox", "pets", first.id, "ear");
      assertEquals((await ofFirst()).boxes.length, 1);
      await ml("dataset", "create", "some");
      assertEquals(await ml("dataset", "add", "some", "--filter", "tag=good"), "1 image is in some\n");
      await ml("dataset", "merge", "both", "some", "pets");
      assertEquals((await ofFirst("both")).tags, ["good"]);
      await ml("dataset", "remove", "both", first.id);
      assertEquals(await ofFirst("both"), undefined);
      const wrong = async (...args: string[]) => (await svcMl(args, { env })).errors;
      assertStringIncludes(await wrong("dataset", "label", "pest", "x", "--all"), "did you mean pets?");
      assertStringIncludes(await wrong("dataset", "label", "pets", "x"), "name images, or give --all");
      assertStringIncludes(
        await wrong("dataset", "box", "pets", first.id, "x", "1,2,3"),
        "wanted x1,y1,x2,y2",
      );
      assertStringIncludes(
        await wrong("dataset", "box", "pets", first.id, "x", "1,2,3,9999"),
        "in an image of",
      );
      assertStringIncludes(await wrong("dataset", "add", "some", "--filter", "tga=x"), "wanted tag");
      assertStringIncludes(
        await wrong("dataset", "add", "some", "--filter", "tag=none"),
        "nothing was added",
      );
    }),
);

storeTest(
  "svc-ml infer classifies an image with a model that was trained here",
  (database) =>
    withPlace(database, async ({ ml, folder, env, world, app, channel }) => {
      await Deno.mkdir(`${folder}/pictures`);
      const lines = exampleImages(16, 3, { things: [1, 1] }).map((picture, at) => {
        Deno.writeFileSync(`${folder}/pictures/${at}.png`, pngOf(picture));
        const annotations = picture.labels.map((label) => ({ annotation_label: label }));
        return `${JSON.stringify({ image_path: `${at}.png`, classification_annotations: annotations })}\n`;
      });
      await Deno.writeTextFile(`${folder}/pictures/dataset.jsonl`, lines.join(""));
      await ml("dataset", "create", "things");
      await ml("dataset", "add", "things", `${folder}/pictures`);
      const submit = ["submit", "--model-type", "multi-label-classification", "--dataset", "things"];
      const { code, errors } = await svcMl([...submit, "--follow"], { env, terminal: true });
      assertEquals(code, 0, errors);
      assertMatch(errors, /epoch 1\/1 {2}loss [\d.]+ /);
      const image = `${folder}/pictures/0.png`;
      const { classifications } = JSON.parse(await ml("infer", image, "--model", "things", "--json"));
      const seen = classifications.map(({ label }: { label: string }) => label).sort();
      assertEquals(seen, ["ball", "box", "cone"]);
      const [{ id }] = JSON.parse(await ml("list", "--json")).jobs;
      const { metrics, confusion } = JSON.parse(await ml("get", id, "--json"));
      assertEquals(Object.keys(metrics).sort(), ["accuracy", "macro F1"]);
      assertEquals(confusion.map(({ label }: { label: string }) => label).sort(), seen);
      assertMatch(await ml("get", id), /\n\nLABEL +IMAGES +FOUND AS +WRONGLY FOUND\n/);
      assertEquals((await svcMl(["infer", image, "--model", "thing"], { env })).code, 4);
      // The key of an organization without machines will do, and nothing stays behind.
      const data = client(DataService, await channel(world.owner));
      const count = async () => (await data.binaryDataByFilter({ countOnly: true })).count;
      const before = await count();
      await (await app(world.owner)).deleteRobot({ id: world.machine });
      const again = JSON.parse(await ml("infer", image, "--model", "things", "--json"));
      assertEquals(again.classifications.length, 3);
      assertEquals(await count(), before);
    }, new EmbeddedExecutor(CONTENT, { epochsMax: 1 })),
);

storeTest(
  "images are added without a machine, and stay with their organization",
  (database) =>
    withCloud(database, async ({ store, url, app, channel }) => {
      const { folder } = database;
      const added = async (world: World) => {
        const { owner: { id, key }, machine } = world;
        await (await app(world.owner)).deleteRobot({ id: machine });
        const env = { SVC_BASE_URL: url, SVC_API_KEY_ID: id, SVC_API_KEY: key, SVC_HOME: folder };
        const ml = async (...args: string[]) => {
          const { code, output, errors } = await svcMl(args, { env });
          assertEquals(code, 0, `svc-ml ${args.join(" ")}: ${errors}`);
          return output;
        };
        const ids = async (): Promise<string[]> =>
          JSON.parse(await ml("dataset", "images", "pets", "--json")).images.map(({ id }: { id: string }) =>
            id
          );
        await addDataset({ folder, ml });
        const first = await ids();
        // Added again they are the same ones.
        await ml("dataset", "add", "pets", `${folder}/photos`);
        assertEquals(await ids(), first);
        const [dataset] = JSON.parse(await ml("dataset", "list", "--json")).datasets;
        return { ids: first, dataset: dataset.id };
      };
      const [mine, other] = [await newWorld(store), await newWorld(store)];
      const [here, there] = [await added(mine), await added(other)];
      // The very same files, of two organizations.
      assertEquals(new Set([...here.ids, ...there.ids]).size, 32);
      const upload = async (datasetIds: string[], organizationId = "") => {
        async function* packets() {
          const uploadMetadata = {
            type: DataType.BINARY_SENSOR,
            fileName: "a.png",
            datasetIds,
            organizationId,
          };
          yield { uploadPacket: { case: "metadata", value: { uploadMetadata } } } as const;
          yield { uploadPacket: { case: "data", value: PNG } } as const;
        }
        const { streamingDataCaptureUpload } = client(DataSyncService, await channel(mine.operator));
        return await streamingDataCaptureUpload(packets()).then(
          () => "ok",
          (error) => `${error.code}: ${error.message}`,
        );
      };
      assertEquals(await upload([here.dataset]), "ok");
      for (const ids of [[there.dataset], [here.dataset, there.dataset]]) {
        assertMatch(await upload(ids), /^permission_denied: /);
      }
      assertEquals(await upload([], mine.organization), "ok");
      for (
        const [ids, organization] of [
          [[], other.organization],
          [[here.dataset], other.organization],
          [[there.dataset], mine.organization],
        ] as const
      ) assertMatch(await upload([...ids], organization), /^permission_denied: /);
      assertMatch(
        await upload([]),
        /^invalid_argument: .*metadata.upload_metadata.part_id is empty, wanted the id of a part, or metadata.+dataset_ids/,
      );
    }),
);
