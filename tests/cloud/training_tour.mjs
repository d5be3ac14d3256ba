/**
 * A tour of the training service of a control plane with the published TypeScript SDK, as a program of its own: it
 * runs in Node and in Deno. It prints one JSON object of what it saw; the test that started it judges.
 *
 * Use: training_tour.mjs URL KEY_ID KEY ORGANIZATION DATASET SCRIPT grpc|grpc-web
 */

import process from "node:process";

// Where there are workers the library takes itself to be in a browser and starts one of a kind that Deno has not.
delete globalThis.Worker;

const { createViamClient, mlTrainingApi } = await import("@viamrobotics/sdk");
const [serviceHost, authEntity, payload, organization, dataset, script, transport] = process.argv.slice(2);

if (transport === "grpc") {
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  globalThis.VIAM = {
    GRPC_TRANSPORT_FACTORY: (options) => createGrpcTransport({ httpVersion: "2", ...options }),
  };
}

const { mlTrainingClient: training } = await createViamClient({
  serviceHost,
  credentials: { type: "api-key", authEntity, payload },
});
const { ModelType, TrainingStatus } = mlTrainingApi;
const submit = (version, tags = ["cat", "dog"]) =>
  training.submitTrainingJob(
    organization,
    dataset,
    `pets-${transport}`,
    version,
    ModelType.SINGLE_LABEL_CLASSIFICATION,
    tags,
  );
const until = async (id, ...wanted) => {
  for (;;) {
    const { status } = await training.getTrainingJob(id);
    if (wanted.includes(status)) return TrainingStatus[status];
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const codeOf = (run) => run.then(() => 0, ({ code }) => code);
const seen = {};

const finished = await submit("finish");
seen.finished = await until(finished, TrainingStatus.COMPLETED, TrainingStatus.FAILED);
const { modelVersion, tags, isCustomJob } = await training.getTrainingJob(finished);
seen.job = { modelVersion, tags, isCustomJob };
const canceled = await submit("wait");
await training.cancelTrainingJob(canceled);
seen.canceled = await until(canceled, TrainingStatus.CANCELED, TrainingStatus.COMPLETED);
seen.custom = await until(
  await training.submitCustomTrainingJob(
    organization,
    dataset,
    script,
    "1.0.0",
    `own-${transport}`,
    "finish",
  ),
  TrainingStatus.COMPLETED,
);
const mine = async (status) =>
  (await training.listTrainingJobs(organization, status)).filter(({ modelName }) =>
    modelName.endsWith(`-${transport}`)
  );
seen.list = (await mine(TrainingStatus.UNSPECIFIED)).map(({ modelVersion }) => modelVersion);
seen.completed = (await mine(TrainingStatus.COMPLETED)).length;
seen.again = await codeOf(submit("finish"));
seen.wrong = await codeOf(submit("x", ["cat", "cow"]));
await training.deleteCompletedTrainingJob(finished);
seen.gone = await codeOf(training.getTrainingJob(finished));

console.log(JSON.stringify(seen));
process.exit(0);
