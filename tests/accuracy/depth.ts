/**
 * `deno task accuracy:depth [scenes]`: how well the segmenter finds objects, in labelled frames of a real depth camera
 * if they are available, and in random scenes (500 of each kind by default). For the scenes it also prints the benefit
 * of counting a thin cluster by its own points only.
 */

import { sceneLens } from "../../drivers/camera/scene.ts";
import { type SegmentationLimits, Segmenter } from "../../lib/geometry/cloud/segmentation.ts";
import { type Frame, LIMITS, readFrames, scoreOf, summaryOf, tableShare } from "./mosd.ts";
import { DEFAULTS, problemsOf, randomScene } from "./scenes.ts";

const SCENES = 500;
const SHOWN_MAX = 10;

const data = await readFrames();
if (data) realFrames(data.frames, new Segmenter(data.lens, LIMITS));
else console.log("no real frames: there is no folder ../shared/data/depth/mosd");

const count = Number(Deno.args[0] ?? SCENES);
randomScenes("documented defaults", DEFAULTS, [320, 240], 0);
randomScenes("documented defaults", DEFAULTS, [320, 240], 1);
randomScenes("as for the real frames", LIMITS, [640, 480], 1);

function realFrames(frames: readonly Frame[], segmenter: Segmenter): void {
  console.log("frame     found  right  mean IoU  table taken away");
  const scores = frames.map((frame) => {
    const segmentation = segmenter.segment(frame.depth);
    const score = scoreOf(frame, segmentation);
    const { found, there, right, iou } = score;
    const table = tableShare(frame, segmentation);
    const mark = found === there && right === there ? "" : `  of ${there}`;
    console.log(
      `${frame.name.padEnd(8)} ${String(found).padStart(6)} ${String(right).padStart(6)}`,
      `${(iou / right).toFixed(3).padStart(9)} ${(100 * table).toFixed(1).padStart(9)} %${mark}`,
    );
    return score;
  });
  const { exactCounts, precision, recall, meanIou } = summaryOf(scores);
  console.log(
    `${frames.length} frames: exact counts ${exactCounts.toFixed(3)}, precision ${precision.toFixed(3)},`,
    `recall ${recall.toFixed(3)}, mean IoU ${meanIou.toFixed(3)}`,
  );
}

function randomScenes(
  what: string,
  limits: SegmentationLimits,
  size: readonly [number, number],
  noise: number,
): void {
  const segmenter = new Segmenter(sceneLens(...size), limits);
  const unfiltered = new Segmenter(sceneLens(...size), { ...limits, minPointsInSegment: 0 });
  let wrong = 0, wrongByAllPoints = 0;
  for (let seed = 1; seed <= count; seed++) {
    const scene = randomScene(seed, limits, size, noise);
    const problems = problemsOf(scene, segmenter.segment(scene.depth), limits);
    const { ground, segments } = unfiltered.segment(scene.depth);
    const large = segments.filter(({ pixels }) => pixels.length >= limits.minPointsInSegment);
    if (problemsOf(scene, { ground, segments: large }, limits).length > 0) wrongByAllPoints++;
    if (problems.length > 0 && ++wrong <= SHOWN_MAX) console.log(`seed ${seed}: ${problems.join("; ")}`);
  }
  console.log(
    `${count} random scenes, ${what}, ${size.join(" x ")}, noise ${noise}: ${wrong} wrong,`,
    `${wrongByAllPoints} if thin clusters counted with all of their points`,
  );
}
