/**
 * The commands on jobs, for a person and for a program: output, requests, exit code.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { CODES, SvcError } from "../../lib/base/error.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { ModelType, TrainingStatus } from "../../lib/cloud_client/training_client.ts";
import { type FakeCloud, THEN_MS, withFakeCloud } from "./fake_cloud.ts";
import { envOf, svcMl } from "./program.ts";
import { styleProblems } from "../support/json_style.ts";

/** A dataset of 16 squares and circles, and a finished, a failed and a running job. */
function fill(cloud: FakeCloud): void {
  cloud.datasets.push({ id: "dataset-1", name: "shapes" });
  for (let at = 0; at < 16; at++) {
    const label = at % 2 === 0 ? "circle" : "square";
    cloud.addImage(`image-${at}`, "dataset-1", { tags: [label], boxes: [label] });
  }
  const job = { datasetId: "dataset-1", modelName: "shapes" };
  for (
    const one of [
      {
        ...job,
        id: "job-1",
        modelVersion: "one",
        status: TrainingStatus.COMPLETED,
        modelType: ModelType.OBJECT_DETECTION,
        tags: ["circle", "square"],
        createdOn: toTimestamp(THEN_MS),
        trainingStarted: toTimestamp(THEN_MS + 1000),
        trainingEnded: toTimestamp(THEN_MS + 131_000),
      },
      {
        ...job,
        id: "job-2",
        modelVersion: "two",
        status: TrainingStatus.FAILED,
        isCustomJob: true,
        registryItemId: "org-1:train",
        arguments: { epochs: "3" },
        errorStatus: { code: CODES.unknown, message: "no images" },
        createdOn: toTimestamp(THEN_MS + 60_000),
      },
      {
        ...job,
        id: "job-3",
        modelVersion: "three",
        status: TrainingStatus.IN_PROGRESS,
        createdOn: toTimestamp(THEN_MS + 30_000),
      },
    ]
  ) cloud.addJob(one);
}

const LIST = `ID     STATUS       MODEL   VERSION  TYPE              CREATED (UTC)        TOOK
job-2  FAILED       shapes  two      custom            2024-01-02 03:05:05  -
job-3  IN_PROGRESS  shapes  three    unspecified       2024-01-02 03:04:35  -
job-1  COMPLETED    shapes  one      object-detection  2024-01-02 03:04:05  2m 10s
`;
const GET = `id            job-1
status        COMPLETED
model         shapes
version       one
type          object-detection
dataset       shapes (dataset-1)
organization  example (org-1)
labels        circle, square
created       2024-01-02 03:04:05
started       2024-01-02 03:04:06
ended         2024-01-02 03:06:16
took          2m 10s
`;

interface Case {
  readonly args: string;
  readonly code?: number;
  /** All of standard output. */
  readonly output?: string;
  /** What standard output says as JSON. */
  readonly json?: unknown;
  /** Part of standard error. */
  readonly errors?: string;
}

