/**
 * Training scripts on a cluster: the requests to its API, and the work of the pods.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { datasetImage } from "../support/dataset_image.ts";
import { until } from "../support/until.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { SvcError } from "../../lib/base/error.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { DiskSpace } from "../../lib/cloud/store/disk_space.ts";
import { KubernetesExecutor } from "../../lib/cloud/executors/kubernetes/executor.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../lib/cloud/executors/script.ts";
import { NO_SANDBOX } from "../../lib/cloud/sandbox/sandbox.ts";
import type { Work } from "../../lib/cloud/executors/executor.ts";
import {
  type Cluster,
  manifestOf,
  openCluster,
  secretOf,
  sortableTime,
} from "../../lib/cloud/executors/kubernetes/cluster.ts";
import {
  type ClusterState,
  clusterStateOf,
  needsPods,
} from "../../lib/cloud/executors/kubernetes/pod_state.ts";
import { POD_FOLDER } from "../../lib/cloud/executors/kubernetes/pod_program.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import { ServiceTable } from "../../lib/wire/rpc/service.ts";
import { type ApiServer, fakeApi, jobsOf, PODS, REAL, realApi, runJob, secretsOf } from "./kubernetes_api.ts";
import { newJob, scriptArchive, stream } from "./training_world.ts";

const clock = new SystemClock();
const ENVIRONMENT = { key: "python:3", uri: "example.test/python:3", framework: "python", description: "" };
/** Of an executor, beside its cluster and its clock. */
const OPTIONS = {
  host: new SystemFiles(),
  url: "http://x",
  environments: [ENVIRONMENT],
  capacity: 1,
  limits: SCRIPT_LIMITS,
  cpus: 1,
};
const SCRIPT = `
import argparse, json, os, sys
parser = argparse.ArgumentParser()
for name in ("dataset_file", "model_output_directory", "note"):
    parser.add_argument("--" + name, default="")
a = parser.parse_args()
if a.note == "fail":
    sys.exit("no luck")
lines = [json.loads(line) for line in open(a.dataset_file)]
result = {"note": a.note, "key": os.environ["API_KEY"], "sizes": [os.path.getsize(l["image_path"]) for l in lines]}
json.dump(result, open(os.path.join(a.model_output_directory, "model.json"), "w"))
os.makedirs(os.path.join(a.model_output_directory, "tmp"))
open(os.path.join(a.model_output_directory, "tmp", "scratch"), "w").close()
`;

interface Bench {
  readonly executor: KubernetesExecutor;
  readonly work: Work;
  readonly lines: string[];
  readonly cancel: AbortController;
  readonly url: string;
}

async function withExecutor(
  cluster: (folder: string) => Promise<Cluster>,
  note: string,
  run: (bench: Bench) => Promise<void>,
  space?: Pick<DiskSpace, "hold">,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-work-" });
  await Deno.mkdir(`${folder}/output`);
  const cancel = new AbortController();
  const lines: string[] = [];
  const script = {
    id: "o:s",
    version: "1",
    sha256: "script",
    arguments: { note },
    container: ENVIRONMENT.key,
  };
  const image = datasetImage();
  const work: Work = {
    job: {
      ...newJob("org"),
      id: crypto.randomUUID(),
      script,
    },
    images: [image, image],
    folder,
    read: (sha256) => sha256 === "script" ? scriptArchive(SCRIPT) : stream(Uint8Array.of(1, 2, 3)),
    log: (level, message) => void lines.push(`${level} ${message}`),
    apiKey: { id: "the id", key: "the key" },
    signal: cancel.signal,
  };
  let executor: KubernetesExecutor | undefined;
  const port = await openPort({
    table: new ServiceTable(clock),
    bind: { host: "127.0.0.1", port: 0 },
    http: {
      routes: new Map([["/training/v1/*", (request) => executor!.routes.get("/training/v1/*")!(request)]]),
    },
    clock,
  });
  try {
    const options = { ...OPTIONS, url: port.url, clock, space };
    executor = new KubernetesExecutor({ cluster: await cluster(folder), ...options });
    await run({ executor, work, lines, cancel, url: port.url });
  } finally {
    await port.close(1_000);
    await Deno.remove(folder, { recursive: true });
    await Deno.remove(POD_FOLDER, { recursive: true }).catch(() => {});
  }
}

