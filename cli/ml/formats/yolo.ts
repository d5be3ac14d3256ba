/**
 * YOLO: names of classes in `data.yaml` or `classes.txt`, and for each image a text with a line per object: the number
 * of its class, then the middle, width and height of its box as fractions of the image.
 *
 * A line with more numbers is an outline, whose bounding box counts. Splits (train, val) are merged. An image without a
 * text shows no object.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { type Folder, folderOf, ImageAnnotations, path, stemOf } from "./folder.ts";
import { namesIn } from "./yolo_names.ts";

const TEXT_BYTES_MAX = 1024 * 1024;
const LINE_CHARS_SHOWN = 60;
const LISTS = /(^|\/)(classes\.txt|obj\.names)$/i;

/** The files that may name the classes, the likeliest first. */
export function yoloFiles(folder: Folder): string[] {
  const yaml = folder.named(/^[^/]+\.ya?ml$/i);
  const usual = yaml.filter((name) => /^(data|dataset)\.ya?ml$/i.test(name));
  return [...usual, ...folder.named(LISTS), ...yaml.filter((name) => !usual.includes(name))];
}

export async function readYolo(folder: Folder, file: string): Promise<void> {
  const classes = await classesIn(folder, file);
  const labels = folder.named(/\.txt$/i).filter((name) => !LISTS.test(name));
  const used = new Set<string>();
  for (const name of folder.imageNames()) {
    const text = folder.find(...textsOf(name));
    if (text !== undefined) used.add(text);
    const annotations = new ImageAnnotations();
    if (text !== undefined) await readText(folder, text, classes, annotations);
    folder.add(name, annotations);
  }
  if (used.size === 0) {
    const wanted = "wanted a .txt of the same name in labels/, or beside it";
    throw new SvcError("invalid_argument", `no image in ${folder.path} has a text with boxes, ${wanted}`);
  }
  for (const name of labels) {
    if (used.has(name) || !/(^|\/)labels\//i.test(name)) continue;
    folder.leftOut.add(
      folder.at(name),
      "there is no image of this name in the folder: add it, or remove this file",
    );
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
  return [instead("labels"), instead("Labels"), beside];
}

async function classesIn(folder: Folder, file: string): Promise<readonly string[]> {
  try {
    const text = await folder.text(file, TEXT_BYTES_MAX);
    if (!LISTS.test(file)) return namesIn(text);
    const names = text.split("\n").map((line) => line.trim());
    while (names.at(-1) === "") names.pop();
    return names;
  } catch (cause) {
    const { code, message } = SvcError.from(cause);
    throw new SvcError(code, `${folder.at(file)}: ${message}`, { cause });
  }
}

async function readText(
  folder: Folder,
  name: string,
  classes: readonly string[],
  annotations: ImageAnnotations,
): Promise<void> {
  let text: string;
  try {
    text = await folder.text(name, TEXT_BYTES_MAX);
  } catch (error) {
    return annotations.spoil(`${folder.at(name)}: ${messageOf(error)}`);
  }
  for (const [index, line] of text.split("\n").entries()) {
    const at = `${folder.at(name)}:${index + 1}`;
    if (line.trim() === "") continue;
    const told = readLine(line, classes, annotations);
    if (annotations.fault !== undefined) return void (annotations.fault = `${at}: ${annotations.fault}`);
    if (told !== undefined) folder.warnings.add(at, told);
  }
}

/** Returns the warning. */
function readLine(
  line: string,
  classes: readonly string[],
  annotations: ImageAnnotations,
): string | undefined {
  const [number, ...words] = line.trim().split(/\s+/);
  const values = words.map((word) => /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(word) ? Number(word) : NaN);
  const isOutline = values.length >= 6 && values.length % 2 === 0;
  const isBox = values.length === 4 || values.length === 5;
  if (!/^\d{1,9}$/.test(number) || values.some(Number.isNaN) || !isOutline && !isBox) {
    const shown = line.trim().slice(0, LINE_CHARS_SHOWN);
    const wanted = "wanted the number of a class and x, y, width and height as shares of the image";
    return annotations.spoil(`found "${shown}", ${wanted}`);
  }
  const label = classes[Number(number)];
  if (label === undefined || label === "") {
    return annotations.spoil(`class ${number} has no name, there are ${classes.length}: add it to the names`);
  }
  if (isOutline) {
    const [xs, ys] = [0, 1].map((odd) => values.filter((_, at) => at % 2 === odd));
    const sides = {
      xMin: Math.min(...xs),
      yMin: Math.min(...ys),
      xMax: Math.max(...xs),
      yMax: Math.max(...ys),
    };
    return annotations.addBox(label, sides);
  }
  const [x, y, width, height, confidence] = values;
  if (confidence !== undefined && !(confidence >= 0 && confidence <= 1)) {
    return annotations.spoil(`the confidence is ${confidence}, wanted 0 to 1`);
  }
  const sides = { xMin: x - width / 2, yMin: y - height / 2, xMax: x + width / 2, yMax: y + height / 2 };
  return annotations.addBox(label, sides, confidence);
}