const CASES: readonly Case[] = [
  { args: "list", output: LIST },
  { args: "list --sort created --limit 1", output: firstAnd(LIST, "job-1"), errors: "2 more; see --limit" },
  { args: "list --status running", output: firstAnd(LIST, "job-3").replace(/ +/g, " "), errors: "" },
  { args: "list --status TRAINING_STATUS_FAILED --json", json: { jobs: ["job-2"] } },
  {
    args: "list --status ended",
    code: 2,
    errors: 'found training status "ended", wanted pending, in-progress',
  },
  { args: "list --sort age", code: 2, errors: '--sort: found "age", wanted created, ended, status, model' },
  { args: "list --output yaml", code: 2, errors: '--output: found "yaml", wanted table or json' },
  {
    args: "list --org-id other",
    code: 4,
    errors: 'there is no organization "other"; there are example\n',
  },
  { args: "list --org-id exampel", code: 4, errors: "did you mean example?" },
  { args: "list --org-id org- --limit 1 --json", json: { jobs: ["job-2"] } },
  { args: "get job-1", output: GET },
  {
    args: "get job-9",
    code: 4,
    errors: 'svc-ml get: there is no training job "job-9"; there are shapes/one, shapes/two, shapes/three\n',
  },
  { args: "get shapes/one", output: GET },
  { args: "get one", output: GET },
  {
    args: "get shapes",
    code: 2,
    errors: '"shapes" means 3 training jobs: shapes/one (job-1), shapes/two (job-2)',
  },
  { args: "get shapes/tow", code: 4, errors: "did you mean shapes/two?" },
  { args: "cancel three", output: "job-3\n", errors: "svc-ml wait job-3" },
  { args: "list --sort creatd", code: 2, errors: "did you mean created?" },
  { args: "logs job-1 --level wran", code: 2, errors: "did you mean warn?" },
  {
    args: "list --status pending",
    output: "",
    errors: "no training job is pending: svc-ml list shows all\n",
  },
  { args: "list --status pending --quiet", output: "", errors: "" },
  { args: "list --output jsno", code: 2, errors: "did you mean json?" },
  { args: "get", code: 2, errors: "svc-ml get: found no JOB, wanted svc-ml get JOB [flags]\n" },
  { args: "get job-1 job-2", code: 2, errors: 'found "job-2" more than it takes' },
  { args: "cancel job-3", output: "job-3\n", errors: "svc-ml wait job-3" },
  { args: "cancel job-1", code: 5, errors: 'training job "job-1" is completed' },
  { args: "delete job-2 --json", json: { id: "job-2" } },
  { args: "delete job-9", code: 4 },
  { args: "wait job-1", output: GET, errors: "completed after 2m 10s: model shapes, version one" },
  { args: "wait job-2", code: 1, errors: "failed: no images\n" },
  {
    args: "wait job-3 --timeout 20ms",
    code: 124,
    errors: "the job continues without you; follow it with: svc-ml logs -f job-3",
  },
  {
    args: "containers",
    output:
      "KEY          FRAMEWORK  END OF LIFE (UTC)  DESCRIPTION\npython:3.11  any        -            Python on this computer\n",
  },
  { args: "submit", code: 2, errors: "--model-type is missing, wanted one of single-label-classification" },
  {
    args: "submit --model-type object",
    code: 2,
    errors: 'found model type "object", wanted single-label-classification',
  },
  {
    args: "submit --model-type object-detection --if-not-exists",
    code: 2,
    errors: "--if-not-exists needs --model-version",
  },
  {
    args: "submit --model-type object-detection --dataset shape",
    code: 4,
    errors: 'there is no dataset "shape"; did you mean shapes?',
  },
  {
    args: "submit --model-type object-detection --model-version one --labels circle",
    code: 5,
    errors: 'version "one" is there already',
  },
  {
    args: "submit --model-type object-detection --model-version four",
    output: "job-4\n",
    errors: "labels: circle, square\n",
  },
  {
    args: "submit --model-type object-detection --model-version one --if-not-exists",
    output: "job-1\n",
    errors: "this version has been submitted already",
  },
  {
    args: "submit --model-type object-detection --model-version one --if-not-exists --tags circle",
    code: 5,
    errors: "labels circle, square, not circle; choose another version",
  },
  {
    args: "submit --model-type object-detection --epochs 0",
    code: 2,
    errors: '--epochs: found "0", wanted a whole number from 1 to 500',
  },
  {
    args: "submit --model-type object-detection --seed 1e3",
    code: 2,
    errors: '--seed: found "1e3", wanted a whole number from 0 to 4294967295',
  },
  {
    args: "submit --model-type object-detection --holdout 0.2",
    code: 2,
    errors: '--holdout: found "0.2", wanted a whole number from 5 to 50',
  },
  {
    args: "submit --model-type object-detection --seed 7",
    code: 1,
    errors: "this control plane does not train with epochs, seed or holdout_percent, as svc-cloud does",
  },
  {
    args: "submit --model-type object-detection --timeout 5s",
    code: 2,
    errors: "--timeout needs --wait or --follow",
  },
  {
    args: "submit --model-type object-detection --tags=",
    code: 2,
    errors: "--tags or --labels: found no label, wanted one or more",
  },
  { args: "dataset check shapes --labels , --tags a", code: 2, errors: "found no label" },
  { args: "list --limit -1", code: 2, errors: "--limit: found -1, wanted 0 or more" },
  { args: "logs job-1 --tail -1", code: 2, errors: "--tail: found -1, wanted 0 or more" },
  { args: "models list nothing", code: 4, errors: 'there is no model "nothing" in this organization' },
  { args: "script list nothing", code: 4, errors: 'there is no training script "nothing"' },
  { args: "submit-custom --dataset shapes", code: 4, errors: "there is no training script yet" },
  {
    args: "submit-custom --script-name train --arg epochs",
    code: 2,
    errors: '--arg: found "epochs", wanted key=value',
  },
  { args: "nothing", code: 2, errors: 'unknown command "nothing"' },
  { args: "dataset chekc shapes", code: 2, errors: "did you mean dataset check?" },
  { args: "--json list --limit=1", json: { jobs: ["job-2"] } },
];

