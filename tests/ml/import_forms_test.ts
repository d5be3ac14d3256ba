/**
 * Datasets as other programs really write them: other encodings, keypoints, ids as texts, masks, turned photographs.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { encodeJpeg } from "../../lib/geometry/image/jpeg.ts";
import { withOrientation } from "../support/phone_photo.ts";
import { PNG } from "./fake_cloud.ts";
import { coco, IMAGES, importTest, INSTANCES, picture, thing, voc } from "./import_folder.ts";

importTest(
  "YOLO: the data.yaml of other programs, and class numbers with a fraction",
  async ({ write, run, added, cloud }) => {
    await write({ "images/a.png": PNG, "labels/a.txt": "0 0.5 0.5 0.2 0.4\n1.0 0.5 0.5 1 1" });
    for (
      const [yaml, names] of [
        ['names: ["caf\\xE9", "na\\xEFve"]', ["café", "naïve"]],
        ['"names":\n  "0": no\n  "1": 1.0\n', ["no", "1.0"]],
        ["names:\n- person\n- 'big dog'\nnc: 2", ["person", "big dog"]],
        ["path: !!python/object/apply:pathlib.PosixPath [/data]\nnames: &n [a, b]\nother: *n", ["a", "b"]],
        ["%YAML 1.2\n---\nnames: {0: a, 1: b}\n...\n", ["a", "b"]],
        ["download: |\n  names:\n  - wrong\nnames:\n  0: a # first\n  1: b", ["a", "b"]],
        ["\ufeffnames: [a, b]", ["a", "b"]],
      ] as const
    ) {
      await write({ "data.yaml": yaml });
      assertEquals((await run()).errors, "");
      const boxes = [`${names[0]} 40 30 60 70`, `${names[1]} 0 0 100 100`];
      assertEquals(added(), [["a.png", [], boxes]], yaml);
      cloud.images.clear();
    }
  },
);

importTest("YOLO: the first four numbers of a line with keypoints are the box", async (place) => {
  const { write, run, added, cloud } = place;
  const box = "0 0.5 0.5 0.2 0.4";
  const seen = (count: number, tail: string) =>
    Array.from({ length: count }, (_, at) => `0.4${at} 0.5${tail}`).join(" ");
  await write({ "images/a.png": PNG, "images/b.png": PNG });
  for (
    const [shape, line, other, warns] of [
      ["kpt_shape: [17, 3]", seen(17, " 2"), seen(17, " 0"), false],
      ["kpt_shape: [4, 2]", seen(4, ""), `${seen(4, "")} 0.9`, false],
      ["kpt_shape:\n- 2\n- 3", "0.1 0.1 2 0 0 0", "", false],
      ["", seen(17, " 2"), seen(17, " 1"), true],
      ["", seen(5, " 2"), seen(5, " 0"), true],
      ["", seen(2, ""), "0.41 0.5 0 0", true],
    ] as const
  ) {
    await write({
      "data.yaml": `names: [person]\n${shape}\n`,
      "labels/a.txt": `${box} ${line}`,
      "labels/b.txt": `${box} ${other}`,
    });
    const { errors } = await run();
    assertEquals(
      errors.includes('more numbers, which are taken as keypoints: "kpt_shape" would say so'),
      warns,
      errors,
    );
    assertEquals(added(), ["a.png", "b.png"].map((name) => [name, [], ["person 40 30 60 70"]]), shape + line);
    cloud.images.clear();
  }
  await write({ "data.yaml": "names: [a]\nkpt_shape: [17, 3]", "labels/b.txt": `${box} ${seen(5, " 2")}` });
  assertStringIncludes((await run()).errors, "or 55 numbers with the keypoints");
});

importTest("YOLO: outlines of one length are outlines, not keypoints", async ({ write, run, added }) => {
  await write({
    "data.yaml": "names: [a]",
    "images/a.png": PNG,
    "labels/a.txt": "0 0.1 0.1 0.3 0.1 0.3 0.5 0.1 0.5\n0 0.5 0.5 0.9 0.5 0.9 0.9 0.5 0.9",
  });
  assertEquals((await run()).errors, "");
  assertEquals(added(), [["a.png", [], ["a 10 10 30 50", "a 50 50 90 90"]]]);
});

importTest(
  "COCO: ids as texts, swapped corners, masks without boxes and NaN",
  async ({ write, run, added }) => {
    const rectangle = [[20, 10, 80, 10, 80, 50]];
    const runs = { size: [100, 200], counts: [2010, 40, 60, 40, 17850] };
    const annotations = [
      { image_id: "1", category_id: "7", bbox: [80, 50, -60, -40] },
      { image_id: 1, category_id: 90, segmentation: rectangle, score: "NaN, Infinity" },
      { image_id: 2, category_id: 7, segmentation: runs, bbox: [] },
      {
        image_id: "2",
        category_id: 90,
        segmentation: { size: [100, 200], counts: "Tf03Q3000000000000000Pd15k[N000000000000000000000XU?" },
      },
    ];
    const text = coco({ annotations }).replace('"width":200', '"width":200,"focal":NaN,"far":-Infinity');
    await write({ ...IMAGES, [INSTANCES]: text });
    const { code, errors } = await run();
    assertEquals(code, 0);
    assertStringIncludes(
      errors,
      'a.png: a box "cat" has its corners swapped, or a negative size: its corners are put in order',
    );
    const [[, , first], [, , second]] = added() as [string, string[], string[]][];
    assertEquals(first, ["cat 10 10 40 50", "dog 10 10 40 50"]);
    assertEquals(second, ["cat 10 10 11 50", "dog 4 8 22 80"]);
  },
);

importTest(
  "COCO: an outline on one line has no width, and leaves its image the other things",
  async ({ write, run, added }) => {
    const annotations = [
      { image_id: 1, category_id: 7, bbox: [20, 10, 60, 40] },
      { image_id: 1, category_id: 90, segmentation: [[80, 10, 80, 30, 80, 50]] },
    ];
    await write({ ...IMAGES, [INSTANCES]: coco({ annotations }) });
    const { code, errors } = await run();
    assertEquals(code, 0);
    assertStringIncludes(errors, 'a.png: a box "dog" has no width and is left out: fix or remove it');
    const [[, , first]] = added() as [string, string[], string[]][];
    assertEquals(first, ["cat 10 10 40 50"]);
  },
);

importTest(
  "COCO: several files beside each other count, and a stray JSON does not",
  async ({ write, run, added }) => {
    const of = (name: string) =>
      coco({
        images: [{ id: 1, file_name: name, width: 200, height: 100 }],
        annotations: [{ image_id: 1, category_id: 7, bbox: [20, 10, 60, 40] }],
      });
    await write({
      "train.json": of("A.PNG"),
      "val.json": of("images/b.png"),
      "notes.json": '{"categories": [], "info": {"contributor": "Label Studio"}}',
      "images/a.png": picture(200, 100),
      "images/b.png": picture(200, 100),
    });
    assertEquals((await run()).errors, "");
    assertEquals(added(), [["a.png", [], ["cat 10 10 40 50"]], ["b.png", [], ["cat 10 10 40 50"]]]);
  },
);

importTest("YOLO: a stray JSON makes no folder ambiguous, and other images are named", async (place) => {
  await place.write({
    "classes.txt": "cat\n",
    "notes.json": '{"categories": [{"id": 0, "name": "cat"}], "info": {}}',
    "images/a.PNG": PNG,
    "labels/A.txt": "0 0.5 0.5 0.2 0.4",
    "images/b.bmp": "BM and more",
    "labels/b.txt": "0 0.5 0.5 0.2 0.4",
    "images/c.webp": "RIFF....WEBPVP8 ",
    "images/d.tif": "II*\0more",
  });
  const { errors } = await place.run();
  for (const [name, type] of [["b.bmp", "BMP"], ["c.webp", "WebP"], ["d.tif", "TIFF"]]) {
    const logged =
      `left out ${place.folder}/images/${name}: it is a ${type} image, which is not supported: convert it`;
    assertStringIncludes(errors, logged);
  }
  assertEquals(place.added(), [["a.PNG", [], ["cat 40 30 60 70"]]]);
});

/** A photograph of 16 x 8 stored pixels that is upright as 8 x 16. */
function phonePhoto(): Uint8Array {
  const rgba = new Uint8Array(16 * 8 * 4);
  return withOrientation(encodeJpeg({ width: 16, height: 8, rgba }), 6);
}

