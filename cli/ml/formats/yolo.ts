/**
 * YOLO: names of classes in `data.yaml` or `classes.txt`, and for each image a text with a line per object: the number
 * of its class, then the middle, width and height of its box as fractions of the image.
 *
 * A line may go on with keypoints, which do not count. Any other line with more numbers is an outline, whose bounding box
 * counts. Splits (train, val) are merged. An image without a text shows no object.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { type DataYaml, readDataYaml } from "./data_yaml.ts";
import { type BoxSides, type Folder, folderOf, ImageAnnotations, path, stemOf } from "./folder.ts";

const TEXT_BYTES_MAX = 1024 * 1024;
const LINE_CHARS_SHOWN = 60;
const LISTS = /(^|\/)(classes\.txt|obj\.names)$/i;
/** Numbers of a box, before its confidence or its keypoints. */
const BOX_NUMBERS = 4;
/** A number from here on is no fraction of an image: it counts pixels. */
const PIXELS_MIN = 2;
/** Tolerance for keypoints at the edge of their box, as a share of the box. */
const KEYPOINT_SHARE = 0.1;

/** The files that may name the classes, the likeliest first. */
export function yoloFiles(folder: Folder): string[] {
  const yaml = folder.named(/^[^/]+\.ya?ml$/i);
  const usual = yaml.filter((name) => /^(data|dataset)\.ya?ml$/i.test(name));
  return [...usual, ...folder.named(LISTS), ...yaml.filter((name) => !usual.includes(name))];
}

/** An object in the text of an image. */
interface Line {
  /** The file with the line's number. */
  readonly at: string;
  readonly text: string;
  readonly category: string;
  readonly numbers: readonly number[];
}

