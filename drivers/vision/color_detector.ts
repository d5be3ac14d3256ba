/**
 * `color_detector`: draws boxes around regions of one hue. It never finds black, white or grey, which have no
 * hue.
 */

import { type Detection, type EncodedImage, VisionApi } from "../../lib/api/services/vision.ts";
import { type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import { type ColorImage, decodeColor } from "../../lib/geometry/image/image.ts";
import { regionsOf } from "../../lib/geometry/image/regions.ts";
import { model } from "../../lib/resource/registry.ts";
import { type Skills, VisionModel } from "./vision_model.ts";

const SATURATION_CUTOFF = 0.2;
const VALUE_CUTOFF = 0.3;

/** Names of hues, each in the middle of its 30 degrees. */
// deno-fmt-ignore
const HUES = [
  "red", "orange", "yellow", "lime-green", "green", "green-blue",
  "cyan", "light-blue", "blue", "violet", "magenta", "rose",
];

const attributes = object({
  detectColor: text("the colour to find, #RRGGBB; must have a hue", {
    pattern: /^#[0-9a-fA-F]{6}$/,
    wanted: "a colour such as #1C4599",
  }).required(),
  hueTolerancePct: number("how far a pixel's hue may differ: near 0 hardly at all, at 1 any hue matches", {
    above: 0,
    max: 1,
  })
    .required(),
  segmentSizePx: integer("smallest region to report, in pixels", { min: 0 }).required(),
  saturationCutoffPct: number("pixels with less saturation count as grey; 0 means the default", {
    min: 0,
    max: 1,
  })
    .default(SATURATION_CUTOFF).with((value) => value || SATURATION_CUTOFF),
  valueCutoffPct: number("darker pixels count as black; 0 means the default", { min: 0, max: 1 })
    .default(VALUE_CUTOFF).with((value) => value || VALUE_CUTOFF),
  label: text("class name of the detections; absent means the name of the hue").default(""),
  cameraName: text("camera for requests that name none").names("camera"),
}).required().with((settings, at) => {
  const { detectColor, saturationCutoffPct, valueCutoffPct } = settings;
  const [, saturation, value] = hsv(...rgbOf(detectColor));
  const place = at.at("detect_color");
  if (saturation === 0) {
    return place.error(`the chosen color to detect has a saturation of 0: ${detectColor}`);
  }
  if (saturation < saturationCutoffPct) {
    const cutoff = `saturation_cutoff_pct ${saturationCutoffPct}`;
    return place.error(
      `${detectColor} is too unsaturated: its saturation ${saturation.toFixed(3)} is below ${cutoff}`,
    );
  }
  if (value < valueCutoffPct) {
    const cutoff = `value_cutoff_pct ${valueCutoffPct}`;
    return place.error(`${detectColor} is too dark: its value ${value.toFixed(3)} is below ${cutoff}`);
  }

  return settings;
});

type Attributes = Infer<typeof attributes>;

export const ColorDetectorVision = model({
  api: VisionApi,
  name: "rdk:builtin:color_detector",
  doc: "Draws boxes around regions of one hue.",
  attributes,
  construct: (from) => new VisionModel(from, skillsOf(from.attributes), from.attributes.cameraName),
});

function skillsOf(settings: Attributes): Skills {
  const [hueDeg] = hsv(...rgbOf(settings.detectColor));
  const className = settings.label || (HUES[Math.round(hueDeg / 30) % HUES.length] ?? "");
  return {
    detect({ image }: EncodedImage): Promise<Detection[]> {
      return Promise.try(() => {
        const picture = decodeColor(image, "detecting colours");
        const { width, height } = picture;
        return regionsOf(maskOf(picture, hueDeg, settings), width)
          .filter(({ pixels }) => pixels >= settings.segmentSizePx)
          .sort((a, b) => b.pixels - a.pixels)
          .map(({ pixels: _, ...box }) => ({
            className,
            confidence: 1,
            box,
            normalized: {
              xMin: box.xMin / width,
              yMin: box.yMin / height,
              xMax: box.xMax / width,
              yMax: box.yMax / height,
            },
          }));
      });
    },
  };
}

/** A mask with 1 for each pixel of the hue. */
function maskOf({ rgba }: ColorImage, hueDeg: number, settings: Attributes): Uint8Array {
  const { hueTolerancePct, saturationCutoffPct, valueCutoffPct } = settings;
  const mask = new Uint8Array(rgba.length / 4);
  for (let pixel = 0, at = 0; pixel < mask.length; pixel++, at += 4) {
    const [hue, saturation, value] = hsv(rgba[at] ?? 0, rgba[at + 1] ?? 0, rgba[at + 2] ?? 0);
    if (saturation === 0 || saturation < saturationCutoffPct || value < valueCutoffPct) continue;
    const apart = Math.abs(hue - hueDeg);
    if (Math.min(apart, 360 - apart) <= 180 * hueTolerancePct) mask[pixel] = 1;
  }
  return mask;
}

function rgbOf(written: string): [red: number, green: number, blue: number] {
  const word = parseInt(written.slice(1), 16);
  return [word >> 16, word >> 8 & 255, word & 255];
}

/** Hue in degrees, saturation and value from 0 to 1, for colour parts from 0 to 255. */
function hsv(red: number, green: number, blue: number): [hueDeg: number, saturation: number, value: number] {
  const most = Math.max(red, green, blue);
  const range = most - Math.min(red, green, blue);
  if (range === 0) return [0, 0, most / 255];
  let sixth = (red - green) / range + 4;
  if (most === red) sixth = (green - blue) / range;
  else if (most === green) sixth = (blue - red) / range + 2;
  return [(60 * sixth + 360) % 360, range / most, most / 255];
}
