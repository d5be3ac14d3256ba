/** Datasets on the command line: filled from files in several forms, checked, and written to a folder. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { type FakeCloud, PNG, THEN_MS, withFakeCloud } from "./fake_cloud.ts";
import { envOf, svcMl } from "./program.ts";
import { styleProblems } from "../support/json_style.ts";

/** A fake with a dataset, and a folder for files. */
function datasetTest(name: string, run: (cloud: FakeCloud, folder: string) => Promise<void>): void {
  Deno.test(name, () =>
    withFakeCloud(async (cloud) => {
      cloud.datasets.push({ id: "dataset-1", name: "shapes" });
      const folder = await Deno.makeTempDir({ prefix: "svc-ml-" });
      try {
        await run(cloud, folder);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    }));
}

async function write(folder: string, files: Record<string, Uint8Array | string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await Deno.mkdir(`${folder}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    if (typeof content === "string") await Deno.writeTextFile(`${folder}/${path}`, content);
    else await Deno.writeFile(`${folder}/${path}`, content);
  }
}

datasetTest("dataset create prints the new id, and dataset list prints all datasets", async (cloud) => {
  const made = await svcMl(["dataset", "create", "faces"], { env: envOf(cloud) });
  assertEquals([made.code, made.output], [0, "dataset-2\n"]);
  const { output } = await svcMl(["dataset", "list"], { env: envOf(cloud) });
  assertEquals(output.split("\n").slice(1, 3), [
    "faces   2024-01-02 03:04:05  dataset-2",
    "shapes  2024-01-02 03:04:05  dataset-1",
  ]);
  const json = JSON.parse((await svcMl(["dataset", "list", "--json"], { env: envOf(cloud) })).output);
  assertEquals(styleProblems(json), []);
  assertEquals(json.datasets.map(({ name }: { name: string }) => name), ["faces", "shapes"]);
});

datasetTest("dataset images, rename and delete work on a dataset by name", async (cloud) => {
  cloud.addImage("image-1", "dataset-1", { tags: ["red"], boxes: ["circle", "circle"] });
  const env = envOf(cloud);
  const listed = await svcMl(["dataset", "images", "shapes"], { env });
  assertEquals(
    listed.output,
    "NAME         LABELS          SIZE  CAPTURED (UTC)       ID\n" +
      "image-1.png  red, circle 2x  12 B  2024-01-02 03:04:05  image-1\n",
  );
  const { images } = JSON.parse((await svcMl(["dataset", "images", "shapes", "--json"], { env })).output);
  assertEquals([images.length, images[0].tags, images[0].boxes.length], [1, ["red"], 2]);
  assertEquals(images[0].captured, "2024-01-02T03:04:05.000Z");
  assertEquals((await svcMl(["dataset", "rename", "shapes", "forms"], { env })).output, "dataset-1\n");
  assertEquals(cloud.datasets, [{ id: "dataset-1", name: "forms" }]);
  assertEquals((await svcMl(["dataset", "delete", "shapes"], { env })).code, 4);
  assertEquals((await svcMl(["dataset", "delete", "forms"], { env })).output, "dataset-1\n");
  assertEquals([cloud.datasets, cloud.images.size], [[], 1]);
});

datasetTest(
  "dataset add takes subfolders as labels, and leaves out other files",
  async (cloud, folder) => {
    await write(folder, {
      "circle/a.png": PNG,
      "circle/deep/b.png": PNG,
      "square/c.jpg": Uint8Array.of(0xff, 0xd8, 0xff, 0xe0),
      "d.png": PNG,
      "notes.txt": "not an image",
      ".hidden/e.png": PNG,
    });
    const { code, output, errors } = await svcMl(["dataset", "add", "shapes", folder, "--tags", "all"], {
      env: envOf(cloud),
    });
    assertEquals(code, 0, errors);
    assertEquals(output, "4 images are in shapes, 1 file left out\n");
    assertStringIncludes(errors, `left out ${folder}/notes.txt: it is not a JPEG or PNG\n`);
    const found = [...cloud.images].map((
      [name, { tags, mimeType, datasets }],
    ) => [name, tags, mimeType, datasets]);
    assertEquals(found.sort(), [
      ["a.png", ["all", "circle"], "image/png", ["dataset-1"]],
      ["b.png", ["all", "circle"], "image/png", ["dataset-1"]],
      ["c.jpg", ["all", "square"], "image/jpeg", ["dataset-1"]],
      ["d.png", ["all"], "image/png", ["dataset-1"]],
    ]);
    assertEquals(cloud.images.get("a.png")!.content, PNG);
  },
);

datasetTest(
  "dataset add reads a published dataset.jsonl and finds its images beside it",
  async (cloud, folder) => {
    const line = {
      image_path: "/elsewhere/export/data/a.png",
      classification_annotations: [{ annotation_label: "red" }, { annotation_label: "big", confidence: 0.5 }],
      bounding_box_annotations: [{
        id: "1",
        annotation_label: "circle",
        x_min_normalized: 0.1,
        y_min_normalized: 0.2,
        x_max_normalized: 0.3,
        y_max_normalized: 0.4,
      }],
      timestamp: "2024-01-02 03:04:05 +0000 UTC",
    };
    await write(folder, { "data/a.png": PNG, "dataset.jsonl": `${JSON.stringify(line)}\n\n` });
    const { code, errors } = await svcMl(["dataset", "add", "dataset-1", folder], { env: envOf(cloud) });
    assertEquals(code, 0, errors);
    const { tags, boxes, classifications, timeMs } = cloud.images.get("a.png")!;
    assertEquals([tags, timeMs], [["red"], THEN_MS]);
    assertEquals(classifications!.map(({ label, confidence }) => [label, confidence]), [["big", 0.5]]);
    assertEquals(boxes.map((box) => [box.label, box.xMinNormalized, box.yMaxNormalized]), [[
      "circle",
      0.1,
      0.4,
    ]]);
  },
);

datasetTest("dataset add reads a dataset.jsonl that an editor on Windows saved", async (cloud, folder) => {
  const lines = '\ufeff{"image_path": "a.png"}\r\n{"image_path": "b.png"}\r\n';
  await write(folder, { "a.png": PNG, "b.png": PNG, "dataset.jsonl": lines });
  const { code, errors } = await svcMl(["dataset", "add", "dataset-1", folder], { env: envOf(cloud) });
  assertEquals(code, 0, errors);
  assertEquals([...cloud.images.keys()].sort(), ["a.png", "b.png"]);
});

datasetTest("errors of dataset add have the line", async (cloud, folder) => {
  for (
    const [line, logged] of [
      ["{", "dataset.jsonl:2: "],
      ["[]", "dataset.jsonl:2: : found an empty array, wanted an object"],
      [
        '{"image_path": "a.png", "bounding_box_annotations": [{"annotation_label": "x"}]}',
        "x_min_normalized: missing",
      ],
      ['{"image_path": "b.png"}', `dataset.jsonl:2: there is no image ${folder}/b.png`],
    ]
  ) {
    await write(folder, { "a.png": PNG, "dataset.jsonl": `{"image_path": "a.png"}\n${line}\n` });
    const { code, errors } = await svcMl(["dataset", "add", "shapes", folder], { env: envOf(cloud) });
    assertEquals(code, line.includes("b.png") ? 4 : 2);
    assertStringIncludes(errors, logged);
  }
  assertEquals(cloud.images.size, 0);
  const none = await svcMl(["dataset", "add", "shapes", `${folder}/none`], { env: envOf(cloud) });
  assertEquals(none.code, 4);
  assertStringIncludes(none.errors, `cannot read "${folder}/none": it does not exist`);
});

datasetTest("dataset check counts labels, and lists skipped images and problems", async (cloud) => {
  const content = encodePng({ width: 4, height: 3, channels: 3, samples: new Uint8Array(36) });
  for (let at = 0; at < 16; at++) {
    cloud.addImage(`image-${at}`, "dataset-1", { tags: [at < 12 ? "cat" : "dog"], content });
  }
  cloud.addImage("both", "dataset-1", { tags: ["cat", "dog"], content });
  const single = ["dataset", "check", "shapes", "--model-type", "single-label-classification"];
  const ready = await svcMl(single, { env: envOf(cloud) });
  assertEquals(ready.code, 0, ready.output);
  assertEquals(
    ready.output,
    `17 images, 17 of them labeled
LABEL  IMAGES
cat    13
dog    5
1 image is left out:
  both.png: it has 2 of the labels, cat, dog: one image shows one thing here
warning: "dog" has 5 images: with fewer than 10 a model learns little
ready to train
`,
  );
  assertStringIncludes(ready.errors, "train with: svc-ml submit --model-type single-label-classification");
  const assumed = await svcMl(["dataset", "check", "--quick"], { env: envOf(cloud) });
  assertEquals(assumed.output, ready.output);
  assertStringIncludes(assumed.errors, "assuming --model-type single-label-classification: most images have");
  const detection = ["dataset", "check", "--json", "--quick", "--model-type", "object-detection"];
  const boxes = await svcMl(detection, { env: envOf(cloud) });
  assertEquals(boxes.code, 5);
  const { images, labeled, ready: can, problems } = JSON.parse(boxes.output);
  assertEquals([images, labeled, can, problems.length], [17, 0, false, 2]);
});

datasetTest("dataset check leaves out what a trainer cannot decode, unless --quick", async (cloud) => {
  const content = encodePng({ width: 4, height: 3, channels: 3, samples: new Uint8Array(36) });
  const depth = encodePng({ width: 4, height: 3, channels: 1, samples: new Uint16Array(12) });
  for (let at = 0; at < 15; at++) {
    cloud.addImage(`image-${at}`, "dataset-1", { tags: [at < 10 ? "cat" : "dog"], content });
  }
  cloud.addImage("broken", "dataset-1", { tags: ["cat"], content: content.subarray(0, -20) });
  cloud.addImage("depth", "dataset-1", { tags: ["dog"], content: depth });
  cloud.addImage("other", "dataset-1", { tags: ["dog"], content: new TextEncoder().encode("GIF89a") });
  const command = ["dataset", "check", "shapes", "--model-type", "single-label-classification"];
  const { code, output } = await svcMl(command, { env: envOf(cloud) });
  assertEquals(code, 0, output);
  assertStringIncludes(output, "18 images, 15 of them labeled\nLABEL  IMAGES\ncat    10\ndog    5\n");
  assertStringIncludes(output, "3 images are left out:\n  broken.png: cannot read the PNG image: ");
  assertStringIncludes(output, "  depth.png: reading an image: found a depth image, wanted a colour image\n");
  assertStringIncludes(output, "  other.png: cannot read the image: found 6 bytes of something else");
  for (const id of ["image-0", "image-1"]) cloud.images.delete(id);
  assertEquals((await svcMl(command, { env: envOf(cloud) })).code, 5);
  assertEquals((await svcMl([...command, "--quick"], { env: envOf(cloud) })).code, 0);
});

datasetTest(
  "dataset export is the same each time, and continues after an interruption",
  async (cloud, folder) => {
    for (let at = 0; at < 7; at++) {
      cloud.addImage(`image-${at}`, "dataset-1", {
        tags: ["t"],
        boxes: ["circle"],
        name: "a.png",
      });
    }
    const args = ["dataset", "export", "shapes", "--destination", `${folder}/out`];
    cloud.failures.push({ method: "binaryDataByIDs", error: new SvcError("unavailable", "gone") });
    assertEquals((await svcMl(args, { env: envOf(cloud) })).code, 1);
    const before = cloud.of("binaryDataByIDs").length;
    const { code, output } = await svcMl(args, { env: envOf(cloud) });
    assertEquals([code, output], [0, `7 images of shapes are in ${folder}/out\n`]);
    const lines = await Deno.readTextFile(`${folder}/out/dataset.jsonl`);
    const paths = lines.trimEnd().split("\n").map((line) => JSON.parse(line).image_path);
    assertEquals(paths, Array.from({ length: 7 }, (_, at) => `data/image-${at}_a.png`));
    assertEquals(JSON.parse(lines.split("\n")[0]).bounding_box_annotations[0].annotation_label, "circle");
    assertEquals(await Deno.readFile(`${folder}/out/${paths[3]}`), PNG);
    // Existing files were not fetched again.
    assertEquals(cloud.of("binaryDataByIDs").length <= before + 6, true);
    const fetched = cloud.of("binaryDataByIDs").length;
    const again = await svcMl(args, { env: envOf(cloud) });
    assertStringIncludes(again.errors, "7 of them were there already");
    assertEquals(cloud.of("binaryDataByIDs").length, fetched);
    assertEquals(await Deno.readTextFile(`${folder}/out/dataset.jsonl`), lines);
    // An exported dataset can be added again.
    cloud.images.clear();
    const added = await svcMl(["dataset", "add", "shapes", `${folder}/out`], { env: envOf(cloud) });
    assertEquals(added.code, 0, added.errors);
    assertEquals(cloud.images.get("image-0_a.png")!.timeMs, THEN_MS);
  },
);

datasetTest(
  "dataset add refuses images outside of its folder unless --outside is set",
  async (cloud, folder) => {
    const env = envOf(cloud);
    await write(folder, { "secret.png": PNG, "set/in.png": PNG, "labels/a/in.png": PNG });
    await Deno.symlink(`${folder}/secret.png`, `${folder}/set/link.png`);
    await Deno.symlink(folder, `${folder}/set/data`);
    const add = (path: string, ...flags: string[]) =>
      svcMl(["dataset", "add", "shapes", `${folder}/${path}`, ...flags], { env });
    const line = (path: string) =>
      write(folder, { "set/dataset.jsonl": `${JSON.stringify({ image_path: path })}\n` });
    for (
      const path of [
        `${folder}/secret.png`,
        "../secret.png",
        "link.png",
        "data/secret.png",
        "x/data/secret.png",
      ]
    ) {
      await line(path);
      const { code, errors } = await add("set");
      assertEquals([code !== 0, cloud.images.size], [true, 0], path);
      assertStringIncludes(errors, "dataset.jsonl:1: the image ");
      assertStringIncludes(errors, "--outside");
      assertEquals((await add("set/dataset.jsonl")).code, code);
    }
    for (const path of ["in.png", `${folder}/set/in.png`]) {
      await line(path);
      assertEquals((await add("set")).code, 0, path);
    }
    await line("../secret.png");
    assertEquals((await add("set", "--outside")).code, 0);
    assertEquals([...cloud.images].map(([name]) => name).includes("secret.png"), true);
    cloud.images.clear();
    // Folders of labels: a link to a file, and one to a folder.
    await Deno.symlink(`${folder}/secret.png`, `${folder}/labels/a/link.png`);
    await Deno.symlink(folder, `${folder}/labels/b`);
    const { code, errors } = await add("labels");
    assertEquals([code, cloud.images.size], [0, 1], errors);
    assertStringIncludes(errors, `left out ${folder}/labels/a/link.png: it is a link out of the folder`);
    assertStringIncludes(errors, `left out ${folder}/labels/b: it is a link out of the folder`);
  },
);

datasetTest(
  "dataset add refuses labels with control characters before it uploads anything",
  async (cloud, folder) => {
    const env = envOf(cloud);
    const annotations = [{ annotation_label: "cat\ndog" }];
    const line = JSON.stringify({ image_path: "a.png", classification_annotations: annotations });
    await write(folder, { "set/a.png": PNG, "set/dataset.jsonl": line, "c\nd/a.png": PNG });
    for (const args of [[`${folder}/set`], [folder], [`${folder}/set/a.png`, "--tags", "e\u001bf"]]) {
      const { code, errors } = await svcMl(["dataset", "add", "shapes", ...args], { env });
      assertEquals([code !== 0, cloud.images.size], [true, 0], errors);
      assertStringIncludes(errors, "wanted one without control characters");
    }
  },
);