const ONE = { deadlineSeconds: 1, memoryBytes: 1, diskBytes: 1, cpus: 1, secrets: {} };
const UNSHUT = { sandbox: NO_SANDBOX, network: true, limits: SCRIPT_LIMITS };
const SERVERS: { name: string; ignore: boolean; open: (folder: string) => Promise<ApiServer> }[] = [
  { name: "its API in memory", ignore: false, open: fakeApi },
  { name: "a real API server", ignore: !REAL.apiServer || !REAL.etcd, open: realApi },
];
const noPython = await ScriptExecutor.open(new DenoHost(), clock, UNSHUT) === undefined;

for (const { name, ignore, open } of SERVERS) {
  Deno.test({
    name: `kubernetes, ${name}: a job is made, run, cancelled and removed`,
    ignore: ignore || noPython,
    fn: async (test) => {
      let api: ApiServer | undefined;
      const apiFolder = await Deno.makeTempDir({ prefix: "svc-api-" });
      const start = async () =>
        await openCluster("default", clock, (api ??= await open(apiFolder)).kubeconfig);
      try {
        await test.step("the pod fetches its input and sends back the model", () =>
          withExecutor(start, "a=b c", async ({ executor, work, lines, url }) => {
            const running = executor.run(work);
            const [job] = await until(async () => {
              const jobs = await jobsOf(api!);
              return jobs.length > 0 ? jobs : undefined;
            });
            const { data } = await until(() => secretsOf(api!, job).catch(() => undefined));
            assert(!JSON.stringify(job).includes(atob(data.token)), "the job shows its token");
            for (const guess of ["", "Bearer ", "Bearer 00", atob(data.token)]) {
              assertEquals(await statusOf(`${url}/training/v1/input`, guess), 401);
            }
            assertEquals(await statusOf(`${url}/training/v1/${atob(data.token)}/input`, ""), 401);
            const [facts] = await Promise.all([running, runJob(api!)]);
            assertEquals(facts, { model_type: "object_detection", model_framework: "onnx" });
            const model = JSON.parse(await Deno.readTextFile(`${work.folder}/output/model.json`));
            assertEquals(model, { note: "a=b c", key: "the key", sizes: [3, 3] });
            assertEquals([...Deno.readDirSync(`${work.folder}/output`)].length, 1);
            assert(lines.includes("info the job is succeeded"), lines.join("\n"));
            await noJobsLeft(api!);
          }));
        await test.step("the error of a failed script has the reason of the cluster", () =>
          withExecutor(start, "fail", async ({ executor, work }) => {
            const failing = assertRejects(() => executor.run(work), SvcError);
            await runJob(api!);
            assertStringIncludes((await failing).message, "as the test says");
            await noJobsLeft(api!);
          }));
        await test.step("a cancelled job is removed from the cluster", () =>
          withExecutor(start, "", async ({ executor, work, cancel }) => {
            const failing = assertRejects(() => executor.run(work), SvcError, "enough");
            await until(async () => (await jobsOf(api!)).length > 0);
            cancel.abort(new SvcError("canceled", "enough"));
            await failing;
            await noJobsLeft(api!);
          }));
        await test.step("errors contain the message of the cluster", async () => {
          const cluster = await start();
          const job = { name: "twice", image: "i", command: ["c"], env: {}, labels: {}, ...ONE };
          const code = async (run: Promise<unknown>) => (await assertRejects(() => run, SvcError)).code;
          await cluster.create(job);
          assertEquals(await code(cluster.create(job)), "already_exists");
          assertEquals(await code(cluster.create({ ...job, name: "No Name" })), "failed_precondition");
          assertEquals((await cluster.state("twice")).phase, "waiting");
          assertEquals(await cluster.logs("twice", 30), []);
          await cluster.remove("twice");
          await cluster.remove("twice");
          await noJobsLeft(api!);
          // A job that begins anew does not meet what the cluster has not collected yet.
          await cluster.create({ ...job, secrets: { token: "new" } });
          const [again] = await jobsOf(api!);
          assertEquals((await secretsOf(api!, again)).data, { token: btoa("new") });
          await cluster.remove("twice");
          await noJobsLeft(api!);
          assertEquals((await cluster.state("twice")).phase, "gone");
        });
      } finally {
        await api?.close();
        await Deno.remove(apiFolder, { recursive: true });
      }
    },
  });
}

