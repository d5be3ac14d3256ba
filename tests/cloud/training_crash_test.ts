/**
 * Killed while jobs run and wait: waiting jobs continue, and running ones begin anew, without leftovers.
 */

import { assertEquals } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { MLTrainingService, TrainingStatus } from "../../proto/gen/ml_training_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";
import { noScripts, prepareScript, scriptArchive } from "./training_world.ts";
import { until, untilGone } from "../support/until.ts";

const clock = new SystemClock();
/** For how long the script would sleep: a word that finds it among all processes. */
const MARK = `1000.${Math.floor(Math.random() * 1e9)}`;
const SLEEPER =
  `import subprocess\nprint("process begun", flush=True)\nsubprocess.run(["sleep", "${MARK}"])\n`;
const reason = await noScripts();
const { PENDING, IN_PROGRESS, COMPLETED, FAILED, CANCELED } = TrainingStatus;

Deno.test({
  name: `after a SIGKILL of svc-cloud its running job begins anew, and then its waiting job runs ${reason}`,
  ignore: reason !== "",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
    try {
      const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
      const [datasetId, registryItemId] = await prepareScript(folder, example, scriptArchive(SLEEPER));
      const flags = ["--data", folder, "--training", "scripts"];
      let [running, waiting, token] = ["", "", ""];
      const submission = {
        organizationId: example.organizationId,
        datasetId,
        registryItemId,
        registryItemVersion: "latest",
        modelName: "pets",
      };
      const first = await serveCloud(flags);
      token = await tokenOf(first.url, example);
      await withChannel(first.url, token, async (channel) => {
        const training = client(MLTrainingService, channel);
        running = (await training.submitCustomTrainingJob({ ...submission, modelVersion: "1" })).id;
        waiting = (await training.submitCustomTrainingJob({ ...submission, modelVersion: "2" })).id;
        await lineOf(training, running, /^process (.+)$/);
        assertEquals((await training.getTrainingJob({ id: waiting })).metadata!.status, PENDING);
      });
      await first.stop("SIGKILL");
      await untilGone(MARK);

      const second = await serveCloud(flags);
      await withChannel(second.url, token, async (channel) => {
        const training = client(MLTrainingService, channel);
        await lineOf(training, running, /^(interrupted: .* went away); it waits, and begins anew$/);
        await reached(training, running, IN_PROGRESS);
        await until(async () => (await linesOf(training, running, /^process begun$/)).length === 2);
        await training.cancelTrainingJob({ id: running });
        await reached(training, running, CANCELED);

        await reached(training, waiting, IN_PROGRESS);
        await lineOf(training, waiting, /^process (.+)$/);
        await training.cancelTrainingJob({ id: waiting });
        await reached(training, waiting, CANCELED);
        const { apiKeys } = await client(AppService, channel).listKeys({ orgId: example.organizationId });
        assertEquals(apiKeys.filter(({ apiKey }) => apiKey!.name.startsWith("training job")), []);
      });
      assertEquals(await second.stop(), 0);
      assertEquals([...Deno.readDirSync(`${folder}/training`)].map(({ name }) => name), []);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

for (const [way, flags] of [["a sandbox", []], ["no sandbox", ["--scripts-without-sandbox"]]] as const) {
  Deno.test({
    name: `a script runs with ${way} if --data is a relative path ${reason}`,
    ignore: reason !== "",
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
      try {
        const example: Example = JSON.parse(await svcCloud("init", "--data", `${folder}/data`, "--json"));
        const made = scriptArchive(`open("../output/model.txt", "w").write("learned")\n`);
        const [datasetId, registryItemId] = await prepareScript(`${folder}/data`, example, made);
        const there = ["--data", "data", "--training", "scripts", ...flags];
        const cloud = await serveCloud(there, { cwd: folder });
        try {
          await withChannel(cloud.url, await tokenOf(cloud.url, example), async (channel) => {
            const training = client(MLTrainingService, channel);
            const { organizationId } = example;
            const script = { registryItemId, registryItemVersion: "latest" };
            const about = { organizationId, datasetId, ...script, modelName: "pets", modelVersion: "1" };
            const { id } = await training.submitCustomTrainingJob(about);
            const { status, errorStatus } = await reached(training, id, COMPLETED, FAILED);
            assertEquals([status, errorStatus?.message], [COMPLETED, undefined]);
          });
        } finally {
          await cloud.stop();
        }
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

async function tokenOf(url: string, { ownerKey: { id: entity, key: payload } }: Example): Promise<string> {
  let token = "";
  await withChannel(url, "", async (channel) => {
    const { authenticate } = client(AuthService, channel);
    token = (await authenticate({ entity, credentials: { type: "api-key", payload } })).accessToken;
  });
  return token;
}

async function withChannel(
  url: string,
  token: string,
  run: (channel: Channel) => Promise<void>,
): Promise<void> {
  const header = token ? Metadata.from([["authorization", `Bearer ${token}`]]) : undefined;
  const channel = connectGrpc(new URL(url).host, { clock, header });
  try {
    await run(channel);
  } finally {
    channel.close();
  }
}

type Training = ReturnType<typeof client<typeof MLTrainingService>>;

async function reached({ getTrainingJob }: Training, id: string, ...wanted: TrainingStatus[]) {
  return await until(async () => {
    const { metadata } = await getTrainingJob({ id });
    return wanted.includes(metadata!.status) && metadata!;
  });
}

/** The first line of this form in the log of a job. */
async function lineOf(training: Training, id: string, form: RegExp): Promise<string> {
  return await until(async () => form.exec((await linesOf(training, id, form))[0] ?? "")?.[1]);
}

async function linesOf({ getTrainingJobLogs }: Training, id: string, form: RegExp): Promise<string[]> {
  const { logs } = await getTrainingJobLogs({ id });
  return logs.map(({ message }) => message).filter((message) => form.test(message));
}
