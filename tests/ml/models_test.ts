/** Models and scripts on the command line: packed, uploaded, downloaded with interruptions, tried on an image. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { SvcError } from "../../lib/base/error.ts";
import { TrainingStatus } from "../../lib/cloud_client/training_client.ts";
import { create, type JsonObject } from "../../lib/wire/rpc/proto.ts";
import { PackageInfoSchema } from "../../proto/gen/packages_pb.ts";
import { selfSigned } from "../support/echo.ts";
import { packed, unpacked } from "../../lib/base/files/archive.ts";
import { type FakeCloud, ORGANIZATION, PackageType, PNG, withFakeCloud } from "./fake_cloud.ts";
import { envOf, svcMl } from "./program.ts";

async function modelArchive(): Promise<Uint8Array<ArrayBuffer>> {
  // Random, so that it does not get smaller.
  const model = crypto.getRandomValues(new Uint8Array(20_000));
  const files = [
    { path: "model.onnx", bytes: model.length, content: [model] },
    { path: "labels.txt", bytes: 7, content: [new TextEncoder().encode("circle\n")] },
  ];
  return new Uint8Array(await new Response(ReadableStream.from(packed(files))).arrayBuffer());
}

function addModel(cloud: FakeCloud, content: Uint8Array): void {
  const info = create(PackageInfoSchema, {
    organizationId: ORGANIZATION.id,
    name: "shapes",
    version: "v1",
    type: PackageType.ML_MODEL,
    metadata: {
      model_type: "object_detection",
      model_framework: "onnx",
      metrics: { mAP: 0.71234, recall: 1 },
    },
  });
  cloud.packages.push({ info, content, checksum: createHash("sha256").update(content).digest("hex") });
}

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-ml-" });
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("models list prints type, framework and metrics of each model", () =>
  withFakeCloud(async (cloud) => {
    addModel(cloud, PNG);
    const { output } = await svcMl(["models", "list"], { env: envOf(cloud) });
    assertEquals(
      output,
      "NAME    VERSION  TYPE              FRAMEWORK  CREATED (UTC)        MEASURED             MISTAKES\n" +
        "shapes  v1       object-detection  onnx       2024-01-02 03:04:05  mAP 0.712, recall 1  -\n",
    );
    const json = JSON.parse((await svcMl(["models", "list", "--json"], { env: envOf(cloud) })).output);
    assertEquals(json.packages[0].info.type, "PACKAGE_TYPE_ML_MODEL");
  }));

Deno.test("a classifier's confusion is shown with its job and in the list of models", () =>
  withFakeCloud(async (cloud) => {
    const env = envOf(cloud);
    const confusion = [
      {
        label: "cat",
        images: 10,
        found_as: [{ label: "cat", images: 7 }, { label: "dog", images: 3 }],
        wrongly_found: 0,
      },
      { label: "dog", images: 5, found_as: [{ label: "dog", images: 4 }], wrongly_found: 3 },
    ];
    const metadata: JsonObject = { metrics: { accuracy: 0.7335 }, confusion };
    const info = (version: string, metadata: JsonObject) =>
      create(PackageInfoSchema, {
        organizationId: ORGANIZATION.id,
        name: "pets",
        version,
        type: PackageType.ML_MODEL,
        metadata,
      });
    cloud.packages.push({ info: info("v1", metadata), content: PNG, checksum: "" });
    cloud.addJob({
      id: "job-1",
      modelName: "pets",
      modelVersion: "v1",
      status: TrainingStatus.COMPLETED,
      syncedModelId: "org-1/pets",
      epochs: 30,
      seed: 0,
      holdoutPercent: 25,
    });
    const { output } = await svcMl(["get", "job-1"], { env });
    assertStringIncludes(output, "epochs        30 at most\nseed          0\nholdout       25 %\n");
    assertStringIncludes(
      output,
      "measured      accuracy 0.734\n\n" +
        "LABEL  IMAGES  FOUND AS      WRONGLY FOUND\n" +
        "cat    10      cat 7, dog 3  0\n" +
        "dog    5       dog 4         3\n",
    );
    const job = JSON.parse((await svcMl(["get", "job-1", "--json"], { env })).output);
    assertEquals([job.status, job.metrics, job.confusion], [
      "TRAINING_STATUS_COMPLETED",
      { accuracy: 0.7335 },
      confusion,
    ]);
    const waited = JSON.parse((await svcMl(["wait", "job-1", "--json"], { env })).output);
    assertEquals(waited.confusion, confusion);
    assertStringIncludes(
      (await svcMl(["models", "list"], { env })).output,
      "accuracy 0.734  cat as dog 3, dog missed 1\n",
    );
    // Metadata of another form counts as missing.
    for (const odd of ["x", [1], [{ label: "cat", images: -1, found_as: [] }], [{ label: 5 }]]) {
      cloud.packages[0] = { ...cloud.packages[0], info: info("v1", { confusion: odd as JsonObject[] }) };
      const { code, output } = await svcMl(["get", "job-1"], { env });
      assertEquals([code, output.includes("FOUND AS"), output.includes("measured")], [0, false, false]);
    }
    // A job is shown without its model if the model is gone, or closed to the key.
    for (const failure of ["not_found", "permission_denied", "unimplemented"] as const) {
      cloud.failures.push({ method: "getPackage", error: new SvcError(failure, "no") });
      assertEquals((await svcMl(["get", "job-1"], { env })).code, 0);
    }
    cloud.failures.push({ method: "getPackage", error: new SvcError("unavailable", "away") });
    assertEquals((await svcMl(["get", "job-1"], { env })).code, 1);
  }));

Deno.test("models delete refuses a version such as latest and deletes a named version", () =>
  withFakeCloud(async (cloud) => {
    addModel(cloud, PNG);
    const env = envOf(cloud);
    const latest = await svcMl(["models", "delete", "shapes", "latest"], { env });
    assertEquals([latest.code, cloud.packages.length], [2, 1]);
    assertStringIncludes(latest.errors, 'found version "v1" for "latest", wanted the version itself');
    assertEquals((await svcMl(["models", "delete", "shapes", "v1"], { env })).output, "shapes v1\n");
    assertEquals(cloud.packages, []);
  }));

Deno.test("a script is found by its folder's name, or as the only script", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      cloud.datasets.push({ id: "dataset-1", name: "shapes" });
      const env = envOf(cloud);
      const none = await svcMl(["submit-custom"], { env });
      assertEquals(none.code, 4);
      assertStringIncludes(none.errors, "there is no training script yet: --path FOLDER uploads one");
      const script = `${folder}/Shape trainer`;
      await Deno.mkdir(`${script}/model`, { recursive: true });
      await Deno.writeTextFile(`${script}/setup.py`, "");
      await Deno.writeTextFile(`${script}/model/training.py`, "");
      const uploaded = await svcMl(["submit-custom", "--path", script, "--script-version", "1"], { env });
      assertEquals(uploaded.code, 0, uploaded.errors);
      assertStringIncludes(uploaded.errors, "script: Shape-trainer\n");
      const again = await svcMl(["submit-custom", "--model-version", "2"], { env });
      assertEquals(again.code, 0, again.errors);
      assertEquals(
        cloud.jobs.map((job) => [job.registryItemId, job.registryItemVersion]),
        [["org-1:Shape-trainer", "1"], ["org-1:Shape-trainer", "latest"]],
      );
      const { output } = await svcMl(["script", "list"], { env });
      assertEquals(output.split("\n").slice(1), [
        "Shape-trainer  1        -     -          2024-01-02 03:04:05",
        "",
      ]);
      const other = await svcMl(["script", "upload", script, "--script-name", "other"], { env });
      assertEquals(other.code, 0, other.errors);
      const many = await svcMl(["submit-custom"], { env });
      assertEquals(many.code, 2);
      assertStringIncludes(many.errors, "tell which one with --script-name: Shape-trainer, other");
    })
  ));

Deno.test("models download resumes, and keeps only a complete file", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      const content = await modelArchive();
      addModel(cloud, content);
      cloud.breaks.push(15_000);
      // An earlier run was interrupted.
      await Deno.mkdir(`${folder}/models`);
      await Deno.writeFile(`${folder}/models/shapes-v1.tar.gz.part`, content.subarray(0, 9_000));
      const args = ["models", "download", "shapes", "-d", `${folder}/models`];
      const { code, output, errors } = await svcMl(args, { env: envOf(cloud) });
      assertEquals([code, output], [0, `${folder}/models/shapes-v1.tar.gz\n`], errors);
      assertEquals(await Deno.readFile(`${folder}/models/shapes-v1.tar.gz`), content);
      assertEquals([cloud.downloads.length, cloud.downloads[0]], [2, "bytes=9000-"]);
      assertStringIncludes(errors, "trying again\n");
      const again = await svcMl([...args, "--extract", "--json"], { env: envOf(cloud) });
      assertStringIncludes(again.errors, "is there already");
      assertEquals(JSON.parse(again.output).files, ["model.onnx", "labels.txt"]);
      assertEquals(await Deno.readTextFile(`${folder}/models/shapes-v1/labels.txt`), "circle\n");
      assertEquals(cloud.downloads.length, 2);
    })
  ));

Deno.test("a download that leads elsewhere does not take the key along", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      const content = await modelArchive();
      addModel(cloud, content);
      const heard: (string | null)[] = [];
      await using other = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen: () => {} },
        ({ headers }) => {
          heard.push(headers.get("key"), headers.get("key_id"), headers.get("authorization"));
          return new Response(Uint8Array.from(content));
        },
      );
      cloud.downloadsAt = `http://127.0.0.1:${other.addr.port}/store`;
      const args = ["models", "download", "shapes", "-d", folder];
      const { code, errors } = await svcMl(args, { env: envOf(cloud) });
      assertEquals([code, heard], [0, [null, null, null]], errors);
      assertEquals(await Deno.readFile(`${folder}/shapes-v1.tar.gz`), content);
    })
  ));

Deno.test("a download with wrong content is discarded", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      addModel(cloud, PNG);
      cloud.packages[0] = { ...cloud.packages[0], checksum: "0".repeat(64) };
      const { code, errors } = await svcMl(["models", "download", "shapes", "-d", folder], {
        env: envOf(cloud),
      });
      assertEquals(code, 1);
      assertStringIncludes(errors, "the downloaded file differs from the published one");
      assertEquals([...Deno.readDirSync(folder)], []);
      // A checksum of the published kind: that of nothing.
      cloud.packages[0] = { ...cloud.packages[0], checksum: "AAAAAA==" };
      assertEquals(
        (await svcMl(["models", "download", "shapes", "-d", folder], { env: envOf(cloud) })).code,
        1,
      );
      cloud.packages[0] = {
        ...cloud.packages[0],
        content: new TextEncoder().encode("123456789"),
        checksum: "4waSgw==",
      };
      assertEquals(
        (await svcMl(["models", "download", "shapes", "-d", folder], { env: envOf(cloud) })).code,
        0,
      );
      const other = await svcMl(["models", "download", "shape", "-d", folder], { env: envOf(cloud) });
      assertEquals(other.code, 4);
      assertStringIncludes(other.errors, 'there is no model "shape"; did you mean shapes?');
    })
  ));

Deno.test("--ca-file is trusted for calls and for downloads over TLS", async () => {
  const identity = await selfSigned();
  await withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      addModel(cloud, PNG);
      const env = { ...envOf(cloud), SVC_CA_FILE: "" };
      const strange = await svcMl(["models", "list"], { env });
      assertEquals(strange.code, 1);
      await Deno.writeTextFile(`${folder}/ca.pem`, identity.certPem);
      const args = ["models", "download", "shapes", "-d", folder, "--ca-file", `${folder}/ca.pem`];
      const { code, output, errors } = await svcMl(args, { env });
      assertEquals([code, output], [0, `${folder}/shapes-v1.tar.gz\n`], errors);
    }), identity);
});

Deno.test("infer uploads an image, prints the annotations, and removes it", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      await Deno.writeFile(`${folder}/a.png`, PNG);
      const { code, output, errors } = await svcMl(["infer", `${folder}/a.png`, "--model", "shapes"], {
        env: envOf(cloud),
      });
      assertEquals(code, 0, errors);
      assertEquals(
        output,
        "LABEL   CONFIDENCE  BOX (x y to x y)\ncircle  87.5 %      0.100 0.200 0.300 0.400\n",
      );
      const [asked] = cloud.of("getInference") as Record<string, unknown>[];
      assertEquals(
        [asked.registryItemId, asked.registryItemVersion, asked.binaryDataId],
        ["org-1:shapes", "latest", "a.png"],
      );
      assertEquals([cloud.sources, cloud.images.size], [["part-1"], 0]);
      // With several machines, or none, it is the organization's.
      cloud.machines.push("another");
      await svcMl(["infer", `${folder}/a.png`, "--model", "shapes", "--keep"], { env: envOf(cloud) });
      cloud.machines.splice(0);
      await svcMl(["infer", `${folder}/a.png`, "--model", "shapes"], { env: envOf(cloud) });
      assertEquals([cloud.sources.slice(1), cloud.images.size], [["org-1", "org-1"], 0]);
      // A part is also found by its machine's name, and a misspelt name gets a suggestion.
      cloud.machines.push("rover", "another");
      const from = (part: string) =>
        svcMl(["infer", `${folder}/a.png`, "--model", "shapes", "--part-id", part], { env: envOf(cloud) });
      await from("another");
      assertEquals(cloud.sources.at(-1), "part-2");
      const { code: missing, errors: hint } = await from("anothr");
      assertEquals(missing, 4);
      assertStringIncludes(hint, 'there is no part "anothr"; did you mean another?');
    })
  ));

/** A script that brings what builds it: it is installed without a network, and quickly. */
const SCRIPT: Record<string, string> = {
  "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
  "backend.py": `import zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(wheel_directory + "/model-0.1-py3-none-any.whl", "w") as wheel:
        for path in ["model/__init__.py", "model/training.py"]: wheel.write(path)
        info = "model-0.1.dist-info/"
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: model\\nVersion: 0.1\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return "model-0.1-py3-none-any.whl"
`,
  "model/__init__.py": "",
  "model/training.py": `import json, os, sys
given = dict(one[2:].split("=", 1) for one in sys.argv[1:])
lines = open(given["dataset_file"]).read().splitlines()
print("read", len(lines), "lines")
if not given.get("empty"):
    json.dump(given, open(os.path.join(given["model_output_directory"], "model.json"), "w"))
    os.chmod(os.path.join(given["model_output_directory"], "model.json"), 0o755)
`,
};

