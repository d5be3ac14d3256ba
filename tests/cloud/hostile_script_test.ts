/**
 * Hostile training scripts against the executor, and against an svc-cloud that serves: nothing leaks, nothing stays,
 * the server lives and the next job runs.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { Health } from "../../proto/gen/health_pb.ts";
import { MLTrainingService, TrainingStatus } from "../../proto/gen/ml_training_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../lib/cloud/executors/script.ts";
import { openSandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import type { TrainingJob } from "../../lib/cloud/training/training.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { HOSTILE_SCRIPT, hostileSetup, LOUD_ATTEMPTS, QUIET_ATTEMPTS } from "../attack/hostile_script.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";
import { newJob, noScripts, prepareScript, scriptArchive } from "./training_world.ts";
import { until, untilGone } from "../support/until.ts";

const clock = new SystemClock();
const host = new DenoHost();
const reason = await noScripts();
const MIB = 1024 ** 2;
/** How long the hostile script may go on. */
const JOB_MS = 5 * 60_000;
const SMALL = {
  ...SCRIPT_LIMITS,
  memoryBytes: 300 * MIB,
  cpuSeconds: 8,
  folderBytes: 200 * MIB,
  folderFiles: 5_000,
};

/** Looks for every Python and tries it, once for all attempts. */
const executor = reason === "" ? await openExecutor() : undefined;

async function openExecutor(): Promise<ScriptExecutor> {
  const sandbox = await openSandbox(host, clock);
  if (typeof sandbox === "string") throw new Error(sandbox);
  return (await ScriptExecutor.open(host, clock, { sandbox, network: false, limits: SMALL }))!;
}

for (const [attempt, why] of Object.entries(LOUD_ATTEMPTS)) {
  Deno.test({
    name: `a script that exceeds a limit (${attempt}) fails with the reason ${reason}`,
    ignore: reason !== "",
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-work-" });
      await Deno.mkdir(`${folder}/output`);
      const lines: string[] = [];
      const container = executor!.environments[0].key;
      const script = { id: "a:b", version: "1", sha256: "script", arguments: { attempt }, container };
      const job: TrainingJob = {
        ...newJob("org"),
        id: "job",
        state: "in_progress",
        createdMs: 0,
        modifiedMs: 0,
        interruptions: 0,
        script,
      };
      const work = {
        job,
        folder,
        images: [],
        read: () => scriptArchive(HOSTILE_SCRIPT),
        log: (_level: string, line: string) => void lines.push(line),
        signal: new AbortController().signal,
      };
      try {
        const { message } = await assertRejects(() => executor!.run(work), SvcError);
        assertMatch(message, why);
        assertEquals(lines.filter((line) => line.startsWith("LEAK")), []);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test({
  name: `a hostile script reads nothing of a serving svc-cloud and leaves nothing behind ${reason}`,
  ignore: reason !== "",
  fn: async () => {
    const data = await Deno.makeTempDir({ prefix: "svc-cloud-" });
    const mark = `100000.${Math.floor(Math.random() * 1e9)}`;
    try {
      const example: Example = JSON.parse(await svcCloud("init", "--data", data, "--json"));
      const archive = scriptArchive(HOSTILE_SCRIPT, { "setup.py": hostileSetup(data, mark) });
      const [datasetId, registryItemId] = await prepareScript(data, example, archive);
      const cloud = await serveCloud([
        ...[
          "--data",
          data,
          "--training",
          "scripts",
          "--scripts-memory-mib",
          "300",
          "--scripts-disk-mib",
          "200",
        ],
      ]);
      const { organizationId, ownerKey } = example;
      const token = await tokenFor(cloud.url, ownerKey);
      const header = Metadata.from([["authorization", `Bearer ${token}`]]);
      const channel = connectGrpc(new URL(cloud.url).host, { clock, header });
      try {
        const training = client(MLTrainingService, channel);
        const run = async (attempt: string) => {
          const surroundings = { data, server_pid: `${cloud.pid}`, port: new URL(cloud.url).port, mark };
          const { id } = await training.submitCustomTrainingJob({
            ...{
              organizationId,
              datasetId,
              registryItemId,
              registryItemVersion: "latest",
              modelName: "model",
              arguments: { ...surroundings, attempt },
            },
            modelVersion: crypto.randomUUID(),
          });
          return await ended(training, id);
        };
        const quiet = await run(QUIET_ATTEMPTS.join(","));
        assertEquals(quiet.lines.filter((line) => line.includes("LEAK")), []);
        assert(quiet.lines.includes(`done ${QUIET_ATTEMPTS.join(",")}`), quiet.lines.join("\n"));
        await untilGone(mark);
        for (const attempt of ["memory_of_many", "disk"] as const) {
          const { status, error } = await run(attempt);
          assertEquals(status, TrainingStatus.FAILED);
          assertMatch(error, LOUD_ATTEMPTS[attempt]);
        }
        const { status, error } = await run("");
        assertEquals([status, error], [TrainingStatus.COMPLETED, ""]);
        assertEquals((await client(Health, channel).check({})).status, 1);
      } finally {
        channel.close();
        await cloud.stop();
      }
    } finally {
      await Deno.remove(data, { recursive: true });
    }
  },
});

type Training = ReturnType<typeof client<typeof MLTrainingService>>;

async function tokenFor(url: string, { id: entity, key: payload }: Example["ownerKey"]): Promise<string> {
  const channel = connectGrpc(new URL(url).host, { clock });
  try {
    const { authenticate } = client(AuthService, channel);
    return (await authenticate({ entity, credentials: { type: "api-key", payload } })).accessToken;
  } finally {
    channel.close();
  }
}

/** The state of a job after its end, and its complete log. */
async function ended({ getTrainingJob, getTrainingJobLogs }: Training, id: string) {
  const { status, errorStatus } = await until(async () => {
    const { metadata } = await getTrainingJob({ id });
    return metadata!.trainingEnded && metadata!;
  }, { withinMs: JOB_MS });
  const lines: string[] = [];
  for (let pageToken = "", more = true; more; more = pageToken !== "") {
    const page = await getTrainingJobLogs({ id, pageToken });
    lines.push(...page.logs.map(({ message }) => message));
    pageToken = page.nextPageToken;
  }
  return { status, error: errorStatus?.message ?? "", lines };
}
