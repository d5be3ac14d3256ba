/** The client of the training service, over a service in memory. */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MLTrainingService } from "../../proto/gen/ml_training_pb.ts";
import { TrainingService } from "../../proto/gen/training_pb.ts";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { Secret } from "../base/secret.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import { service, type ServiceImpl, ServiceTable } from "../wire/rpc/service.ts";
import { connectApp } from "./app_channel.ts";
import {
  LogReader,
  MlTrainingClient,
  ModelFramework,
  ModelType,
  parseFramework,
  parseModelType,
  parseStatus,
  TrainingStatus,
} from "./training_client.ts";

/** A client of a service that records its requests by method. */
function clientOf(handlers: ServiceImpl<typeof MLTrainingService> = {}) {
  const asked: [method: string, request: unknown][] = [];
  const clock = new SystemClock();
  const table = new ServiceTable(clock, [(ctx, request) => {
    const { $typeName: _, ...fields } = request as unknown as Record<string, unknown>;
    asked.push([ctx.method.localName, fields]);
  }]);
  table.add(service(MLTrainingService, {
    submitTrainingJob: () => ({ id: "job-1" }),
    submitCustomTrainingJob: () => ({ id: "job-2" }),
    getTrainingJob: ({ id }) => ({ metadata: { id } }),
    listTrainingJobs: () => ({ jobs: [{ id: "job-1" }] }),
    cancelTrainingJob: () => ({}),
    deleteCompletedTrainingJob: () => ({}),
    getTrainingJobLogs: () => ({ logs: [{ message: "hello" }] }),
    ...handlers,
  }));
  return { asked, table, jobs: new MlTrainingClient(memoryChannel(table)) };
}

Deno.test("the published operations exist in both styles of names, with the same meaning", async () => {
  const { asked, jobs } = clientOf();
  const managed = ["org", "dataset", "model", "v1", ModelType.OBJECT_DETECTION, ["a", "b"]] as const;
  const custom = ["org", "dataset", "org:script", "v2", "model", "v1"] as const;
  assertEquals(await jobs.submitTrainingJob(...managed), "job-1");
  assertEquals(await jobs.submitCustomTrainingJob(...custom), "job-2");
  assertEquals((await jobs.getTrainingJob("job-1")).id, "job-1");
  assertEquals((await jobs.listTrainingJobs("org")).map(({ id }) => id), ["job-1"]);
  await jobs.cancelTrainingJob("job-1");
  await jobs.deleteCompletedTrainingJob("job-1");
  assertEquals((await jobs.getTrainingJobLogs("job-1")).logs.map(({ message }) => message), ["hello"]);
  const camel = asked.splice(0);
  assertEquals(await jobs.submit_training_job(...managed), "job-1");
  assertEquals(await jobs.submit_custom_training_job(...custom), "job-2");
  assertEquals((await jobs.get_training_job("job-1")).id, "job-1");
  assertEquals((await jobs.list_training_jobs("org")).map(({ id }) => id), ["job-1"]);
  await jobs.cancel_training_job("job-1");
  await jobs.delete_completed_training_job("job-1");
  assertEquals((await jobs.get_training_job_logs("job-1")).logs.length, 1);
  assertEquals(asked, camel);
  assertEquals(camel[0], ["submitTrainingJob", {
    organizationId: "org",
    datasetId: "dataset",
    modelName: "model",
    modelVersion: "v1",
    modelType: ModelType.OBJECT_DETECTION,
    modelFramework: ModelFramework.UNSPECIFIED,
    tags: ["a", "b"],
  }]);
});

Deno.test("MlTrainingClient: sends framework, arguments and container version as well", async () => {
  const { asked, jobs } = clientOf();
  const modelFramework = ModelFramework.TFLITE;
  await jobs.submitTrainingJob("o", "d", "m", "v", ModelType.OBJECT_DETECTION, [], { modelFramework });
  const given = { arguments: { epochs: "3" }, containerVersion: "python:3.11" };
  await jobs.submitCustomTrainingJob("o", "d", "o:s", "1", "m", "v", given);
  await jobs.listTrainingJobs("o", TrainingStatus.RUNNING);
  const [managed, custom, list] = asked.map(([, request]) => request as Record<string, unknown>);
  assertEquals(managed.modelFramework, modelFramework);
  assertEquals([custom.arguments, custom.containerVersion], [given.arguments, given.containerVersion]);
  assertEquals(list.status, TrainingStatus.IN_PROGRESS);
});

