/**
 * From pictures to a working model: the embedded trainer behind the service, and the model's answer for a stored image.
 */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import { MLTrainingService, ModelType, TrainingStatus } from "../../proto/gen/ml_training_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { EmbeddedExecutor } from "../../lib/cloud/executors/embedded.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { EXAMPLE_LABELS, exampleImages, pngOf } from "../../lib/learn/example_scene.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { sqliteTest } from "./stores.ts";
import { newDataset } from "./training_world.ts";
import { CONTENT, newWorld, withCloud } from "./world.ts";
import { until } from "../support/until.ts";

/** How long a small training may take on a computer that is busy. */
const TRAINING_MS = 5 * 60_000;
const OVER = [TrainingStatus.COMPLETED, TrainingStatus.FAILED, TrainingStatus.CANCELED];

function pictures(count: number) {
  return exampleImages(count, 1, { things: [1, 1] }).map((picture) => {
    return { bytes: pngOf(picture), tags: picture.labels, boxes: picture.boxes };
  });
}

sqliteTest(
  "GetInference classifies a stored image with a model trained by the embedded trainer",
  (database) =>
    withCloud(database, async ({ store, files, channel }) => {
      const world = await newWorld(store);
      const dataset = await newDataset(store, files, world, pictures(16));
      const connection = await channel(world.owner);
      const training = client(MLTrainingService, connection);
      const organizationId = world.organization;
      const { id } = await training.submitTrainingJob({
        organizationId,
        datasetId: dataset,
        modelName: "things",
        modelVersion: "1",
        modelType: ModelType.SINGLE_LABEL_CLASSIFICATION,
        tags: [...EXAMPLE_LABELS],
      });
      const job = await until(async () => {
        const { metadata } = await training.getTrainingJob({ id });
        return OVER.includes(metadata!.status) && metadata!;
      }, { withinMs: TRAINING_MS });
      assertEquals([job.status, job.errorStatus], [TrainingStatus.COMPLETED, undefined]);
      const lines = (await training.getTrainingJobLogs({ id })).logs.map(({ message }) => message);
      assertMatch(
        lines.find((line) => line.startsWith("epoch 1/"))!,
        /^epoch 1\/2 loss [\d.]+ validation [\d.]+ /,
      );

      const [{ id: image }] = await store.query<{ id: string }>("SELECT id FROM binary_data LIMIT 1");
      const { getInference } = client(MLInferenceService, connection);
      const about = { registryItemId: `${organizationId}:things`, registryItemVersion: "1", organizationId };
      const answer = await getInference({ ...about, binaryDataId: image });
      assertEquals(Object.keys(answer.outputTensors!.tensors), ["probability"]);
      const classes = answer.annotations!.classifications;
      assertEquals(classes.map(({ label }) => label).sort(), [...EXAMPLE_LABELS].sort());
      assert(Math.abs(classes.reduce((sum, { confidence }) => sum + confidence!, 0) - 1) < 1e-3);
      // Another organization sees neither the model nor the image.
      const other = await newWorld(store);
      const theirs = client(MLInferenceService, await channel(other.owner)).getInference;
      const asked = { ...about, organizationId: other.organization, binaryDataId: image };
      assertStringIncludes(await refusal(theirs(asked)), "not_found: there is no package");
      await publishOpenly(store, `${organizationId}:things`);
      assertStringIncludes(await refusal(theirs(asked)), "not_found: there is no data");
      assertStringIncludes(await refusal(getInference(about)), "invalid_argument: binary_data_id");
    }, { training: { managed: new EmbeddedExecutor(CONTENT, { epochsMax: 2 }) } }),
);

async function publishOpenly(store: Parameters<typeof newWorld>[0], id: string): Promise<void> {
  await store.transaction(async (sql) => {
    const packages = new Packages(sql);
    const item = await packages.item(id);
    await packages.setNamespace(item.organizationId, "things-for-all");
    await packages.updateItem(item, { visibility: "public" }, 0);
  });
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