Deno.test("kubernetes: the pod's output is in the log once, and the executor waits for a cluster that does not answer", async () => {
  const fake = new FakeClock();
  const states: (ClusterState | Error)[] = [
    { phase: "waiting", reason: "" },
    new SvcError("unavailable", "no answer"),
    { phase: "running", reason: "" },
    { phase: "failed", reason: "BackoffLimitExceeded" },
  ];
  const printed = [{ at: "1", line: "one" }, { at: "2", line: "two" }, { at: "3", line: "three" }];
  let asked = 0;
  const cluster: Cluster = {
    create: () => Promise.resolve(),
    remove: () => Promise.resolve(),
    // deno-lint-ignore require-await
    state: async () => {
      const state = states[asked++];
      if (state instanceof Error) throw state;
      return state;
    },
    logs: () => Promise.resolve(printed.slice(0, asked - 1)),
  };
  await withExecutor(() => Promise.resolve(cluster), "", async ({ work, lines }) => {
    const options = { ...OPTIONS, cluster, clock: fake };
    const failing = assertRejects(() => new KubernetesExecutor(options).run(work), SvcError);
    for (let look = 0; look < states.length; look++) await fake.advance(2_000);
    assertStringIncludes((await failing).message, "BackoffLimitExceeded; its last lines: one\ntwo\nthree");
    assertEquals(lines.slice(1), [
      "info the job is waiting",
      "warn no answer",
      "info one",
      "info two",
      "info the job is running",
      "info three",
      "info the job is failed",
    ]);
  });
});

Deno.test("kubernetes: the times of lines sort as the lines came, whatever the node writes", () => {
  for (
    const [before, after] of [
      ["2026-10-25T00:59:59.12Z", "2026-10-25T00:59:59.120000001Z"],
      ["2026-10-25T00:59:59Z", "2026-10-25T00:59:59.5Z"],
      ["2026-10-25T02:59:59.9+02:00", "2026-10-25T02:00:00.1+01:00"],
      ["2026-10-25T00:59:59.123456788Z", "2026-10-25T00:59:59.123456789Z"],
    ]
  ) assert(sortableTime(before) < sortableTime(after), `${before} ${after}`);
  assertEquals(sortableTime("2026-10-25T02:00:00.1+01:00"), sortableTime("2026-10-25T01:00:00.100000000Z"));
});

Deno.test("kubernetes: what a pod prints while its output cannot be read is read afterwards", async () => {
  const fake = new FakeClock();
  const asked: number[] = [];
  const cluster: Cluster = {
    create: () => Promise.resolve(),
    remove: () => Promise.resolve(),
    state: () => Promise.resolve({ phase: asked.length > 60 ? "succeeded" : "running", reason: "" }),
    logs: (_name, seconds) => {
      asked.push(seconds);
      const isAway = asked.length > 5 && asked.length < 55;
      return isAway ? Promise.reject(new SvcError("unavailable", "no answer")) : Promise.resolve([]);
    },
  };
  await withExecutor(() => Promise.resolve(cluster), "", async ({ work }) => {
    const failing = assertRejects(
      () => new KubernetesExecutor({ ...OPTIONS, cluster, clock: fake }).run(work),
      SvcError,
    );
    for (let look = 0; look < 65; look++) await fake.advance(2_000);
    await failing;
  });
  assertEquals([asked[1], asked[54], asked[55]], [32, 130, 32]);
});

const ACTIVE = { status: { active: 1, ready: 0 } };
const FAILED = {
  status: {
    conditions: [{ type: "Failed", status: "True", reason: "BackoffLimitExceeded", message: "no more" }],
  },
};
const pendingPod = (reason: string, message = "") => ({
  status: { phase: "Pending", containerStatuses: [{ state: { waiting: { reason, message } } }] },
});
const endedPod = (terminated: { exitCode: number; reason: string }, status: object = {}) => ({
  status: { phase: "Failed", containerStatuses: [{ state: { terminated } }], ...status },
});