for (const { args, code = 0, output, json, errors } of CASES) {
  Deno.test(`svc-ml ${args}`, () =>
    withFakeCloud(async (cloud) => {
      fill(cloud);
      const found = await svcMl(args.split(" "), { env: envOf(cloud) });
      assertEquals(found.code, code, found.errors);
      if (output !== undefined) assertEquals(found.output.replace(/ +/g, " "), output.replace(/ +/g, " "));
      if (errors !== undefined) assertStringIncludes(found.errors, errors);
      if (json === undefined) return;
      const value = JSON.parse(found.output);
      assertEquals(value.jobs ? { jobs: value.jobs.map(({ id }: { id: string }) => id) } : value, json);
    }));
}

Deno.test("lists fit 60, 80 and 140 columns, show states in colours, and are whole without a terminal", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const long = "a-name-of-a-model-that-somebody-has-chosen-in-a-hurry";
    const status = TrainingStatus.COMPLETED;
    cloud.addJob({ id: "0c68f41b-7e0d-4f0a-8a55-0123456789ab", modelName: long, modelVersion: long, status });
    cloud.datasets.push({ id: "5d68f41b-7e0d-4f0a-8a55-0123456789ab", name: long });
    cloud.addImage(`${long}-1`, "dataset-1", { tags: [long, `${long}-2`], boxes: [] });
    const lists = [
      "list",
      "dataset list",
      "dataset images shapes",
      "models list",
      "script list",
      "containers",
    ];
    for (const columns of [60, 80, 140]) {
      for (const list of lists) {
        const { output } = await svcMl(list.split(" "), { env: { ...envOf(cloud), NO_COLOR: "1" }, columns });
        const wide = output.split("\n").filter((line) => line.length > columns);
        assertEquals(wide, [], `svc-ml ${list} at ${columns}`);
        assertEquals(output.includes("\x1b"), false, list);
      }
    }
    const { output: coloured } = await svcMl(["list"], { env: envOf(cloud), columns: 140 });
    assertStringIncludes(coloured, "\x1b[31mFAILED");
    assertStringIncludes(coloured, "\x1b[33mIN_PROGRESS");
    assertStringIncludes(coloured, "\x1b[32mCOMPLETED");
    assertStringIncludes((await svcMl(["list"], { env: envOf(cloud) })).output, `${long}  ${long}`);
  }));

/** The line of names and that of one job. */
function firstAnd(table: string, id: string): string {
  const lines = table.split("\n");
  return `${lines[0]}\n${lines.find((line) => line.startsWith(id))}\n`;
}

Deno.test("JSON output has the names of protobuf, and enums by name", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const job = JSON.parse((await svcMl(["get", "job-2", "-o", "json"], { env: envOf(cloud) })).output);
    assertEquals(styleProblems(job), []);
    assertEquals(job, {
      id: "job-2",
      datasetId: "dataset-1",
      datasetName: "shapes",
      organizationId: "org-1",
      organizationName: "example",
      modelName: "shapes",
      modelVersion: "two",
      isCustomJob: true,
      registryItemId: "org-1:train",
      arguments: { epochs: "3" },
      status: "TRAINING_STATUS_FAILED",
      errorStatus: { code: 2, message: "no images" },
      createdOn: "2024-01-02T03:05:05Z",
    });
  }));

Deno.test("submit accepts a model type in every spelling and labels from several flags", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const types = [
      "single-label-classification",
      "SINGLE_LABEL_CLASSIFICATION",
      "Model_Type_Single_Label_Classification",
    ];
    for (const type of types) {
      const args = [
        "submit",
        "--model-type",
        type,
        "--tags",
        "circle, square",
        "--labels=square",
        "--framework",
        "ONNX",
      ];
      const { code, errors } = await svcMl([...args, "--dataset-id", "dataset-1"], { env: envOf(cloud) });
      assertEquals(code, 0, errors);
    }
    const asked = cloud.of("submitTrainingJob") as Record<string, unknown>[];
    assertEquals(
      asked.map((one) => [one.modelType, one.tags, one.modelFramework, one.modelName]),
      types.map(() => [
        ModelType.SINGLE_LABEL_CLASSIFICATION,
        ["circle", "square"],
        4,
        "shapes",
      ]),
    );
    // Submitted within the same second, and still all different.
    assertEquals(new Set(asked.map((one) => one.modelVersion)).size, types.length);
    assertMatch(String(asked[0].modelVersion), /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}-[0-9a-f]{4}$/);
  }));