importTest(
  "boxes of a phone's photograph count for its upright form",
  async ({ write, run, added, cloud }) => {
    const stored = { width: 16, height: 8, bbox: [0, 0, 4, 8] };
    const upright = { width: 8, height: 16, bbox: [0, 0, 8, 4] };
    for (const { bbox, ...size } of [stored, upright]) {
      const images = [{ id: 1, file_name: "a.jpg", ...size }];
      const annotations = [{ image_id: 1, category_id: 7, bbox }];
      await write({ "val2017/a.jpg": phonePhoto(), [INSTANCES]: coco({ images, annotations }) });
      assertEquals((await run()).errors, "");
      assertEquals(added(), [["a.jpg", [], ["cat 0 0 100 25"]]], JSON.stringify(size));
      cloud.images.clear();
    }
  },
);

importTest("Pascal VOC: other encodings, a document type, swapped corners, outlines", async (place) => {
  const { write, run, added, cloud } = place;
  const good = voc(thing("caf\u00e9", [21, 11, 80, 50]), { name: "A.PNG" });
  const utf16 = (text: string, order: "le" | "be") => {
    const view = new DataView(new ArrayBuffer(2 * text.length + 2));
    for (const [at, letter] of [..."\ufeff" + text].entries()) {
      view.setUint16(2 * at, letter.charCodeAt(0), order === "le");
    }
    return new Uint8Array(view.buffer);
  };
  const latin = Uint8Array.from(
    good.replace("?>", ' encoding="ISO-8859-1"?>'),
    (letter) => letter.charCodeAt(0),
  );
  const type = '<!DOCTYPE annotation SYSTEM "voc.dtd" [<!ELEMENT annotation ANY>]>';
  await write({ "JPEGImages/a.png": picture(200, 100) });
  for (
    const content of [
      utf16(good.replace("?>", ' encoding="UTF-16"?>'), "le"),
      utf16(good, "be"),
      latin,
      good.replace("?>", `?>${type}`),
      good.replace("<bndbox>", "<polygon/><bndbox>"),
      voc(
        "<object><name>caf\u00e9</name><polygon><x1>20</x1><y1>10</y1><x2>80</x2><y2>10</y2><x3>80</x3><y3>50</y3></polygon></object>",
      ),
    ]
  ) {
    await write({ "Annotations/a.xml": content });
    assertEquals((await run()).errors, "");
    assertEquals(added(), [["a.png", [], ["caf\u00e9 10 10 40 50"]]]);
    cloud.images.clear();
  }
  await write({ "Annotations/a.xml": voc(thing("cat", [80, 50, 21, 11])) });
  assertStringIncludes((await run()).errors, 'a box "cat" has its corners swapped');
  await write({ "Annotations/a.xml": good.replace("?>", ' encoding="klingon"?>') });
  assertStringIncludes(
    (await run()).errors,
    'it declares the encoding "klingon", which is unknown: save it in UTF-8',
  );
});

