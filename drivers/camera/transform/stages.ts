/** The stages of a `transform` camera: each has its attributes and makes a picture from a picture. */

import { type Vision, VisionApi } from "../../../lib/api/services/vision.ts";
import { SvcError } from "../../../lib/base/error.ts";
import {
  bool,
  ConfigField,
  type DecodeContext,
  integer,
  list,
  number,
  object,
  text,
} from "../../../lib/base/schema/schema.ts";
import { suggest } from "../../../lib/base/schema/suggest.ts";
import { type ColorImage, type Decoded, encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import type { Dependencies } from "../../../lib/resource/registry.ts";
import type { Call } from "../../../lib/resource/resource.ts";
import { drawBox, drawText, type Ink, type PixelEdges } from "./drawing.ts";
import { cropped, pictureSize, resized, rotated } from "./geometry.ts";

const RED: Ink = [255, 0, 0];
const LABEL_SCALE = 3, TITLE_SCALE = 5;
/** Classes are told from here downwards. */
const TITLE_PX = 30;
/** A label of published training that means no class. */
const UNKNOWN = "VIAM_UNKNOWN";
const CLASSES_MAX = 100;
/** Of a picture that is made larger. */
const RESIZED_PIXELS_MAX = 2 ** 24;

export type PictureStage = (
  content: Decoded,
  dependencies: Dependencies,
  call?: Call,
) => Decoded | Promise<Decoded>;

const labels = list(text(), "labels that count, in any letter case; empty means all").default([]);
const threshold = number("what is less certain does not count", { min: 0 }).default(0);

const STAGES: { readonly [type: string]: ConfigField<PictureStage | undefined> } = {
  "": object({}).with((): PictureStage => (content) => content),
  rotate: object({ angleDegs: number("degrees clockwise").default(180) })
    .with(({ angleDegs }): PictureStage => (content) => rotated(content, angleDegs)),
  resize: object({
    widthPx: integer("new width", { min: 1 }).required(),
    heightPx: integer("new height", { min: 1 }).required(),
  }).with(({ widthPx, heightPx }, at): PictureStage | undefined =>
    widthPx * heightPx <= RESIZED_PIXELS_MAX
      ? (content) => resized(content, widthPx, heightPx)
      : at.error(`found ${widthPx} x ${heightPx} pixels, wanted at most ${RESIZED_PIXELS_MAX}`)
  ),
  crop: object({
    xMinPx: number("left edge, in pixels or as a share of the width", { min: 0 }).default(0),
    yMinPx: number("upper edge", { min: 0 }).default(0),
    xMaxPx: number("right edge", { min: 0 }).required(),
    yMaxPx: number("lower edge", { min: 0 }).required(),
    overlayCropBox: bool("draw the edges instead of cropping").default(false),
  }).with(cropStage),
  detections: object({
    detectorName: text("name of a vision service").required(),
    confidenceThreshold: threshold,
    validLabels: labels,
  }).with(({ detectorName, ...filter }): PictureStage => async (content, dependencies, call) => {
    const image = colorOf(content, "detections");
    const detector = dependencies.lookUp(VisionApi, detectorName);
    const found = await detector.getDetections(encoded(image), call);
    const drawn = copied(image);
    for (const { className, confidence, box, normalized } of found.filter(counts(filter))) {
      const edges = box ?? (normalized && scaledBox(normalized, image));
      if (!edges) continue;
      drawBox(drawn, edges, RED);
      drawText(
        drawn,
        `${className}: ${confidence.toFixed(2)}`,
        [edges.xMin + 6, edges.yMin + 6],
        RED,
        LABEL_SCALE,
      );
    }

    return { kind: "color", image: drawn };
  }),
  classifications: object({
    classifierName: text("name of a vision service").required(),
    confidenceThreshold: threshold,
    maxClassifications: integer("how many classes are asked for; 0 means 1", { min: 0, max: CLASSES_MAX })
      .default(1)
      .with((count) => count || 1),
    validLabels: labels,
  }).with(
    ({ classifierName, maxClassifications, ...filter }): PictureStage =>
    async (content, dependencies, call) => {
      const image = colorOf(content, "classifications");
      const classifier: Vision = dependencies.lookUp(VisionApi, classifierName);
      const found = await classifier.getClassifications(encoded(image), maxClassifications, call);
      const drawn = copied(image);
      const reported = found.filter(counts(filter)).filter(({ className }) => className !== UNKNOWN);
      for (const [index, { className, confidence }] of reported.entries()) {
        const place = [TITLE_PX, TITLE_PX * (index + 1)] as const;
        drawText(drawn, `${className}: ${confidence.toFixed(2)}`, place, RED, TITLE_SCALE);
      }
      return { kind: "color", image: drawn };
    },
  ),
};

/** The stage of this type with these attributes; reports every problem. */
export function stageOf(type: string, attributes: unknown, at: DecodeContext): PictureStage | undefined {
  const stage = Object.hasOwn(STAGES, type) ? STAGES[type] : undefined;
  if (stage) return stage.required().decode(attributes, at.at("attributes"));
  const likely = suggest(type, Object.keys(STAGES));
  const known = Object.keys(STAGES).filter((one) => one !== "").join(", ");
  return at.at("type").wanted(likely ? `${known}; did you mean "${likely}"?` : known, type);
}

interface CropSettings extends PixelEdges {
  readonly overlay: boolean;
}

function cropStage(
  { xMinPx: xMin, yMinPx: yMin, xMaxPx: xMax, yMaxPx: yMax, overlayCropBox: overlay }: {
    xMinPx: number;
    yMinPx: number;
    xMaxPx: number;
    yMaxPx: number;
    overlayCropBox: boolean;
  },
  at: DecodeContext,
): PictureStage | undefined {
  if (xMin >= xMax) return at.at("x_min_px").wanted(`less than x_max_px, which is ${xMax}`, xMin);
  if (yMin >= yMax) return at.at("y_min_px").wanted(`less than y_max_px, which is ${yMax}`, yMin);
  const settings: CropSettings = { xMin, yMin, xMax, yMax, overlay };
  return (content) => crop(content, settings);
}

function crop(content: Decoded, { overlay, ...edges }: CropSettings): Decoded {
  const { width, height } = pictureSize(content);
  const { xMin, yMin, xMax, yMax } = edges;
  // The whole picture would be no crop, so that it means the first pixel, as published.
  const isFirstPixel = xMin === 0 && yMin === 0 && xMax === 1 && yMax === 1;
  const isShare = xMax <= 1 && yMax <= 1 && !isFirstPixel;
  const [byX, byY] = isShare ? [width, height] : [1, 1];
  const window = {
    xMin: Math.trunc(xMin * byX),
    yMin: Math.trunc(yMin * byY),
    xMax: Math.trunc(xMax * byX),
    yMax: Math.trunc(yMax * byY),
  };
  if (!overlay) return cropped(content, window);

  const drawn = copied(colorOf(content, "the crop box"));
  drawBox(drawn, window, RED);
  drawText(drawn, "crop: 1.00", [window.xMin + 6, window.yMin + 6], RED, LABEL_SCALE);

  return { kind: "color", image: drawn };
}

function counts({ confidenceThreshold, validLabels }: {
  readonly confidenceThreshold: number;
  readonly validLabels: readonly string[];
}) {
  const valid = new Set(validLabels.map((label) => label.toLowerCase()));
  return ({ className, confidence }: { readonly className: string; readonly confidence: number }) =>
    confidence >= confidenceThreshold && (valid.size === 0 || valid.has(className.toLowerCase()));
}

function colorOf(content: Decoded, what: string): ColorImage {
  if (content.kind === "color") return content.image;
  throw new SvcError("invalid_argument", `cannot draw ${what}: found a depth image, wanted a colour image`);
}

function copied({ width, height, rgba }: ColorImage): ColorImage {
  return { width, height, rgba: rgba.slice() };
}

function encoded(image: ColorImage) {
  return { image: encodeImage({ kind: "color", image }, MIME.jpeg), mimeType: MIME.jpeg };
}

function scaledBox({ xMin, yMin, xMax, yMax }: PixelEdges, { width, height }: ColorImage): PixelEdges {
  return { xMin: xMin * width, yMin: yMin * height, xMax: xMax * width, yMax: yMax * height };
}
