/**
 * The executors at work: pictures that are really learned from, scripts that really run.
 */

import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { packed } from "../../lib/base/files/archive.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import type { DatasetImage } from "../../lib/cloud_client/dataset.ts";
import type { Work } from "../../lib/cloud/executors/executor.ts";
import { EmbeddedExecutor } from "../../lib/cloud/executors/embedded.ts";
import { SCRIPT_LIMITS, ScriptExecutor } from "../../lib/cloud/executors/script.ts";
import { NO_SANDBOX, openSandbox, type Sandbox } from "../../lib/cloud/sandbox/sandbox.ts";
import type { JobScript } from "../../lib/cloud/executors/executor.ts";
import type { NewJob, TrainingJob } from "../../lib/cloud/training/training.ts";
import { decodeImage, encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { EXAMPLE_LABELS, exampleImages, pngOf } from "../../lib/learn/example_scene.ts";
import { brokenBuild, needyBuild, newJob, scriptArchive, stream } from "./training_world.ts";
import { untilGone } from "../support/until.ts";
import { CONTENT } from "./world.ts";

const clock = new SystemClock();
const host = new DenoHost();

interface Bench {
  readonly work: Work;
  readonly lines: string[];
  readonly cancel: AbortController;
  /** Resolves when a line with these words is written. */
  printed(words: string): Promise<void>;
  text(path: string): Promise<string>;
}

/** Work on images with these contents, in a folder of its own. */
async function withWork(
  job: Partial<NewJob>,
  images: readonly (Partial<DatasetImage> & { readonly content: Uint8Array })[],
  run: (bench: Bench) => Promise<void>,
  script?: AsyncIterable<Uint8Array>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-work-" });
  await Deno.mkdir(`${folder}/output`);
  const lines: string[] = [];
  const waiting = new Map<string, () => void>();
  const cancel = new AbortController();
  const work: Work = {
    job: {
      ...newJob("org"),
      id: "job",
      state: "in_progress",
      createdMs: 0,
      modifiedMs: 0,
      ...job,
    } as TrainingJob,
    images: images.map(({ content, ...image }, index) => ({ ...imageOf(index, content), ...image })),
    folder,
    read: (sha256) => sha256 === "script" ? script! : stream(images[Number(sha256)].content),
    log: (level, message) => {
      lines.push(`${level} ${message}`);
      for (const [words, heard] of waiting) if (message.includes(words)) heard();
    },
    apiKey: { id: "the id", key: "the key" },
    signal: cancel.signal,
  };
  const printed = (words: string) => new Promise<void>((resolve) => waiting.set(words, resolve));
  try {
    await run({ work, lines, cancel, printed, text: (path) => Deno.readTextFile(`${folder}/${path}`) });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function imageOf(index: number, content: Uint8Array): DatasetImage {
  return {
    id: `image ${index}`,
    sha256: String(index),
    bytes: content.length,
    mimeType: MIME.png,
    fileName: "eye.png",
    tags: [],
    classifications: [],
    boxes: [],
    capturedMs: 1_700_000_000_000,
    partId: "part",
    componentName: "eye",
    organizationId: "org",
    locationId: "location",
    machineId: "machine",
  };
}

/** Pictures of the example with one thing each. */
function pictures(count: number, mimeType: string = MIME.png) {
  return exampleImages(count, 1, { things: [1, 1] }).map((picture) => {
    const content = encodeImage(decodeImage(pngOf(picture)), mimeType);
    const boxes = picture.boxes.map((box, index) => ({ ...box, id: String(index) }));
    return { content, tags: picture.labels, boxes };
  });
}

const embedded = new EmbeddedExecutor(CONTENT, { epochsMax: 2 });

for (const modelType of ["single_label_classification", "object_detection"] as const) {
  Deno.test(`embedded: ${modelType} produces a model, its labels and its metadata`, () =>
    withWork(
      { modelType, labels: [...EXAMPLE_LABELS] },
      pictures(16, MIME.jpeg),
      async ({ work, lines, text }) => {
        const { metrics, confusion, ...described } = await embedded.run(work);
        assertEquals(described, { model_type: modelType, model_framework: "onnx" });
        assertEquals(Array.isArray(confusion), modelType !== "object_detection");
        assertEquals(lines[0], "info reading 16 images");
        assertEquals(await text("output/labels.txt"), "cone\nball\nbox\n");
        const metadata = JSON.parse(await text("output/metadata.json"));
        assertEquals(metadata.type, modelType === "object_detection" ? "object_detector" : "classifier");
        assertEquals(metadata.training.dataset, { id: "a dataset", images: 16 });
        assertEquals(metrics, metadata.training.metrics);
        assertEquals(confusion, metadata.training.confusion);
        assert((await Deno.stat(`${work.folder}/output/model.onnx`)).size > 1000);
        const epochs = lines.filter((line) =>
          /^info epoch \d\/2 loss [\d.e-]+ validation [\d.e-]+ \w+/.test(line)
        );
        assertEquals(epochs.length, 2, lines.join("\n"));
      },
    ));
}

Deno.test("embedded: the same epochs, seed and holdout give the same bytes, another seed gives others", async () => {
  const learning = { epochs: 3, seed: 11, holdoutPercent: 50 };
  const trained = async (more: typeof learning) => {
    let found: { facts: JsonObject; onnx: Uint8Array; lines: string[]; logged: JsonObject } | undefined;
    const job = {
      modelType: "single_label_classification",
      labels: [...EXAMPLE_LABELS],
      learning: more,
    } as const;
    await withWork(job, pictures(16), async ({ work, lines, text }) => {
      const facts = await new EmbeddedExecutor(CONTENT).run(work);
      const onnx = await Deno.readFile(`${work.folder}/output/model.onnx`);
      found = { facts, onnx, lines, logged: JSON.parse(await text("output/metadata.json")).training };
    });
    return found!;
  };
  const { facts, onnx, lines, logged } = await trained(learning);
  assert(
    lines.some((line) => line.endsWith("from 16 images, 50 % of them held back to measure, from seed 11")),
  );
  assert(lines.some((line) => line.startsWith("info epoch 3/3 ")), lines.join("\n"));
  assertEquals([logged.seed, logged.holdout_percent, logged.epochs], [11, 50, 3]);
  const rows = facts.confusion as unknown as Row[];
  assertEquals(rows.map(({ label }) => label), [...EXAMPLE_LABELS]);
  assertEquals(rows.reduce((sum, { images }) => sum + images, 0), 8);
  for (const { images, found_as: foundAs } of rows) {
    assertEquals(foundAs.reduce((sum, one) => sum + one.images, 0), images);
  }
  const again = await trained(learning);
  assertEquals([again.onnx, again.facts], [onnx, facts]);
  const other = await trained({ ...learning, seed: 12 });
  assert(other.onnx.some((byte, index) => byte !== onnx[index]));
});

/** A row of the confusion matrix as a model's metadata has it. */
interface Row {
  readonly label: string;
  readonly images: number;
  readonly found_as: readonly { readonly label: string; readonly images: number }[];
}

Deno.test("embedded: damaged images are left out, images without a label are unknown, and the log says so", () => {
  const images = [
    ...pictures(18).map((image, index) => index < 3 ? { ...image, tags: ["night"] } : image),
    { content: Uint8Array.of(1, 2, 3), tags: ["cone"] },
    { ...pictures(1)[0], tags: ["cone", "ball"] },
  ];
  const job = { modelType: "single_label_classification", labels: [...EXAMPLE_LABELS] } as const;
  return withWork(job, images, async ({ work, lines, text }) => {
    await embedded.run(work);
    assertEquals(await text("output/labels.txt"), "cone\nball\nbox\nUNKNOWN\n");
    const all = lines.join("\n");
    assertStringIncludes(all, "image 18 (eye.png) is left out");
    assertStringIncludes(all, "left out 1 image with more than one");
  });
});

Deno.test("embedded: training ends when it is cancelled during an epoch", () =>
  withWork({ modelType: "object_detection", labels: [...EXAMPLE_LABELS] }, pictures(16), async (bench) => {
    const { work, cancel, printed } = bench;
    const begun = printed("epoch 1/");
    const running = new EmbeddedExecutor(CONTENT).run(work);
    await begun;
    cancel.abort(new SvcError("canceled", "enough"));
    assertEquals((await assertRejects(() => running, SvcError)).code, "canceled");
  }));

/** Needs tools to build it, which may be there or not. */
const SETUP = `from setuptools import setup\nsetup(name="script", version="1", packages=["model"])\n`;
/** For how long a child of it would sleep: a word that finds it among all processes. */
const MARK = `1000.${Math.floor(Math.random() * 1e9)}`;
const SCRIPT = `
import argparse, json, os, sys, time, subprocess
parser = argparse.ArgumentParser()
for name in ("dataset_file", "model_output_directory", "note", "mode"):
    parser.add_argument("--" + name, default="")
a = parser.parse_args()
lines = [json.loads(line) for line in open(a.dataset_file)]
print("images", len(lines), "key", os.environ["API_KEY_ID"], os.environ["API_KEY"], flush=True)
print("secret", os.environ.get("SVC_TEST_SECRET"), "venv", sys.prefix != sys.base_prefix, flush=True)
if a.mode == "fail":
    print("it went wrong", file=sys.stderr)
    sys.exit(3)
if a.mode == "sleep":
    child = subprocess.Popen(["sleep", "${MARK}"])
    print("child", flush=True)
    time.sleep(1000)
os.makedirs(os.path.join(a.model_output_directory, "tmp"))
open(os.path.join(a.model_output_directory, "tmp", "scratch"), "w").write("x")
sizes = [os.path.getsize(line["image_path"]) for line in lines]
json.dump({"note": a.note, "sizes": sizes}, open(os.path.join(a.model_output_directory, "model.json"), "w"))
`;

/** Without a network, whatever there is where the tests run. */
const offline = new DenoHost();
offline.environment = () => ({
  ...host.environment(),
  PIP_NO_INDEX: "1",
  PIP_FIND_LINKS: "",
  SVC_TEST_SECRET: "ours",
});
const OPTIONS = { network: false, limits: SCRIPT_LIMITS };
/** Looks for every Python and tries it, which takes longer than most scripts here. */
const executorIn = (sandbox: Sandbox) => ScriptExecutor.open(offline, clock, { ...OPTIONS, sandbox });
/** Without Python, scripts cannot run. */
const executor = await executorIn(NO_SANDBOX);
const sandbox = await openSandbox(host, clock);
const WAYS = [
  { name: "without a sandbox", executor, reason: "" },
  typeof sandbox === "string"
    ? { name: "in a sandbox", executor, reason: `no sandbox: ${sandbox}` }
    : { name: "in a sandbox", executor: await executorIn(sandbox), reason: "" },
];

type Scripts = (given: JobScript["arguments"]) => Partial<NewJob>;

/** Runs a test in each way that scripts are run in. */
function scriptTest(name: string, run: (script: Scripts, executor: ScriptExecutor) => Promise<void>) {
  for (const { name: way, executor, reason } of WAYS) {
    Deno.test({
      name: `script, ${way}: ${name} ${reason}`,
      ignore: !executor || reason !== "",
      fn: () => {
        const { key: container } = executor!.environments[0];
        const about = { id: "org:script", version: "1", sha256: "script", container };
        return run((given) => ({ script: { ...about, arguments: given } }), executor!);
      },
    });
  }
}

const images = [{ content: Uint8Array.of(1), tags: ["cat"] }, { content: Uint8Array.of(1, 2) }];

scriptTest(
  "a script gets its dataset, its arguments unchanged and its API key, but no host environment",
  (script, scripts) => {
    const given = { note: `a=b, "c" $HOME` };
    return withWork(script(given), images, async ({ work, lines, text }) => {
      await scripts.run(work);
      assertEquals(JSON.parse(await text("output/model.json")), { note: given.note, sizes: [1, 2] });
      const line = JSON.parse((await text("dataset.jsonl")).split("\n")[0]);
      assertEquals(line.classification_annotations, [{ annotation_label: "cat" }]);
      const all = lines.join("\n");
      assertStringIncludes(all, "info images 2 key the id the key");
      assertStringIncludes(all, "info secret None venv True");
    }, scriptArchive(SCRIPT, { "setup.py": SETUP }, "script-1/"));
  },
);

scriptTest(
  "the log has only the successful attempt of an installation",
  (script, scripts) =>
    withWork(script({}), images, async ({ work, lines }) => {
      await scripts.run(work);
      const attempts = lines.filter((line) => line.startsWith("info installing the script "));
      const warnings = lines.filter((line) => line.startsWith("warn "));
      assertEquals([attempts.length, warnings.length], [3, 1], lines.join("\n"));
      assertMatch(
        warnings[0],
        /^warn installed without the packages that it depends on, because their installation failed: .*there-is-no-such-package/,
      );
    }, scriptArchive(SCRIPT, needyBuild())),
);

scriptTest(
  "if no installation works, the log has each failure, and the script runs uninstalled",
  (script, scripts) =>
    withWork(script({ note: "hello" }), images, async ({ work, lines, text }) => {
      await scripts.run(work);
      assertEquals(JSON.parse(await text("output/model.json")).note, "hello");
      const warnings = lines.filter((line) => line.startsWith("warn "));
      const complaints = warnings.filter((line) => line.includes("the backend complains"));
      const failures = warnings.filter((line) => line.startsWith("warn it cannot be installed "));
      assertEquals([complaints.length >= 3, failures.length], [true, 3], lines.join("\n"));
      assertEquals(warnings.at(-1), "warn running the script from where it was unpacked");
    }, scriptArchive(SCRIPT, brokenBuild())),
);

scriptTest(
  "the last lines of a script are the reason of its failure",
  (script, scripts) =>
    withWork(script({ mode: "fail" }), images, async ({ work, lines }) => {
      const { message } = await assertRejects(() => scripts.run(work), SvcError);
      assertStringIncludes(message, "exit code 3");
      assertStringIncludes(message, "it went wrong");
      assert(lines.includes("warn it went wrong"));
    }, scriptArchive(SCRIPT)),
);

scriptTest(
  "cancelled: the script ends with all its processes",
  (script, scripts) =>
    withWork(script({ mode: "sleep" }), images, async ({ work, cancel, printed }) => {
      const begun = printed("child");
      const running = scripts.run(work);
      await begun;
      cancel.abort(new SvcError("canceled", "enough"));
      assertEquals((await assertRejects(() => running, SvcError)).message, "enough");
      await untilGone(MARK);
    }, scriptArchive(SCRIPT)),
);

scriptTest(
  "refuses a package without a script, and lists its files",
  (script, scripts) =>
    withWork(script({}), images, async ({ work }) => {
      const bare = { ...work, read: () => packed([{ path: "readme.md", bytes: 0, content: [] }]) };
      assertStringIncludes((await assertRejects(() => scripts.run(bare), SvcError)).message, "readme.md");
    }),
);