importTest(
  "COCO: images by their file names, where tools write other folders or addresses",
  async (place) => {
    const { folder, write, run, added, cloud } = place;
    const shot = picture(200, 100);
    const annotations = [{ image_id: 1, category_id: 7, bbox: [20, 10, 60, 40] }];
    const named = (name: string) =>
      coco({ images: [{ id: 1, file_name: name, width: 200, height: 100 }], annotations });
    await write({ "images/Train/4-shot a.png": shot });
    for (
      const name of [
        "..\\..\\label-studio\\media\\upload\\4\\4-shot a.png",
        "images\\1/4-shot a.png",
        "/data/local-files/?d=shots%5C4-shot%20a.png",
        "https://bucket.example.com/shots/4-shot%20a.png?signature=a/b",
        "/home/me/4-Shot A.PNG",
        "4-shot a.png",
      ]
    ) {
      await write({ "result.json": named(name) });
      const { errors } = await run();
      assertStringIncludes(
        errors,
        `1 image is found by the file name alone, such as "${name}", which is taken as`,
      );
      assertEquals(added(), [["4-shot a.png", [], ["cat 10 10 40 50"]]], name);
      cloud.images.clear();
    }
    await write({ "data/b.png": shot, "result.json": named("b.png") });
    assertEquals((await run()).errors, "");
    assertEquals(added(), [["b.png", [], ["cat 10 10 40 50"]]]);
    cloud.images.clear();

    await write({ "other/4-shot a.png": shot, "result.json": named("/home/me/4-shot a.png") });
    assertStringIncludes((await run()).errors, `outside of ${folder}: put the image into the folder`);
    const two = ["first/c.png", "second/c.png"].map((name, at) => ({ id: at + 1, file_name: name }));
    const text = coco({ images: two.map((one) => ({ ...one, width: 200, height: 100 })), annotations });
    await write({ "deep/down/c.png": shot, "result.json": text });
    assertStringIncludes((await run()).errors, `there is no image "second/c.png" in ${folder}`);
    assertEquals(added(), []);
  },
);

importTest("Pascal VOC: an image in a folder of its own is found by its file name", async (place) => {
  const { write, run, added } = place;
  await write({
    "train/shots/a b.png": picture(200, 100),
    "Annotations/a.xml": voc(thing("cat", [21, 11, 80, 50]), { name: "C:\\shots\\a b.png" }),
  });
  assertEquals((await run()).errors, "");
  assertEquals(added(), [["a b.png", [], ["cat 10 10 40 50"]]]);
});