Deno.test("kubernetes: the pods tell why a job waits, and why it has failed", () => {
  const pull = pendingPod("ImagePullBackOff", 'Back-off pulling image "typo"');
  const crowded = {
    status: {
      phase: "Pending",
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no room" }],
    },
  };
  const waiting = { phase: "waiting" as const };
  assertEquals(clusterStateOf(ACTIVE, [pull]), {
    ...waiting,
    reason: 'ImagePullBackOff: Back-off pulling image "typo"',
    isStuck: true,
  });
  assertEquals(clusterStateOf(ACTIVE, [crowded]), { ...waiting, reason: "Unschedulable: no room" });
  assertEquals(clusterStateOf(ACTIVE, [pendingPod("ContainerCreating")]), { ...waiting, reason: "" });
  assertEquals(clusterStateOf(ACTIVE, [{ status: { phase: "Running" } }]), { phase: "running", reason: "" });
  assertEquals(clusterStateOf({ status: {} }, []), { ...waiting, reason: "" });

  const failed = (...pods: Parameters<typeof clusterStateOf>[1]) => clusterStateOf(FAILED, pods).reason;
  assertEquals(failed(), "BackoffLimitExceeded: no more");
  assertEquals(
    failed(endedPod({ exitCode: 137, reason: "OOMKilled" })),
    "BackoffLimitExceeded: no more; OOMKilled (exit code 137)",
  );
  assertEquals(
    failed(endedPod({ exitCode: 137, reason: "Error" }, { reason: "Evicted", message: "low on memory" })),
    "BackoffLimitExceeded: no more; Evicted: low on memory; Error (exit code 137)",
  );
  // The pods are asked for only while they can tell more.
  assertEquals(
    [ACTIVE, FAILED, { status: { active: 1, ready: 1 } }, { status: { succeeded: 1 } }].map(needsPods),
    [true, true, false, false],
  );
});

Deno.test("kubernetes: the state of a job is that of its own pod", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-api-" });
  const api = await fakeApi(folder);
  try {
    const cluster = await openCluster("default", clock, api.kubeconfig);
    for (const name of ["one", "two"]) {
      await cluster.create({ name, image: "i", command: ["c"], env: {}, labels: {}, ...ONE });
      await api.call("PATCH", `/apis/batch/v1/namespaces/default/jobs/${name}/status`, ACTIVE);
    }
    const { status } = pendingPod("InvalidImageName", "no");
    await api.call("POST", PODS, { metadata: { name: "p", labels: { "job-name": "two" } }, status });
    assertEquals(await cluster.state("one"), { phase: "running", reason: "" });
    assertEquals(await cluster.state("two"), {
      phase: "waiting",
      reason: "InvalidImageName: no",
      isStuck: true,
    });
  } finally {
    await api.close();
    await Deno.remove(folder, { recursive: true });
  }
});

for (
  const { name, states, ends } of [
    { name: "an image that cannot be pulled", states: [pendingPod("ErrImagePull")], ends: true },
    {
      name: "an image whose pull shows nothing between two tries",
      states: [pendingPod("ImagePullBackOff", "typo"), pendingPod("ContainerCreating")],
      ends: true,
    },
    {
      name: "a place on a full cluster",
      states: [{ status: { phase: "Pending", conditions: [] } }],
      ends: false,
    },
    { name: "an image that arrives late", states: [pendingPod("ErrImagePull"), undefined], ends: false },
  ]
) {
  Deno.test(`kubernetes: a job ${ends ? "does not wait for ever" : "waits"} for ${name}`, async () => {
    const fake = new FakeClock();
    let asked = 0;
    let removed = 0;
    const cluster: Cluster = {
      create: () => Promise.resolve(),
      remove: () => Promise.resolve(void removed++),
      state: () => {
        const pod = states[asked++ % states.length];
        return Promise.resolve(clusterStateOf(ACTIVE, pod ? [pod] : []));
      },
      logs: () => Promise.resolve([]),
    };
    await withExecutor(() => Promise.resolve(cluster), "", async ({ work, cancel }) => {
      const options = { ...OPTIONS, cluster, clock: fake };
      const ended = new KubernetesExecutor(options).run(work).catch((error) => SvcError.from(error));
      for (let second = 0; second < 15 * 60; second += 2) await fake.advance(2_000);
      cancel.abort(new SvcError("canceled", "enough"));
      await fake.advance(2_000);
      const { code, message } = await ended as SvcError;
      assertEquals(code, ends ? "failed_precondition" : "canceled", message);
      if (ends) assertStringIncludes(message, "the job has not started for 10 minutes: ");
      assertEquals(removed, 1);
    });
  });
}

