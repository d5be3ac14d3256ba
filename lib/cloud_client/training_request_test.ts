import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import type { DatasetImage } from "./dataset.ts";
import { checkImages, checkLabels, countLabels, described, type ModelKind } from "./training_request.ts";
import { datasetImage } from "../../tests/support/dataset_image.ts";

function image(
  { tags = [], classes = [], boxes = [] }: { tags?: string[]; classes?: string[]; boxes?: string[] },
): DatasetImage {
  return {
    ...datasetImage(),
    tags,
    classifications: classes.map((label) => ({ id: "", label })),
    boxes: boxes.map((label) => ({ id: "", label, xMin: 0, yMin: 0, xMax: 1, yMax: 1 })),
  };
}

const times = (count: number, one: DatasetImage) => Array.from({ length: count }, () => one);

function refusalOf(kind: ModelKind, images: DatasetImage[], labels = ["cat", "dog"]): string {
  return assertThrows(() => checkImages(kind, labels, images), SvcError).message;
}

Deno.test("countLabels: joins tags and classifications, and counts boxes separately", () => {
  const images = [
    image({ tags: ["cat"], classes: ["cat"] }),
    image({ classes: ["dog"], boxes: ["cat", "cat"] }),
    image({ tags: ["night"] }),
    image({}),
  ];
  const single = countLabels("single_label_classification", ["cat", "dog"], images);
  assertEquals([...single.byLabel], [["cat", 1], ["dog", 1]]);
  assertEquals([single.images, single.labeled, single.ambiguous], [4, 3, 0]);
  const boxes = countLabels("object_detection", ["cat", "dog"], images);
  assertEquals([[...boxes.byLabel], boxes.labeled], [[["cat", 1], ["dog", 0]], 1]);
  assertEquals(described(boxes), "4 images, 1 of them labeled (cat 1, dog 0)");
});

Deno.test("checkImages: leaves out an image with two labels only for single-label classification", () => {
  const images = [...times(7, image({ tags: ["cat"] })), ...times(8, image({ tags: ["dog", "cat"] }))];
  assertEquals(checkImages("multi_label_classification", ["cat", "dog"], images).ambiguous, 0);
  assertEquals(
    refusalOf("single_label_classification", images),
    "the dataset has 15 images, 15 of them labeled (cat 15, dog 8), 8 left out because they have more than one " +
      "of the labels, wanted at least 15 usable images",
  );
});

Deno.test("checkImages: enforces the published minimum numbers exactly", () => {
  const kind = "object_detection";
  const [good, bare] = [image({ boxes: ["cat", "dog"] }), image({})];
  checkImages(kind, ["cat"], times(15, good));
  checkImages(kind, ["cat"], [...times(16, good), ...times(4, bare)]);
  assertEquals(refusalOf(kind, times(14, good)).includes("at least 15"), true);
  assertEquals(refusalOf(kind, [...times(16, good), ...times(5, bare)]).includes("80 %"), true);
  assertEquals(refusalOf(kind, times(15, good), ["cat", "cow"]).includes('one image with "cow"'), true);
  checkLabels(["cat"]);
  assertThrows(() => checkLabels([]), SvcError, "tags: found 0, wanted 1 to 200");
  for (const label of ["a\nb", "a\u2028b", "a\u001b[31m", "a\u0085b"]) {
    assertThrows(() => checkLabels([label]), SvcError, "in one line");
  }
});

Deno.test("one label is enough if some images do not have it", () => {
  const [cats, others] = [times(15, image({ tags: ["cat"] })), times(2, image({ tags: ["dog"] }))];
  for (const kind of ["single_label_classification", "multi_label_classification"] as const) {
    assertEquals(checkImages(kind, ["cat"], [...cats, ...others]).byLabel.get("cat"), 15);
    assertEquals(
      refusalOf(kind, cats, ["cat"]),
      'the dataset has 15 images, 15 of them labeled (cat 15): every image has "cat", so there is nothing to tell it ' +
        "from; add images of something else, with another label, and train on this label or on both",
    );
  }
  checkImages("object_detection", ["cat"], times(15, image({ boxes: ["cat"] })));
});