export async function readYolo(folder: Folder, file: string): Promise<void> {
  const classes = await classesIn(folder, file);
  const labels = folder.named(/\.txt$/i).filter((name) => !LISTS.test(name));
  const used = new Set<string>();
  const images: [image: string, text: readonly Line[] | undefined, annotations: ImageAnnotations][] = [];
  for (const name of folder.imageNames()) {
    const text = folder.find(...textsOf(name));
    if (text !== undefined) used.add(text);
    const annotations = new ImageAnnotations();
    images.push([
      name,
      text === undefined ? undefined : await readText(folder, text, annotations),
      annotations,
    ]);
  }
  if (used.size === 0) {
    const wanted = "wanted a .txt of the same name in labels/, or beside it";
    throw new SvcError("invalid_argument", `no image in ${folder.path} has a text with boxes, ${wanted}`);
  }

  const keypoints = classes.keypointNumbers ?? guessedKeypoints(folder, file, images.map(([, text]) => text));
  for (const [image, text, annotations] of images) {
    for (const line of text ?? []) {
      if (annotations.fault !== undefined) break;
      const warning = annotate(line, classes.names, keypoints, annotations);
      if (annotations.fault !== undefined) annotations.fault = `${line.at}: ${annotations.fault}`;
      else if (warning !== undefined) folder.warnings.add(line.at, warning);
    }
    folder.add(image, annotations);
  }
  for (const name of labels) {
    if (used.has(name) || !/(^|\/)labels\//i.test(name)) continue;
    const reason = "there is no image of this name in the folder: add it, or remove this file";
    folder.leftOut.add(folder.at(name), reason);
  }
}

/** The possible places of an image's text: in `labels` instead of `images`, or beside it. */
function textsOf(name: string): string[] {
  const text = `${stemOf(name)}.txt`;
  const parts = folderOf(name).split("/");
  const at = parts.findLastIndex((part) => part.toLowerCase() === "images");
  const beside = path(folderOf(name), text);
  if (at < 0) return [path(folderOf(name), "labels", text), path("labels", text), beside];
  const instead = (word: string) => path(...parts.with(at, word), text);
  return [instead("labels"), beside];
}

async function classesIn(folder: Folder, file: string): Promise<DataYaml> {
  try {
    const text = await folder.text(file, TEXT_BYTES_MAX);
    if (!LISTS.test(file)) return readDataYaml(text);
    const names = linesOf(text).map((line) => line.trim());
    while (names.at(-1) === "") names.pop();
    return { names, keypointNumbers: undefined };
  } catch (cause) {
    const { code, message } = SvcError.from(cause);
    throw new SvcError(code, `${folder.at(file)}: ${message}`, { cause });
  }
}

async function readText(
  folder: Folder,
  name: string,
  annotations: ImageAnnotations,
): Promise<readonly Line[] | undefined> {
  let text: string;
  try {
    text = await folder.text(name, TEXT_BYTES_MAX);
  } catch (error) {
    return annotations.spoil(`${folder.at(name)}: ${messageOf(error)}`);
  }
  const objects: Line[] = [];
  for (const [index, line] of linesOf(text).entries()) {
    if (line.trim() === "") continue;
    const [category = "", ...words] = line.trim().split(/\s+/);
    objects.push({
      at: `${folder.at(name)}:${index + 1}`,
      text: line.trim(),
      category,
      numbers: words.map(numberIn),
    });
  }
  return objects;
}

/** Old programs for the Mac end lines by a carriage return alone. */
function linesOf(text: string): string[] {
  return text.split(/\r\n|\r|\n/);
}

/** `NaN` for words that are no number, and for those that programs write where they have none (`nan`, `inf`). */
function numberIn(word: string): number {
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(word) ? Number(word) : NaN;
}

/**
 * The count of keypoint numbers behind every box, if the lines show it: all long lines have the same length, and in each
 * the points have a visibility of 0, 1 or 2, or lie within the box that the first four numbers give.
 */
function guessedKeypoints(
  folder: Folder,
  file: string,
  texts: readonly (readonly Line[] | undefined)[],
): number | undefined {
  const long = texts.flatMap((text) => text ?? []).filter(({ numbers }) => numbers.length > BOX_NUMBERS + 1);
  const [first] = long;
  if (!first) return undefined;

  const count = first.numbers.length - BOX_NUMBERS;
  const isPose = long.every(({ numbers }) =>
    numbers.length === first.numbers.length && [3, 2].some((dimensions) => hasKeypoints(numbers, dimensions))
  );
  if (!isPose) return undefined;
  const found = `the lines have a box and ${count} more numbers`;
  folder.warnings.add(folder.at(file), `${found}, which are taken as keypoints: "kpt_shape" would say so`);
  return count;
}

function hasKeypoints(numbers: readonly number[], dimensions: number): boolean {
  const rest = numbers.slice(BOX_NUMBERS);
  if (rest.length % dimensions !== 0) return false;

  const [x = NaN, y = NaN, width = NaN, height = NaN] = numbers;
  const isNear = (place: number, middle: number, size: number) =>
    Math.abs(place - middle) <= size * (0.5 + KEYPOINT_SHARE);
  for (let at = 0; at < rest.length; at += dimensions) {
    const [pointX = NaN, pointY = NaN, visibility = NaN] = rest.slice(at, at + dimensions);
    if (dimensions === 3 && ![0, 1, 2].includes(visibility)) return false;
    const isUnseen = pointX === 0 && pointY === 0;
    if (dimensions === 2 && !isUnseen && !(isNear(pointX, x, width) && isNear(pointY, y, height))) {
      return false;
    }
  }
  return true;
}

/** Returns the warning. */
function annotate(
  { text, category, numbers }: Line,
  classes: readonly string[],
  keypoints: number | undefined,
  annotations: ImageAnnotations,
): string | undefined {
  const shown = text.slice(0, LINE_CHARS_SHOWN);
  const wanted = "wanted the number of a class and x, y, width and height as shares of the image";
  // Some programs write class numbers as floating-point numbers.
  const [, number] = /^(\d{1,9})(?:\.0*)?$/.exec(category) ?? [];
  if (number === undefined) return annotations.spoil(`found "${shown}", ${wanted}`);
  const label = classes[Number(number)];
  if (label === undefined || label === "") {
    return annotations.spoil(`class ${number} has no name, there are ${classes.length}: add it to the names`);
  }

  const form = formOf(numbers.length, keypoints);
  if (form === undefined) {
    const expected = keypoints ? `, or ${BOX_NUMBERS + keypoints} numbers with the keypoints` : "";
    return annotations.spoil(`found "${shown}", ${wanted}${expected}`);
  }
  const counted = form === "outline" ? numbers : numbers.slice(0, BOX_NUMBERS);
  if (counted.some(Number.isNaN)) {
    const word = text.split(/\s+/)[counted.findIndex(Number.isNaN) + 1];
    return annotations.spoil(`found "${word}", which is no number, in "${shown}": ${wanted}`);
  }
  if (Math.max(...counted) >= PIXELS_MIN && counted.every(Number.isFinite)) {
    return annotations.spoil(`"${shown}" counts pixels: ${wanted}, from 0 to 1`);
  }
  if (form === "outline") return annotations.addBox(label, sidesOf(numbers));

  const [x = NaN, y = NaN, width = NaN, height = NaN] = numbers;
  const confidence = form === "scored" ? numbers.at(-1)! : undefined;
  if (confidence !== undefined && !(confidence >= 0 && confidence <= 1)) {
    return annotations.spoil(`the confidence is ${confidence}, wanted 0 to 1`);
  }
  const sides = { xMin: x - width / 2, yMin: y - height / 2, xMax: x + width / 2, yMax: y + height / 2 };
  return annotations.addBox(label, sides, confidence);
}

/** A box, a box with its confidence at the end of the line, or an outline; `undefined` for any other length. */
function formOf(length: number, keypoints: number | undefined): "box" | "scored" | "outline" | undefined {
  const behind = length - BOX_NUMBERS;
  if (behind === 0 || behind === keypoints) return "box";
  if (behind === 1 || keypoints !== undefined && behind === keypoints + 1) return "scored";
  return keypoints === undefined && length >= 6 && length % 2 === 0 ? "outline" : undefined;
}

/** The box around an outline. */
function sidesOf(points: readonly number[]): BoxSides {
  const xs = points.filter((_, at) => at % 2 === 0);
  const ys = points.filter((_, at) => at % 2 === 1);
  return { xMin: Math.min(...xs), yMin: Math.min(...ys), xMax: Math.max(...xs), yMax: Math.max(...ys) };
}