Deno.test("kubernetes: a job runs in the image of its container while the image is allowed", async () => {
  const images: string[] = [];
  const cluster: Cluster = {
    create: ({ image }) => Promise.resolve(void images.push(image)),
    remove: () => Promise.resolve(),
    state: () => Promise.resolve({ phase: "failed", reason: "as the test says" }),
    logs: () => Promise.resolve([]),
  };
  await withExecutor(() => Promise.resolve(cluster), "", async ({ work }) => {
    const { job } = work;
    const image = "registry.example.com/team/trainer:1";
    const own = { ...work, job: { ...job, script: { ...job.script!, container: "the id", image } } };
    const options = { ...OPTIONS, cluster, clock };
    const failure = async (allowed?: string[]) =>
      (await assertRejects(() => new KubernetesExecutor({ ...options, images: allowed }).run(own), SvcError))
        .message;
    assertStringIncludes(await failure(["registry.example.com/team/"]), "as the test says");
    assertEquals(images, [image]);
    assertStringIncludes(
      await failure(["registry.example.com/others/"]),
      `"${image}" is no longer available`,
    );
    assertStringIncludes(await failure(), `"${image}" is no longer available`);
    assertEquals(images, [image]);
  });
});

/** A running job whose pod does nothing by itself: its token opens the pages. */
async function withPod(
  space: Pick<DiskSpace, "hold"> | undefined,
  play: (pod: Bench & { ask(what: string, init?: RequestInit): Promise<Response> }) => Promise<void>,
  read?: Work["read"],
): Promise<void> {
  const token = Promise.withResolvers<string>();
  let phase: ClusterState["phase"] = "running";
  const cluster: Cluster = {
    create: ({ secrets }) => Promise.resolve(token.resolve(secrets.token)),
    remove: () => Promise.resolve(),
    state: () => Promise.resolve({ phase, reason: "" }),
    logs: () => Promise.resolve([]),
  };
  await withExecutor(() => Promise.resolve(cluster), "", async (bench) => {
    const { executor, work, url, cancel } = bench;
    const running = executor.run({ ...work, read: read ?? work.read }).catch(() => {});
    const authorization = `Bearer ${await token.promise}`;
    try {
      await play({
        ...bench,
        ask: (what, init) => fetch(`${url}/training/v1/${what}`, { ...init, headers: { authorization } }),
      });
    } finally {
      phase = "succeeded";
      cancel.abort(new SvcError("canceled", "enough"));
      await running;
    }
  }, space);
}

/** An archive of one file; cut off, it is broken after the file's beginning. */
async function archiveOf(path: string, bytes: number, cutOff = false): Promise<Uint8Array<ArrayBuffer>> {
  const content = randomBytes(bytes);
  const chunks = await Array.fromAsync(packed([{ path, bytes, content: [content] }]));
  const whole = new Uint8Array(Buffer.concat(chunks));
  return cutOff ? whole.slice(0, whole.length - 1_000) : whole;
}

const namesIn = (folder: string) => [...Deno.readDirSync(folder)].map(({ name }) => name);

Deno.test("kubernetes: nothing stays of a model that arrives in part, and the next one is taken", () =>
  withPod(undefined, async ({ work, ask }) => {
    for (const name of ["one", "two", "three"]) {
      const broken = await ask("output", { method: "PUT", body: await archiveOf(name, 60_000, true) });
      assertEquals([broken.status, namesIn(`${work.folder}/output`)], [400, []], await broken.text());
    }
    const whole = await ask("output", { method: "PUT", body: await archiveOf("model", 60_000) });
    assertEquals([whole.status, namesIn(`${work.folder}/output`)], [200, ["model"]], await whole.text());
  }));

Deno.test("kubernetes: a pod sends one model at a time, and none after its job has ended", async () => {
  await withPod(undefined, async ({ work, ask, cancel }) => {
    const bytes = await archiveOf("slow", 200_000);
    const rest = Promise.withResolvers<void>();
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(bytes.slice(0, 100_000));
        await rest.promise;
        controller.close();
      },
    });
    const slow = ask("output", { method: "PUT", body }).then(statusAndDrop, () => 0);
    await until(() => namesIn(`${work.folder}/output`).length > 0);
    for (const name of ["second", "third"]) {
      const answer = await ask("output", { method: "PUT", body: await archiveOf(name, 10) });
      assertEquals([answer.status, await answer.text()], [409, "the model is on its way already\n"]);
    }
    assertEquals(namesIn(`${work.folder}/output`), ["slow"]);

    cancel.abort(new SvcError("canceled", "enough"));
    await until(() => !namesIn(work.folder).includes("output"));
    rest.resolve();
    await slow;
    assertEquals(await statusAndDrop(await ask("input")), 401);
  });
});