importTest(
  "of a turned box of CVAT or roLabelImg, the box around it counts, in COCO and VOC",
  async ({ write, run, added, cloud }) => {
    const mask = [[20, 10, 80, 10, 80, 50]];
    const box = (image_id: number, rotation: unknown, more: object = {}) => ({
      ...{ image_id, category_id: 7, bbox: [80, 40, 40, 20] },
      ...{ attributes: { occluded: false, rotation }, ...more },
    });
    await write({
      ...IMAGES,
      [INSTANCES]: coco({
        annotations: [
          ...[box(1, 90), box(1, 0), box(1, 180), box(1, "270.0"), box(1, "left"), box(1, -450)],
          // 40 x 20 turned by 30 degrees is 44.6 x 37.3 pixels.
          ...[box(2, 30), box(2, 150), box(2, 30, { segmentation: mask })],
        ],
      }),
    });
    assertEquals((await run("--format", "coco")).errors, "");
    const [[, , first], [, , second]] = added() as [string, string[], string[]][];
    const [lying, standing] = ["cat 40 40 60 60", "cat 45 30 55 70"];
    assertEquals(first, [standing, lying, lying, standing, lying, standing]);
    assertEquals(second, ["cat 39 31 61 69", "cat 39 31 61 69", lying]);
    cloud.images.clear();

    const attributes = "<attributes><attribute><name>occluded</name><value>0</value></attribute>" +
      "<attribute><name>rotation</name><value>90.0</value></attribute></attributes>";
    const turned = (angle: string) =>
      "<object><type>robndbox</type><name>dog</name><robndbox><cx>100</cx><cy>50</cy><w>40</w><h>20</h>" +
      `<angle>${angle}</angle></robndbox></object>`;
    const objects = thing("cat", [81, 41, 120, 60]).replace("</object>", `${attributes}</object>`) +
      turned("1.5707963") + turned("0") + turned("0.5235988");
    await write({ "Annotations/a.xml": voc(objects) });
    assertEquals((await run("--format", "voc")).errors, "");
    assertEquals(added(), [
      ["a.png", [], [standing, "dog 45 30 55 70", "dog 40 40 60 60", "dog 39 31 61 69"]],
    ]);
  },
);

importTest("VOC: a name of another image beside one of the file's own name is not guessed", async (place) => {
  const { write, run, added } = place;
  const pictures = { "JPEGImages/a.png": picture(200, 100), "JPEGImages/b.png": picture(200, 100) };
  await write({
    ...pictures,
    "Annotations/a.xml": voc(thing("cat", [21, 11, 80, 50]), { name: "b.png" }),
    "Annotations/b.xml": voc(thing("dog", [21, 11, 80, 50]), { name: "B.jpg" }),
    "Annotations/c.xml": voc(thing("cow", [21, 11, 80, 50]), { name: "a.png" }),
  });
  const { errors } = await run();
  assertEquals(added(), [
    ["a.png", [], ["cow 10 10 40 50"]],
    ["b.png", [], ["dog 10 10 40 50"]],
  ]);
  assertStringIncludes(errors, "a.png has its own name: correct the <filename>");
});

importTest("COCO: crowds are left out in every form that programs write", async ({ write, run, added }) => {
  const crowds = [1, "1", true].map((iscrowd, at) => ({
    id: at,
    image_id: 1,
    category_id: 7,
    bbox: [20, 10, 60, 40],
    iscrowd,
  }));
  const things = [0, "0", false, null].map((iscrowd, at) => ({ ...crowds[0], id: 10 + at, iscrowd }));
  await write({ ...IMAGES, [INSTANCES]: coco({ annotations: [...crowds, ...things] }) });
  assertStringIncludes((await run()).errors, "3 annotations of crowds");
  assertEquals(added()[0], ["a.png", [], things.map(() => "cat 10 10 40 50")]);
});

importTest("names in another form of Unicode, and lines that end by a carriage return", async (place) => {
  const { write, run, added, folder } = place;
  const [composed, divided] = ["B\u00e4r", "Ba\u0308r"];
  const images = [{ id: 1, file_name: `${composed}.png`, width: 200, height: 100 }];
  const [first] = JSON.parse(coco()).annotations;
  await write({
    [`val2017/${divided}.png`]: picture(200, 100),
    [INSTANCES]: coco({ images, annotations: [first] }),
  });
  assertEquals((await run()).errors, "");
  assertEquals(added(), [[`${divided}.png`, [], ["cat 10 10 40 50"]]]);

  await Deno.remove(folder, { recursive: true });
  place.cloud.images.clear();
  await write({ "classes.txt": "a\rb\r", "a.png": PNG, "a.txt": "0 0.5 0.5 1 1\r1 0.5 0.5 0.2 0.4\r" });
  assertEquals((await run()).errors, "");
  assertEquals(added(), [["a.png", [], ["a 0 0 100 100", "b 40 30 60 70"]]]);
});