Deno.test("a dry run shows the request and its problems, and submits nothing", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const args = ["submit", "--model-type", "object-detection", "--model-version", "v", "--dry-run"];
    const logged = await svcMl(args, { env: envOf(cloud) });
    assertEquals(logged.code, 0, logged.errors);
    assertStringIncludes(logged.output, "model    shapes, version v\n");
    assertStringIncludes(logged.output, "circle  8\nsquare  8\n");
    assertStringIncludes(logged.output, "ready to train\n");
    assertStringIncludes(logged.errors, "nothing has been submitted\n");
    const { code, output } = await svcMl([...args, "--json", "--tags", "circle,star"], { env: envOf(cloud) });
    assertEquals(code, 5);
    const { request, check } = JSON.parse(output);
    assertEquals(request, {
      datasetId: "dataset-1",
      organizationId: "org-1",
      modelName: "shapes",
      modelVersion: "v",
      modelType: "MODEL_TYPE_OBJECT_DETECTION",
      tags: ["circle", "star"],
    });
    assertEquals([check.ready, check.labels], [false, { circle: 8, star: 0 }]);
    assertStringIncludes(check.problems[0], 'wanted at least one image with "star"');
    assertEquals(cloud.of("submitTrainingJob"), []);
  }));

Deno.test("submit-custom splits --arg at the first = and reads --args-file", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const file = await Deno.makeTempFile({ suffix: ".json" });
    await Deno.writeTextFile(file, '{ "epochs": 3, "name": "from file" }');
    const args = [
      "submit-custom",
      "--script-name",
      "train",
      "--script-version",
      "v1",
      "--arg",
      "labels=a=b,c",
      "--arg=name=x",
    ];
    const { code, errors } = await svcMl([...args, "--args-file", file], { env: envOf(cloud) });
    await Deno.remove(file);
    assertEquals(code, 0, errors);
    const [asked] = cloud.of("submitCustomTrainingJob") as Record<string, unknown>[];
    assertEquals(asked.arguments, { epochs: "3", name: "x", labels: "a=b,c" });
    assertEquals([asked.registryItemId, asked.registryItemVersion], ["org-1:train", "v1"]);
  }));

Deno.test("if another caller has submitted the same, that job is used", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    const { jobs } = cloud;
    const [quicker] = jobs.splice(0, 1);
    cloud.failures.push({ method: "submitTrainingJob", error: new SvcError("already_exists", "just now") });
    // It appears after the first look for it.
    const list = jobs.filter.bind(jobs);
    let looks = 0;
    jobs.filter = ((...given: Parameters<typeof list>) => {
      if (looks++ === 1) jobs.push(quicker);
      return list(...given);
    }) as typeof jobs.filter;
    const args = ["submit", "--model-type", "object-detection", "--model-version", "one", "--if-not-exists"];
    const { code, output, errors } = await svcMl(args, { env: envOf(cloud) });
    assertEquals([code, output], [0, "job-1\n"], errors);
  }));

Deno.test("an expired token is exchanged once", () =>
  withFakeCloud(async (cloud) => {
    fill(cloud);
    cloud.failures.push({
      method: "listTrainingJobs",
      error: new SvcError("unauthenticated", "token is expired"),
    });
    const { code, errors } = await svcMl(["list"], { env: envOf(cloud) });
    assertEquals(code, 0, errors);
    assertEquals(cloud.of("authenticate").length, 2);
  }));

Deno.test("exit codes: 3 without permission, 1 without an answer", async () => {
  await withFakeCloud(async (cloud) => {
    const env = { ...envOf(cloud), SVC_API_KEY: "wrong" };
    const found = await svcMl(["list"], { env });
    assertEquals([found.code, found.output], [3, ""]);
    assertStringIncludes(found.errors, "invalid credentials");
    cloud.failures.push({
      method: "listTrainingJobs",
      error: new SvcError("permission_denied", "owners only"),
    });
    assertEquals((await svcMl(["list"], { env: envOf(cloud) })).code, 3);
  });
  const nobody = await svcMl(["list"], { env: { SVC_HOME: "/nowhere" } });
  assertEquals(nobody.code, 3);
  assertStringIncludes(nobody.errors, "svc-ml login");
  const env = {
    SVC_BASE_URL: "http://127.0.0.1:1",
    SVC_API_KEY_ID: "a",
    SVC_API_KEY: "b",
    SVC_HOME: "/nowhere",
  };
  assertEquals((await svcMl(["list"], { env })).code, 1);
  const far = await svcMl(["list"], { env: { ...env, SVC_BASE_URL: "http://cloud.example" } });
  assertStringIncludes(far.errors, "an API key does not travel without TLS to http://cloud.example");
});