Deno.test("kubernetes: a model that would take the database's part of the disk is refused", () => {
  let left = 100_000;
  const hold = {
    grow: (bytes: number) => {
      if ((left -= bytes) >= 0) return Promise.resolve();
      return Promise.reject(new SvcError("resource_exhausted", "the disk is full"));
    },
    release: () => left = 100_000,
  };
  return withPod({ hold: () => Promise.resolve(hold) }, async ({ work, ask }) => {
    const large = await ask("output", { method: "PUT", body: await archiveOf("large", 200_000) });
    assertEquals([large.status, await large.text()], [507, "the disk is full\n"]);
    assertEquals(namesIn(`${work.folder}/output`), []);
    assertEquals(
      await statusAndDrop(await ask("output", { method: "PUT", body: await archiveOf("small", 50_000) })),
      200,
    );
  });
});

Deno.test("kubernetes: a further download of a job's input ends the one before", () => {
  const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let reads = 0;
  const read = async function* () {
    if (++reads === 1) {
      begun.resolve();
      await released.promise;
    }
    yield Uint8Array.of(1, 2, 3);
  };
  return withPod(undefined, async ({ ask }) => {
    const first = ask("input").then((answer) => answer.bytes()).then(() => "whole", () => "ended");
    await begun.promise;
    assertEquals((await (await ask("input")).bytes()).length > 0, true);
    released.resolve();
    assertEquals(await first, "ended");
  }, (sha256) => sha256 === "script" ? scriptArchive(SCRIPT) : read());
});

async function statusAndDrop(answer: Response): Promise<number> {
  await answer.body?.cancel();
  return answer.status;
}

Deno.test("kubernetes: a pod has no rights on its node and on the cluster, and every limit", () => {
  const job = { name: "a", image: "i", command: ["c"], env: { HOME: "/tmp" }, labels: {}, ...ONE };
  const secrets = { token: "sesame" };
  const manifest = manifestOf({ ...job, memoryBytes: 1024, cpus: 3, secrets }, "a-1");
  const { containers: [container], volumes, ...pod } = manifest.spec!.template.spec;
  assertEquals(pod, {
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostUsers: false,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65_534,
      runAsGroup: 65_534,
      fsGroup: 65_534,
      seccompProfile: { type: "RuntimeDefault" },
    },
  });
  assertEquals(container.securityContext, {
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  assertEquals(container.resources?.limits, { cpu: "3", memory: "1024", "ephemeral-storage": "1" });
  // All that is mounted: an empty folder of limited size, and the secrets. Nothing of the node.
  assertEquals(volumes, [
    { name: "work", emptyDir: { sizeLimit: "1" } },
    { name: "secrets", secret: { secretName: "a-1", defaultMode: 0o440 } },
  ]);
  assertEquals(container.volumeMounts?.map(({ mountPath }) => mountPath), [
    "/tmp",
    "/run/secrets/svc-training",
  ]);
  assert(POD_FOLDER.startsWith("/tmp/"));
  assert(!JSON.stringify(manifest).includes("sesame"), "everybody who may look at jobs sees the secret");
  // The cluster removes the secret with its job.
  const { metadata, stringData } = secretOf({ ...job, secrets }, "a-1", "7");
  assertEquals([metadata?.name, metadata?.ownerReferences, stringData], [
    "a-1",
    [{ apiVersion: "batch/v1", kind: "Job", name: "a", uid: "7" }],
    secrets,
  ]);
  assertEquals(manifestOf({ ...job, hostUsers: true }, "a-1").spec!.template.spec.hostUsers, true);
});

async function statusOf(url: string, authorization: string): Promise<number> {
  const answer = await fetch(url, { headers: { authorization } });
  await answer.body?.cancel();
  return answer.status;
}

/** The real one removes a job a moment after it has said so. */
async function noJobsLeft(api: ApiServer): Promise<void> {
  await until(async () => (await jobsOf(api)).length === 0);
}
