/**
 * Datasets from the folders of other tools: their formats, their errors, and paths that lead out of them.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { PNG } from "./fake_cloud.ts";
import { coco, IMAGES, importTest, INSTANCES, picture, thing, voc } from "./import_folder.ts";
import { envOf, svcMl } from "./program.ts";

importTest("COCO: instances and a folder of images, including images without objects", async (place) => {
  await place.write({ ...IMAGES, [INSTANCES]: coco(), "annotations/captions_val2017.json": "{}" });
  const { code, output, errors } = await place.run("--tags", "all");
  assertEquals([code, errors], [0, ""]);
  assertEquals(output, "LABEL  BOXES\ncat    1\ndog    1\n2 images are in shapes, 1 of them with boxes\n");
  assertEquals(place.added(), [
    ["a.png", ["all"], ["cat 10 10 40 50", "dog 0 0 100 100"]],
    ["b.png", ["all"], []],
  ]);
});

importTest(
  "COCO: annotations without a box become tags, and --annotations names the file",
  async ({ write, run, added, cloud }) => {
    const annotations = [{ image_id: 1, category_id: 90 }];
    await write({
      "train/a.png": PNG,
      "train/b.png": PNG,
      "train/_annotations.coco.json": coco({ annotations }),
    });
    assertEquals((await run()).code, 0);
    assertEquals(added(), [["a.png", ["dog"], []], ["b.png", [], []]]);
    cloud.images.clear();
    await write({ "mine/list.json": coco(), "mine/images/a.png": PNG, "mine/images/b.png": PNG });
    assertEquals((await run("--annotations", "mine/list.json")).code, 0);
    assertEquals(added().map(([name, , boxes]) => [name, boxes.length]), [["a.png", 2], ["b.png", 0]]);
  },
);

importTest("of many problems the first twenty are listed, and the others counted", async ({ write, run }) => {
  const strange = (count: number) => Array.from({ length: count }, () => ({ image_id: 3, category_id: 7 }));
  for (const [count, more] of [[20, undefined], [23, "3"]] as const) {
    await write({ ...IMAGES, [INSTANCES]: coco({ annotations: strange(count) }) });
    const { code, errors } = await run();
    assertEquals(code, 0);
    assertEquals(errors.split("it is of image 3").length - 1, 20);
    assertEquals(/ (\d+) more; see --json\n/.exec(errors)?.[1], more);
  }
});

importTest("COCO: each error has the file and what to do", async (place) => {
  const { write, run, folder, cloud } = place;
  const box = { image_id: 1, category_id: 7, bbox: [20, 10, 60, 40] };
  for (
    const [change, logged, code, added] of [
      ["{", `${folder}/${INSTANCES}: it is not JSON: `, 2, 0],
      ["[]", 'it is not a list of COCO instances, wanted an object with the lists "images"', 2, 0],
      ["\u00ff".repeat(2), "it is not JSON", 2, 0],
      [coco({ categories: [{ id: 1 }] }), 'categories[0] is {"id":1}, wanted an id and a name', 2, 0],
      [
        coco({ images: [{ id: 1, file_name: "a.png" }, { id: 1, file_name: "b.png" }] }),
        "images[1]: the id 1 is there twice",
        2,
        0,
      ],
      [
        coco({ annotations: [{ ...box, category_id: 8 }] }),
        `left out ${folder}/val2017/a.png: annotations[0] is of category 8, which "categories" does not list: add it there`,
        0,
        1,
      ],
      [
        coco({ annotations: [{ ...box, image_id: 3 }, 5] }),
        'annotations[0]: it is of image 3, which "images" does not list: left out',
        0,
        2,
      ],
      [
        coco({ annotations: [{ ...box, bbox: [1, 2, "3", 4] }] }),
        'the bbox is [1,2,"3",4], wanted [x, y, width, height] in pixels',
        0,
        1,
      ],
      [
        coco({ annotations: [{ ...box, bbox: [150, 10, 100, 40] }] }),
        'a.png: a box "cat" reaches out of the image and is cut to it',
        0,
        2,
      ],
      [
        coco({ annotations: [{ ...box, bbox: [300, 10, 100, 40] }] }),
        'a box "cat" lies outside the image and is left out',
        0,
        2,
      ],
      [
        coco({ annotations: [{ ...box, iscrowd: 1 }] }),
        "1 annotations of crowds (iscrowd) are left out",
        0,
        2,
      ],
      [
        coco({ images: [{ id: 1, file_name: "a.png" }] }),
        '"images" does not tell its width and height: add them',
        2,
        0,
      ],
      [
        coco({ images: [{ id: 1, file_name: "a.png", width: 100, height: 200 }] }),
        `${folder}/val2017/a.png is 200 x 100 pixels, and 100 x 200 here: has it been turned or replaced?`,
        2,
        0,
      ],
      [
        coco({
          images: [{ id: 1, file_name: "a.png", width: 2, height: 1 }, { id: 2, file_name: "none.png" }],
        }),
        `there is no image "none.png" in ${folder}: add it, or remove its annotations`,
        0,
        1,
      ],
    ] as const
  ) {
    await write({ ...IMAGES, [INSTANCES]: change });
    const found = await run();
    assertStringIncludes(found.errors, logged);
    assertEquals([found.code, cloud.images.size], [code, added], logged);
    cloud.images.clear();
  }
  await Deno.writeFile(`${folder}/${INSTANCES}`, Uint8Array.of(0x22, 0xff, 0x22));
  assertStringIncludes((await run()).errors, "it is not in UTF-8: save it in UTF-8");
  await Deno.truncate(`${folder}/${INSTANCES}`, 300 * 1024 * 1024);
  assertStringIncludes(
    (await run()).errors,
    "it has 314572800 bytes, wanted at most 268435456: divide it into several",
  );
});

importTest(
  "YOLO: all splits are imported, outlines become boxes, and images without a text file have none",
  async (place) => {
    await place.write({
      "data.yaml":
        "path: ../elsewhere\ntrain: images/train # as it is\nnc: 2\nnames:\n  0: cat\n  1: 'big dog'\n",
      "images/train/a.png": PNG,
      "labels/train/a.txt": "0 0.5 0.5 0.2 0.4\n\n1 0.1 0.1 0.3 0.1 0.3 0.5\n",
      "images/val/b.png": PNG,
      "labels/val/b.txt": "1 0.5 0.5 1 1 0.75\r\n",
      "images/val/c.png": PNG,
      "labels/val/d.txt": "0 0.5 0.5 0.2 0.4",
    });
    const { code, output, errors } = await place.run();
    assertEquals(code, 0);
    assertEquals(
      errors,
      `left out ${place.folder}/labels/val/d.txt: there is no image of this name in the folder: add it, or remove this file\n`,
    );
    assertStringIncludes(output, "3 images are in shapes, 2 of them with boxes; 1 left out\n");
    assertEquals(place.added(), [
      ["a.png", [], ["cat 40 30 60 70", "big dog 10 10 30 50"]],
      ["b.png", [], ["big dog 0 0 100 100"]],
      ["c.png", [], []],
    ]);
    assertEquals(place.cloud.images.get("b.png")!.boxes[0].confidence, 0.75);
  },
);

importTest(
  "YOLO: class names come from classes.txt, and label files may lie beside the images",
  async ({ write, run, added }) => {
    await write({
      "classes.txt": "cat\ndog\n",
      "a.png": PNG,
      "a.txt": "1 0.5 0.5 0.5 0.5",
      "train/images/b.png": PNG,
      "train/labels/b.txt": "0 0.5 0.5 0.5 0.5",
    });
    assertEquals((await run()).code, 0);
    assertEquals(added(), [["a.png", [], ["dog 25 25 75 75"]], ["b.png", [], ["cat 25 25 75 75"]]]);
  },
);

importTest("YOLO: each error has the line and what to do", async (place) => {
  const { write, run, folder, cloud } = place;
  await write({ "images/a.png": PNG, "images/b.png": PNG, "labels/b.txt": "" });
  for (
    const [line, logged, added] of [
      ["2 0.5 0.5 0.2 0.4", "class 2 has no name, there are 2: add it to the names", 1],
      ["cat 0.5 0.5 0.2 0.4", 'found "cat 0.5 0.5 0.2 0.4", wanted the number of a class and x, y,', 1],
      ["0 0.5 0.5 0.2", "wanted the number of a class", 1],
      ["0 0.5 0.5 0.2 nan", 'found "nan", which is no number, in "0 0.5 0.5 0.2 nan"', 1],
      ["0 0.5 0.5 0.2 1e999", 'a box "cat" has sides that are not numbers', 1],
      ["0 0.5 0.5 0.2 0.2 7", "the confidence is 7, wanted 0 to 1", 1],
      ["0 320 240 64 48", '"0 320 240 64 48" counts pixels: wanted the number of a class', 1],
      ["0 1.5 0.5 0.2 0.4", 'a box "cat" lies outside the image and is left out: fix or remove it', 2],
      ["0 0.5 0.5 -0.2 0.4", 'a box "cat" has its corners swapped, or a negative size', 2],
      ["0 0.9 0.5 0.4 0.2", 'a box "cat" reaches out of the image and is cut to it', 2],
      ["0 0.5 0.5 0 0.2", 'a box "cat" has no width and is left out', 2],
      ["0 0.5 0.5 0.1 0.1\n".repeat(1001), "it has more than 1000 boxes", 1],
      ["0 0.5 0.5 0.1 0.1\n".repeat(60_000), "it has 1080000 bytes, wanted at most 1048576", 1],
    ] as const
  ) {
    await write({ "data.yaml": "names: [cat, dog]", "labels/a.txt": line });
    const found = await run();
    assertStringIncludes(found.errors, `${folder}/labels/a.txt`);
    assertStringIncludes(found.errors, logged);
    assertEquals([found.code, cloud.images.size], [0, added], logged);
    cloud.images.clear();
  }
  for (
    const [yaml, logged] of [
      ["nc: 1", 'data.yaml: it has no "names", wanted the classes as "names: [cat, dog]"'],
      ["names:\nnc: 1", 'there is nothing under "names"'],
      ["names: cat", 'found "names: cat"'],
      ["names: [cat", "it is not YAML: Cannot read flow collection"],
      ["names:\n  0: cat\n  0: dog", "it is not YAML: Cannot store mapping pair: duplicated key at line 3"],
      ["names:\n  0: cat\n  00: dog", "class 0 is there twice"],
      ["names: [[cat]]", 'the name of class 0 is ["cat"]'],
      [
        "names: [cat]\nkpt_shape: [0, 3]",
        'kpt_shape is ["0","3"], wanted [keypoints, 2 or 3 numbers of each]',
      ],
      ["names:\n  999999999: cat", "class 999999999 is one too many"],
      ["names: [*x]", "it is not YAML: "],
    ]
  ) {
    await write({ "data.yaml": yaml });
    const found = await run();
    assertEquals(found.code, 2);
    assertStringIncludes(found.errors, logged);
  }
  await write({ "data.yaml": "names: [cat]" });
  for (const name of ["a", "b"]) await Deno.remove(`${folder}/labels/${name}.txt`);
  assertStringIncludes((await run()).errors, "wanted a .txt of the same name in labels/, or beside it");
});

for (const above of ["", "VOCdevkit/VOC2007/"]) {
  importTest(
    `Pascal VOC: Annotations and JPEGImages folders are imported from "${above}"`,
    async (place) => {
      await place.write({
        [`${above}JPEGImages/a.png`]: picture(200, 100),
        [`${above}JPEGImages/b.png`]: picture(200, 100),
        [`${above}JPEGImages/nothing.png`]: PNG,
        [`${above}Annotations/a.xml`]: voc(
          thing("cat &amp; co", [21, 11, 80, 50]) + thing("dog", [0, 0, 200, 100]),
        ),
        [`${above}Annotations/b.xml`]: voc("", { name: "other.png" }),
        [`${above}ImageSets/Main/train.txt`]: "a\n",
      });
      const { code, errors } = await place.run();
      assertEquals([code, errors], [0, ""]);
      assertEquals(place.added(), [
        ["a.png", [], ["cat & co 10 10 40 50", "dog 0 0 100 100"]],
        ["b.png", [], []],
      ]);
    },
  );
}

importTest("Pascal VOC: each error has the file and what to do", async (place) => {
  const { write, run, folder, cloud } = place;
  const good = thing("cat", [21, 11, 80, 50]);
  const bomb = `<!DOCTYPE a [<!ENTITY a "${"x".repeat(1000)}"><!ENTITY b "${"&a;".repeat(1000)}">]>`;
  await write({
    "JPEGImages/a.png": picture(200, 100),
    "JPEGImages/b.png": PNG,
    "Annotations/b.xml": voc("", { name: "b.png" }),
  });
  for (
    const [xml, logged, added] of [
      ["<annotation><object>", "it is not well-formed XML: ", 1],
      ["", "it is not well-formed XML", 1],
      [
        `${bomb}<annotation><filename>&b;</filename></annotation>`,
        "its document type (<!DOCTYPE>) declares entities, which this program does not read: remove them",
        1,
      ],
      [voc(good).replace("<annotation>", "<annotation>&b;"), "it is not well-formed XML: ", 1],
      ["<robot/>", "it begins with <robot>, wanted <annotation>", 1],
      [voc(good, { size: "" }), "", 2],
      [
        voc(good, { size: "<size><width>100</width><height>200</height></size>" }),
        "a.png is 200 x 100 pixels, and 100 x 200 here",
        1,
      ],
      [
        voc("<object><name>cat</name></object>"),
        'object 1, "cat", has no <bndbox>: add it, or remove the object',
        1,
      ],
      [voc(good.replace("<name>cat</name>", "")), "object 1 has no <name>: add it", 1],
      [voc(thing("cat", [1, 2, "x", 4])), 'a box "cat" has sides that are not numbers', 1],
      [voc(thing("cat", [100, 20, 300, 40])), 'a box "cat" reaches out of the image and is cut to it', 2],
      [voc(thing("cat", [-50, 20, 30, 40])), 'a box "cat" reaches out of the image and is cut to it', 2],
      [voc(thing("cat", [300, 20, 400, 40])), 'a box "cat" lies outside the image and is left out', 2],
      [voc(good).padEnd(600_000), "it has 600000 bytes, wanted at most 524288", 1],
    ] as const
  ) {
    await write({ "Annotations/a.xml": xml });
    const found = await run();
    assertStringIncludes(found.errors, logged);
    if (logged !== "") assertStringIncludes(found.errors, `${folder}/Annotations/a.xml: `);
    assertEquals([found.code, cloud.images.size], [0, added], logged);
    cloud.images.clear();
  }
  await write({
    "Annotations/a.xml": voc(good, { name: "c.png" }),
    "Annotations/c.xml": voc(good, { name: "none.png" }),
  });
  const found = await run();
  // If no image has the given name, the file's own name counts.
  assertStringIncludes(
    found.errors,
    `left out ${folder}/Annotations/c.xml: there is no image "none.png" in ${folder}: add it`,
  );
  assertEquals(cloud.images.size, 2);
});

importTest("nothing outside the folder is read, even if a file names it", async (place) => {
  const { write, run, folder, cloud } = place;
  await Deno.writeFile(`${folder}/../secret.png`, PNG);
  await Deno.writeTextFile(`${folder}/../data.yaml`, "names: [cat]");
  const names = [
    "../secret.png",
    `${folder}/../secret.png`,
    "x/../../secret.png",
    "..\\secret.png",
    "secret.png\0",
    "link.png",
    "links/secret.png",
  ];
  await write({ "here.png": PNG });
  await Deno.symlink(`${folder}/../secret.png`, `${folder}/link.png`);
  await Deno.symlink(`${folder}/..`, `${folder}/links`);
  const images = names.map((name, id) => ({ id, file_name: name, width: 10, height: 10 }));
  await write({
    "instances.json": coco({ images: [...images, { id: 99, file_name: "here.png" }], annotations: [] }),
  });
  const { code, output, errors } = await run("--json");
  assertEquals([code, [...cloud.images.keys()]], [0, ["here.png"]]);
  const { skipped, warnings } = JSON.parse(output);
  assertEquals(skipped.length, names.length);
  assertStringIncludes(
    errors,
    `it names the image "../secret.png", which is outside of ${folder}: put the image into the folder`,
  );
  assertEquals(warnings.map(({ path }: { path: string }) => path).sort(), [
    `${folder}/link.png`,
    `${folder}/links`,
  ]);
  await Deno.remove(`${folder}/instances.json`);
  // Neither the file with the names of classes nor one with boxes is a link.
  await Deno.symlink(`${folder}/../data.yaml`, `${folder}/data.yaml`);
  assertStringIncludes((await run()).errors, `${folder} has no annotations that are known: wanted `);
  assertEquals((await run("--annotations", `${folder}/../data.yaml`)).code, 4);
  await write({ "Annotations/a.xml": voc("", { name: "../../secret.png" }) });
  cloud.images.clear();
  assertStringIncludes((await run()).errors, 'it names the image "../../secret.png", which is outside of');
  assertEquals(cloud.images.size, 0);
});

importTest("a folder of several formats, of none, and a missing one", async (place) => {
  const { write, run, folder, cloud } = place;
  assertStringIncludes(
    (await run()).errors,
    `${folder} has no annotations that are known: wanted instances*.json`,
  );
  await write({ ...IMAGES, [INSTANCES]: coco(), "classes.txt": "cat", "val2017/a.txt": "0 0.5 0.5 0.1 0.1" });
  const both = await run();
  assertEquals(both.code, 2);
  assertStringIncludes(
    both.errors,
    `${folder} has annotations/instances_val2017.json of coco and classes.txt of yolo: tell which one with --format`,
  );
  assertStringIncludes(
    (await run("--format", "tfrecord")).errors,
    '--format: found "tfrecord", wanted coco, yolo, voc',
  );
  assertStringIncludes(
    (await run("--format", "voc")).errors,
    "is not in the form of voc: wanted Annotations/*.xml",
  );
  const dry = await run("--format", "YOLO", "--dry-run");
  assertEquals([dry.code, cloud.images.size], [0, 0]);
  assertEquals(dry.output, "LABEL  BOXES\ncat    1\n2 images would be in shapes, 1 of them with boxes\n");
  assertStringIncludes(dry.errors, "nothing has been uploaded\n");
  const json = JSON.parse((await run("--annotations", INSTANCES, "--json")).output);
  assertEquals([
    json.format,
    json.images,
    json.imagesWithBoxes,
    json.boxes,
    json.skipped,
    json.binaryDataIds.length,
  ], ["coco", 2, 1, { cat: 1, dog: 1 }, [], 2]);
  const missing = await svcMl(["dataset", "import", "shapes", `${folder}/none`], { env: envOf(cloud) });
  assertEquals(missing.code, 4);
  assertStringIncludes(missing.errors, `cannot read ${folder}/none: `);
});

importTest(
  "other files are left out, and so are images that training refuses",
  async ({ write, run, folder, added }) => {
    await write({
      "data.yaml": "names: [cat]",
      "a.png": PNG,
      "a.txt": "0 0.5 0.5 0.1 0.1",
      "b.jpg": "text",
      "c.png": PNG,
    });
    await Deno.truncate(`${folder}/c.png`, 65 * 1024 * 1024);
    const { code, errors } = await run();
    assertEquals([code, added().length], [0, 1]);
    assertStringIncludes(errors, `left out ${folder}/b.jpg: it is not a JPEG or PNG\n`);
    assertStringIncludes(
      errors,
      `left out ${folder}/c.png: it has 68157440 bytes, wanted at most 67108864: make it smaller\n`,
    );
  },
);
