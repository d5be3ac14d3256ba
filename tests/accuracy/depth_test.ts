/**
 * The segmenter's required quality: on labelled frames of a real camera if they are available, and on random scenes.
 */

import { assert, assertEquals } from "@std/assert";
import { sceneLens } from "../../drivers/camera/scene.ts";
import { decodePng } from "../../lib/geometry/image/png.ts";
import { Segmenter } from "../../lib/geometry/cloud/segmentation.ts";
import { LIMITS, readFrames, scoreOf, summaryOf, tableShare } from "./mosd.ts";
import { DEFAULTS, problemsOf, randomScene } from "./scenes.ts";

const SCENES = 60;

const data = await readFrames();
const ignore = data === undefined;
const where = ignore ? " (skipped: there is no ../shared/data/depth/mosd)" : "";

Deno.test({
  name: `Segmenter finds the objects of real depth frames${where}`,
  ignore,
  fn() {
    const segmenter = new Segmenter(data!.lens, LIMITS);
    const scores = data!.frames.map((frame) => {
      const segmentation = segmenter.segment(frame.depth);
      assert(tableShare(frame, segmentation) > 0.99, `${frame.name}: the table is not the ground`);
      return scoreOf(frame, segmentation);
    });
    const { exactCounts, precision, recall, meanIou } = summaryOf(scores);
    assert(exactCounts >= 0.95, `exact counts ${exactCounts}`);
    assert(precision >= 0.98, `precision ${precision}`);
    assert(recall >= 0.98, `recall ${recall}`);
    assert(meanIou >= 0.95, `mean IoU ${meanIou}`);
  },
});

Deno.test({
  name: `Segmenter takes no tilted table for ground at the default tolerance${where}`,
  ignore,
  fn() {
    const segmenter = new Segmenter(data!.lens, { ...LIMITS, groundAngleToleranceDeg: 30 });
    for (const { name, depth } of data!.frames) {
      assertEquals(segmenter.segment(depth).ground, undefined, name);
    }
  },
});

for (
  const [what, limits, width, height] of [
    ["documented defaults", DEFAULTS, 160, 120],
    ["as for the real frames", LIMITS, 320, 240],
  ] as const
) {
  Deno.test(`Segmenter finds every body of random scenes and nothing else: ${what}`, () => {
    const segmenter = new Segmenter(sceneLens(width, height), limits);
    for (let seed = 1; seed <= SCENES; seed++) {
      const scene = randomScene(seed, limits, [width, height]);
      assertEquals(problemsOf(scene, segmenter.segment(scene.depth), limits), [], `seed ${seed}`);
    }
  });
}

Deno.test("examples/obstacles.ts draws the ground and four objects", async () => {
  const file = await Deno.makeTempFile({ suffix: ".png" });
  const example = new URL("../../examples/obstacles", import.meta.url).pathname;
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${example}.ts`, `${example}.json`, file],
  }).output();
  const written = new TextDecoder().decode(stdout);
  assert(success, written);
  assertEquals(written.match(/^object \d+: \d+ points around/gm)?.length, 4, written);
  const { width, height } = decodePng(await Deno.readFile(file));
  await Deno.remove(file);
  assertEquals([width, height], [1280, 480]);
});

Deno.test("a stricter clustering gives no fewer pieces, and a larger radius no more", () => {
  const limits = { ...DEFAULTS, minPointsInSegment: 1 };
  for (let seed = 1; seed <= 10; seed++) {
    const { depth } = randomScene(seed, limits, [160, 120]);
    const pieces = (change: Partial<typeof limits>) =>
      new Segmenter(sceneLens(160, 120), { ...limits, ...change }).segment(depth).segments.length;
    const strict = [1, 3, 5, 8, 15].map((clusteringStrictness) => pieces({ clusteringStrictness }));
    assertEquals(strict, strict.toSorted((a, b) => a - b), `seed ${seed}`);
    const wide = [1, 2, 3, 5].map((clusteringRadius) => pieces({ clusteringRadius }));
    assertEquals(wide, wide.toSorted((a, b) => b - a), `seed ${seed}`);
  }
});
