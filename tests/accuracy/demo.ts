/**
 * `deno task accuracy:demo`: from nothing to a model that a machine uses, with the three programs as a user runs them.
 *
 * `svc-cloud serve --demo` makes an example. `svc-ml submit --follow` trains a detector on its pictures and reports its
 * quality on the held-back ones. The example's machine gets the model by itself, and its vision service answers about
 * untrained pictures. Exits with 1 if the model is worse than required.
 */

import { VisionService } from "../../proto/gen/vision_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { EXAMPLE_LABELS, exampleImages } from "../../lib/learn/example_scene.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { serveCloud, svcCloud } from "../cloud/program.ts";
import { startServer } from "../support/server.ts";

const PRECISION_MIN = 0.85;
const RECALL_MIN = 0.75;
const OVERLAP_MIN = 0.5;
const CONFIDENCE_MIN = 0.5;
/** As the example's camera shows them (lib/cloud/example.ts). */
const CAMERA = { images: 24, seed: 2 };
const SERVED_MS = 60_000;

const clock = new SystemClock();
const folder = await Deno.makeTempDir({ prefix: "svc-demo-" });
const cloud = await serveCloud(["--demo", "--data", `${folder}/cloud`]);
let ok = false;
try {
  const [, id, key] = /owner's key\s+id (\S+)\s+key (\S+)/.exec(cloud.output()) ?? [];
  const config = /^\{\n[^]*?^\}$/m.exec(cloud.output())?.[0];
  if (!key || !config) throw new Error(`no example was made:\n${cloud.output()}`);
  const env = { SVC_BASE_URL: cloud.url, SVC_API_KEY_ID: id, SVC_API_KEY: key };
  const began = performance.now();
  await train(env);
  console.log(`trained in ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  ok = await use(config, { keyId: id, key: new Secret(key) });
} finally {
  await cloud.stop();
  await Deno.remove(folder, { recursive: true });
}
Deno.exit(ok ? 0 : 1);

async function train(env: Record<string, string>): Promise<void> {
  const program = new URL("../../cli/ml/main.ts", import.meta.url).pathname;
  const args = [
    "run",
    "-A",
    program,
    "submit",
    "--model-type",
    "object-detection",
    "--dataset",
    "things",
    "--follow",
  ];
  const { code } = await new Deno.Command(Deno.execPath(), { args, env, stdin: "null" }).spawn().status;
  if (code !== 0) throw new Error(`svc-ml submit ended with ${code}`);
}

/** Asks the machine's vision service about every picture of its camera. */
async function use(config: string, owner: { keyId: string; key: Secret }): Promise<boolean> {
  const file = `${folder}/machine.json`;
  await Deno.writeTextFile(file, config);
  const server = await startServer(file, {
    args: ["-allow-insecure-creds"],
    env: { SVC_HOME: `${folder}/home` },
  });
  const ca = await svcCloud("authority", "--data", `${folder}/cloud`);
  const channel = connectApp({ address: server.url, ca, ...owner, clock });
  const vision = client(VisionService, channel);
  try {
    const until = performance.now() + SERVED_MS;
    for (;;) {
      try {
        await vision.getProperties({ name: "things" });
        break;
      } catch (error) {
        if (performance.now() > until) throw new Error(`no vision service: ${SvcError.from(error).message}`);
        await clock.sleep(500);
      }
    }
    let [found, right, wanted] = [0, 0, 0];
    for (const { width, height, boxes } of exampleImages(CAMERA.images, CAMERA.seed)) {
      const { detections } = await vision.getDetectionsFromCamera({ name: "things", cameraName: "camera" });
      const sure = detections.filter(({ confidence }) => confidence >= CONFIDENCE_MIN);
      const left = [...boxes];
      for (const one of sure.sort((a, b) => b.confidence - a.confidence)) {
        const box = {
          xMin: Number(one.xMin ?? 0) / width,
          yMin: Number(one.yMin ?? 0) / height,
          xMax: Number(one.xMax ?? 0) / width,
          yMax: Number(one.yMax ?? 0) / height,
        };
        const index = left.findIndex((two) =>
          two.label === one.className && overlap(box, two) >= OVERLAP_MIN
        );
        if (index >= 0) left.splice(index, 1);
        right += index >= 0 ? 1 : 0;
      }
      found += sure.length;
      wanted += boxes.length;
    }
    const [precision, recall] = [right / found, right / wanted];
    const words = `${wanted} of ${EXAMPLE_LABELS.join(", ")} in ${CAMERA.images} new pictures`;
    console.log(`vision service: ${words}: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`);
    return precision >= PRECISION_MIN && recall >= RECALL_MIN;
  } finally {
    channel.close();
    await server.stop();
  }
}

interface Box {
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

function overlap(a: Box, b: Box): number {
  const width = Math.min(a.xMax, b.xMax) - Math.max(a.xMin, b.xMin);
  const height = Math.min(a.yMax, b.yMax) - Math.max(a.yMin, b.yMin);
  const both = Math.max(0, width) * Math.max(0, height);
  const area = (box: Box) => (box.xMax - box.xMin) * (box.yMax - box.yMin);
  return both / (area(a) + area(b) - both);
}