Deno.test("MlTrainingClient: sends training options only to servers that support them", async () => {
  const { asked, jobs, table } = clientOf();
  const submit = (more: Parameters<typeof jobs.submitTrainingJob>[6]) =>
    jobs.submitTrainingJob("o", "d", "m", "v", ModelType.OBJECT_DETECTION, ["a"], more);
  const refused = await assertRejects(
    () => submit({ seed: 0 }),
    SvcError,
    "does not train with epochs, seed or",
  );
  assertEquals([refused.code, asked.length], ["unimplemented", 0]);
  table.add(service(TrainingService, { submitTrainingJob: () => ({ id: "job-3" }) }));
  assertEquals(await submit({ seed: 0 }), "job-3");
  await submit({ epochs: 500, seed: 2 ** 32 - 1, holdoutPercent: 5 });
  assertEquals(
    asked.map(([, request]) => request as Record<string, unknown>).map((
      one,
    ) => [one.epochs, one.seed, one.holdoutPercent]),
    [[undefined, 0, undefined], [500, 2 ** 32 - 1, 5]],
  );
  for (
    const [wrong, logged] of [
      [{ epochs: 0 }, "epochs: found 0, wanted a whole number from 1 to 500"],
      [{ seed: -1 }, "seed: found -1, wanted a whole number from 0 to 4294967295"],
      [{ holdoutPercent: 51 }, "holdout_percent: found 51, wanted a whole number from 5 to 50"],
    ] as const
  ) {
    const { code } = await assertRejects(() => submit(wrong), SvcError, logged);
    assertEquals([code, asked.length], ["invalid_argument", 2]);
  }
});

Deno.test("MlTrainingClient: refuses empty arguments before sending", async () => {
  const { asked, jobs } = clientOf();
  const refused = async (call: Promise<unknown>, message: string) => {
    const error = await assertRejects(() => call, SvcError, message);
    assertEquals(error.code, "invalid_argument");
  };
  await refused(
    jobs.submitTrainingJob("o", "", "m", "", 1, []),
    "wanted a text for dataset_id, model_version, found none",
  );
  await refused(jobs.submitTrainingJob("o", "d", "m", "v", ModelType.UNSPECIFIED, []), "model_type is empty");
  await refused(jobs.submitCustomTrainingJob("o", "d", "", "1", "m", "v"), "registry_item_id");
  await refused(jobs.getTrainingJob(""), "wanted a text for id");
  await refused(jobs.listTrainingJobs(""), "organization_id");
  assertEquals(asked, []);
});

Deno.test("MlTrainingClient: errors keep the code and text of the answer", async () => {
  const { jobs } = clientOf({
    cancelTrainingJob() {
      throw new SvcError("failed_precondition", "it is completed");
    },
  });
  const error = await assertRejects(() => jobs.cancelTrainingJob("job-1"), SvcError, "it is completed");
  assertEquals(error.code, "failed_precondition");
});

Deno.test("LogReader: returns each entry once while pages grow", async () => {
  const lines: string[] = [];
  const { jobs } = clientOf({
    getTrainingJobLogs({ pageToken }) {
      const from = Number(pageToken ?? 0);
      const page = lines.slice(from, from + 2);
      const nextPageToken = lines.length > from + 2 ? String(from + 2) : "";
      return { logs: page.map((message) => ({ message })), nextPageToken };
    },
  });
  const reader = new LogReader(jobs, "job-1");
  const next = async () => (await reader.next()).map(({ message }) => message);
  assertEquals(await next(), []);
  lines.push("a");
  assertEquals(await next(), ["a"]);
  assertEquals(await next(), []);
  lines.push("b", "c", "d", "e");
  assertEquals(await next(), ["b", "c", "d", "e"]);
  lines.push("f");
  assertEquals(await next(), ["f"]);
  lines.push("g");
  assertEquals(await next(), ["g"]);
});

Deno.test("parseModelType, parseFramework and parseStatus: accept every published spelling", () => {
  for (
    const text of [
      "object-detection",
      "OBJECT_DETECTION",
      "Model_Type_Object-Detection",
      " object_detection ",
    ]
  ) {
    assertEquals(parseModelType(text), ModelType.OBJECT_DETECTION);
  }
  assertEquals(parseFramework("model_framework_onnx"), ModelFramework.ONNX);
  assertEquals([parseStatus("running"), parseStatus("in-progress")], [
    TrainingStatus.IN_PROGRESS,
    TrainingStatus.IN_PROGRESS,
  ]);
  const wrong = (parse: () => unknown, message: string) => assertThrows(parse, SvcError, message);
  wrong(() => parseModelType("object-detectoin"), "did you mean object-detection?");
  wrong(() => parseModelType("unspecified"), 'found model type "unspecified"');
  wrong(() => parseStatus("3"), 'found training status "3"');
  wrong(() => parseFramework("constructor"), 'found model framework "constructor"');
});

Deno.test("connectApp: refuses to send a key without TLS, except to this computer", () => {
  const given = { keyId: "id", key: new Secret("key"), clock: new SystemClock() };
  const error = assertThrows(() => connectApp({ ...given, address: "http://cloud.example:80" }), SvcError);
  assertEquals(error.code, "failed_precondition");
  for (
    const address of ["http://localhost:1", "http://127.0.0.1", "http://[::1]:1", "https://cloud.example"]
  ) {
    connectApp({ ...given, address }).close();
  }
  connectApp({ ...given, address: "http://cloud.example", allowInsecureCredentials: true }).close();
});
