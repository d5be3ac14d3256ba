import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { encodeImage, MIME } from "../../lib/geometry/image/image.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeCamera } from "../camera/fake.ts";
import { ColorDetectorVision } from "./color_detector.ts";

const RED = { detect_color: "#ff0000", hue_tolerance_pct: 0.05, segment_size_px: 4 };
const COLORS: { readonly [mark: string]: readonly number[] } = {
  R: [255, 0, 0],
  r: [200, 20, 0],
  p: [255, 0, 40],
  B: [0, 0, 255],
  d: [60, 0, 0],
  w: [255, 230, 230],
  ".": [128, 128, 128],
};

function picture(rows: readonly string[]) {
  const rgba = Uint8Array.from([...rows.join("")].flatMap((mark) => [...COLORS[mark], 255]));
  const image = { width: rows[0].length, height: rows.length, rgba };
  return { image: encodeImage({ kind: "color", image }, MIME.png), mimeType: MIME.png };
}

async function boxes(rows: readonly string[], attributes: JsonObject = {}) {
  const vision = await construct(ColorDetectorVision, { ...RED, ...attributes });
  return (await vision.getDetections(picture(rows))).map(({ box }) => [
    box!.xMin,
    box!.yMin,
    box!.xMax,
    box!.yMax,
  ]);
}

Deno.test("color_detector: it puts a box around each region of the hue, the largest first", async () => {
  const vision = await construct(ColorDetectorVision, RED);
  const found = await vision.getDetections(picture(["RR......", "Rr..rrrR", "....RRRB", "R......."]));
  assertEquals(found, [
    {
      className: "red",
      confidence: 1,
      box: { xMin: 4, yMin: 1, xMax: 8, yMax: 3 },
      normalized: { xMin: 0.5, yMin: 0.25, xMax: 1, yMax: 0.75 },
    },
    {
      className: "red",
      confidence: 1,
      box: { xMin: 0, yMin: 0, xMax: 2, yMax: 2 },
      normalized: { xMin: 0, yMin: 0, xMax: 0.25, yMax: 0.5 },
    },
  ]);
});

Deno.test("color_detector: hues match around the colour circle within hue_tolerance_pct", async () => {
  // The hue of p is 350.6 degrees; that of r is 6.
  assertEquals(await boxes(["pp", "rr"]), []);
  assertEquals(await boxes(["pp", "rr"], { hue_tolerance_pct: 0.06 }), [[0, 0, 2, 2]]);
  assertEquals(await boxes(["BB", "BB"], { hue_tolerance_pct: 0.66 }), []);
  assertEquals(await boxes(["BB", "BR"], { hue_tolerance_pct: 1 }), [[0, 0, 2, 2]]);
});

Deno.test("color_detector: dark and pale pixels count only above the cutoffs, grey pixels never", async () => {
  assertEquals(await boxes(["dd", "ww"]), []);
  assertEquals(await boxes(["dd", "dd"], { value_cutoff_pct: 0.1 }), [[0, 0, 2, 2]]);
  assertEquals(await boxes(["ww", "ww"], { saturation_cutoff_pct: 0.05 }), [[0, 0, 2, 2]]);
  assertEquals(await boxes(["..", ".."], { hue_tolerance_pct: 1 }), []);
});

Deno.test("color_detector: the class name is the label, or the name of the hue", async () => {
  const nameOf = async (attributes: JsonObject) => {
    const vision = await construct(ColorDetectorVision, { ...RED, hue_tolerance_pct: 1, ...attributes });
    return (await vision.getDetections(picture(["RR", "RR"])))[0].className;
  };
  const named = ["#ff7d00", "#7dff00", "#00ff7d", "#007dff", "#7d00ff", "#ff00ff", "#ff007d", "#ff0010"];
  assertEquals(await Promise.all(named.map((detect_color) => nameOf({ detect_color }))), [
    "orange",
    "lime-green",
    "green-blue",
    "light-blue",
    "violet",
    "magenta",
    "rose",
    "red",
  ]);
  assertEquals(await nameOf({ label: "stop button" }), "stop button");
});

Deno.test("color_detector: bad attributes are refused with the reason", () => {
  assertEquals(problemsOf(ColorDetectorVision, {}), [
    "detect_color: missing required field, wanted a colour such as #1C4599",
    "hue_tolerance_pct: missing required field, wanted a number of at most 1 greater than 0",
    "segment_size_px: missing required field, wanted an integer of at least 0",
  ]);
  const problem = (attributes: JsonObject) => problemsOf(ColorDetectorVision, { ...RED, ...attributes });
  assertEquals(problem({ hue_tolerance_pct: 0, saturation_cutoff_pct: 8 }).length, 2);
  assertEquals(problem({ detect_color: "red" }), [
    'detect_color: found "red", wanted a colour such as #1C4599',
  ]);
  assertEquals(problem({ detect_color: "#808080" }), [
    "detect_color: the chosen color to detect has a saturation of 0: #808080",
  ]);
  assertEquals(problem({ detect_color: "#4F3815", saturation_cutoff_pct: 1 }), [
    "detect_color: #4F3815 is too unsaturated: its saturation 0.734 is below saturation_cutoff_pct 1",
  ]);
  assertEquals(problem({ detect_color: "#4F3815", value_cutoff_pct: 1 }), [
    "detect_color: #4F3815 is too dark: its value 0.310 is below value_cutoff_pct 1",
  ]);
  assertEquals(problem({ detect_color: "#4F3815" }), []);
});

Deno.test("color_detector: it detects through a camera, and refuses classifications and point clouds", async () => {
  const camera = await construct(FakeCamera, { width: 320, height: 240, scene: "boxes" }, { name: "cam" });
  const attributes = { ...RED, detect_color: "#3264c8", segment_size_px: 400, camera_name: "cam" };
  assertEquals(namedBy(ColorDetectorVision, attributes), ["cam"]);
  const vision = await construct(ColorDetectorVision, attributes, { dependencies: [camera] });
  const [{ className, box }, ...others] = await vision.getDetectionsFromCamera("");
  assertEquals([className, others], ["light-blue", []]);
  assertEquals(box!.xMin > 160, true);
  await assertRejects(() => vision.getClassificationsFromCamera("", 1), SvcError, "does not implement");
  await assertRejects(() => vision.getObjectPointClouds(""), SvcError, "does not implement");
  const map = { width: 1, height: 1, data: Uint16Array.of(1) };
  const depth = { image: encodeImage({ kind: "depth", map }, MIME.depth), mimeType: MIME.depth };
  await assertRejects(() => vision.getDetections(depth), SvcError, "found a depth image");
});