async function writeScript(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/script/model/__pycache__`, { recursive: true });
  for (const [path, text] of Object.entries(SCRIPT)) {
    await Deno.writeTextFile(`${folder}/script/${path}`, text);
  }
  await Deno.writeTextFile(`${folder}/script/model/__pycache__/training.pyc`, "left behind");
}

Deno.test("script upload packs a folder, without leftovers of tools", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      await writeScript(folder);
      const args = [
        "script",
        "upload",
        `${folder}/script`,
        "--script-name",
        "train",
        "--script-version",
        "v1",
      ];
      const more = [
        "--framework",
        "ONNX",
        "--type",
        "object-detection",
        "--visibility",
        "public",
        "--description",
        "shapes",
      ];
      const { code, output, errors } = await svcMl([...args, ...more], { env: envOf(cloud) });
      assertEquals([code, output], [0, "org-1:train v1\n"], errors);
      const [{ info, content }] = cloud.packages;
      assertEquals([info.name, info.version, info.type], ["train", "v1", PackageType.ML_TRAINING]);
      assertEquals(info.metadata, {
        model_framework: "onnx",
        model_type: "object_detection",
        draft: false,
        visibility: "public",
        description: "shapes",
      });
      const names: string[] = [];
      for await (
        const { path } of unpacked(ReadableStream.from([content]), { filesMax: 9, bytesMax: 9e6 })
      ) names.push(path);
      assertEquals(names, ["backend.py", "model/__init__.py", "model/training.py", "pyproject.toml"]);
      assertEquals(info.files.map(({ name }) => name), names);
      const [again] = [await svcMl(args, { env: envOf(cloud) })];
      assertEquals(again.code, 0);
      assertEquals(cloud.packages[1].content, content);
      const wrong = await svcMl(["script", "upload", folder, "--script-name", "train"], {
        env: envOf(cloud),
      });
      assertEquals(wrong.code, 2);
      assertStringIncludes(
        wrong.errors,
        "it has no setup.py or pyproject.toml and no model/training.py; script/ in it",
      );
    })
  ));

Deno.test("submit-custom --path uploads the script, submits, and removes the upload on failure", () =>
  withFakeCloud((cloud) =>
    inFolder(async (folder) => {
      await writeScript(folder);
      cloud.datasets.push({ id: "dataset-1", name: "shapes" });
      const args = [
        "submit-custom",
        "--path",
        `${folder}/script`,
        "--script-name",
        "train",
        "--arg",
        "epochs=2",
      ];
      const { code, output, errors } = await svcMl(args, { env: envOf(cloud) });
      assertEquals([code, output], [0, "job-1\n"], errors);
      const [asked] = cloud.of("submitCustomTrainingJob") as Record<string, unknown>[];
      assertEquals([asked.registryItemId, asked.registryItemVersion], [
        "org-1:train",
        cloud.packages[0].info.version,
      ]);
      // A failed command leaves no upload behind, and an existing one is not uploaded again.
      cloud.failures.push({
        method: "submitCustomTrainingJob",
        error: new SvcError("failed_precondition", "no images"),
      });
      const refused = await svcMl(args, { env: envOf(cloud) });
      assertEquals([refused.code, cloud.packages.length], [5, 1]);
      assertStringIncludes(refused.errors, "took back version ");
      const version = cloud.jobs[0].modelVersion;
      const same = await svcMl([...args, "--model-version", version, "--if-not-exists"], {
        env: envOf(cloud),
      });
      assertEquals([same.code, same.output, cloud.packages.length], [0, "job-1\n", 1], same.errors);
    })
  ));

Deno.test("script test-local runs a script as svc-cloud does, and fails if its output is empty", () =>
  inFolder(async (folder) => {
    await writeScript(folder);
    await Deno.writeFile(`${folder}/a.png`, PNG);
    await Deno.writeTextFile(`${folder}/dataset.jsonl`, '{"image_path": "a.png"}\n');
    const args = ["script", "test-local", `${folder}/script`, "--dataset-root", folder];
    const run = (name: string, ...more: string[]) => {
      return svcMl([...args, "--model-output-directory", `${folder}/${name}`, ...more]);
    };
    const { code, output, errors } = await run("out", "--arg", "labels=a b=$HOME");
    assertEquals([code, output], [0, "model.json\n"], errors);
    assertStringIncludes(errors, "read 1 lines\n");
    assertEquals(JSON.parse(await Deno.readTextFile(`${folder}/out/model.json`)).labels, "a b=$HOME");
    if (Deno.build.os !== "windows") {
      assertEquals((await Deno.stat(`${folder}/out/model.json`)).mode! & 0o777, 0o755);
    }
    const empty = await run("empty", "--arg", "empty=1");
    assertEquals(empty.code, 1);
    assertStringIncludes(empty.errors, "the job would have failed: the script left nothing");
    const outside = await run("out", "--dataset-file", "../dataset.jsonl");
    assertEquals(outside.code, 2);
    const other = await run("out", "--container-version", "tf:2.16");
    assertEquals(other.code, 2);
    assertStringIncludes(other.errors, '--container-version: found "tf:2.16", here is python:');
  }));
