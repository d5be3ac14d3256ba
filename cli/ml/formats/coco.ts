/**
 * COCO: a JSON file that lists images, categories and annotations with boxes in pixels, and folders of images.
 *
 * A crowd (`iscrowd`) is not a single thing, and is skipped. An annotation without a box or a mask is a label of its
 * image.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { isObject } from "../../../lib/base/schema/schema.ts";
import { parsedJson } from "./encodings.ts";
import {
  type BoxSides,
  type Folder,
  folderOf,
  ImageAnnotations,
  type ImageSize,
  path,
  stemOf,
} from "./folder.ts";
import { maskSides } from "./coco_mask.ts";
import { angleIn, aroundTurned } from "./turned_box.ts";

const JSON_BYTES_MAX = 256 * 1024 * 1024;
const LISTS = ["images", "annotations", "categories"];

interface Image extends ImageSize {
  readonly name: string;
  readonly annotations: ImageAnnotations;
}

/**
 * The files that list instances, by their usual names, or else all JSON files at their usual place that have the lists
 * of such a file.
 */
export async function cocoFiles(folder: Folder): Promise<string[]> {
  const usual = folder.named(/(^|\/)(instances[^/]*|_annotations\.coco)\.json$/i);
  if (usual.length > 0) return usual;

  const found: string[] = [];
  for (const name of folder.named(/^([^/]+\/)?[^/]+\.json$/i)) {
    const text = await folder.text(name, JSON_BYTES_MAX).catch(() => "");
    if (LISTS.every((list) => text.includes(`"${list}"`))) found.push(name);
  }
  return found;
}

export async function readCoco(folder: Folder, files: readonly string[]): Promise<void> {
  for (const file of files) {
    try {
      await readFile(folder, file);
    } catch (cause) {
      const { code, message } = SvcError.from(cause);
      throw new SvcError(code, `${folder.at(file)}: ${message}`, { cause });
    }
  }
}

async function readFile(folder: Folder, file: string): Promise<void> {
  const { images, annotations, categories } = await listsIn(folder, file);
  const names = namesOf(categories);
  const byId = imagesOf(images);
  const warn = (at: number, reason: string) =>
    folder.warnings.add(`${folder.at(file)}: annotations[${at}]`, reason);
  let crowds = 0;
  for (const [at, one] of annotations.entries()) {
    const image = isObject(one) ? byId.get(idOf(one.image_id)) : undefined;
    if (!isObject(one) || !image) {
      warn(
        at,
        `it is of image ${show(isObject(one) ? one.image_id : one)}, which "images" does not list: left out`,
      );
    } else if ([1, "1", true].includes(one.iscrowd as number)) crowds++;
    else {
      const reported = annotate(image, one, names.get(idOf(one.category_id)), at);
      if (reported !== undefined) warn(at, `${image.name}: ${reported}`);
    }
  }
  if (crowds > 0) {
    folder.warnings.add(folder.at(file), `${crowds} annotations of crowds (iscrowd) are left out`);
  }
  await placeAll(folder, file, [...byId.values()]);
}

/** Adds the images; one that is not where the file says is the only one in the folder with its name. */
async function placeAll(folder: Folder, file: string, images: readonly Image[]): Promise<void> {
  const lost: Image[] = [];
  for (const image of images) {
    const found = imageAt(folder, file, image.name);
    if (found === undefined) lost.push(image);
    else await place(folder, file, image, found);
  }

  const moved = folder.findByEnd(lost.map(({ name }) => name));
  const [first] = moved;
  if (first) {
    const [count, are] = moved.size === 1 ? ["1 image", "is"] : [`${moved.size} images`, "are"];
    const taken = `as "${first[0]}", which is taken as ${folder.at(first[1])}`;
    folder.warnings.add(
      folder.at(file),
      `${count} ${are} found by the file name alone, such ${taken}: are the boxes right?`,
    );
  }
  for (const image of lost) {
    const found = moved.get(image.name);
    if (found === undefined) folder.leftOut.add(folder.at(file), folder.missing(image.name));
    else await place(folder, file, image, found);
  }
}

async function listsIn(folder: Folder, file: string) {
  const json = parsedJson(await folder.text(file, JSON_BYTES_MAX));
  const { images, annotations, categories } = isObject(json) ? json : {};
  if (Array.isArray(images) && Array.isArray(annotations) && Array.isArray(categories)) {
    return { images, annotations, categories };
  }
  const wanted = 'wanted an object with the lists "images", "annotations" and "categories"';
  throw new SvcError("invalid_argument", `it is not a list of COCO instances, ${wanted}`);
}

function namesOf(categories: readonly unknown[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const [at, one] of categories.entries()) {
    const { id, name } = isObject(one) ? one : {};
    if (typeof name !== "string" || name.trim() === "" || !isId(id)) {
      throw new SvcError("invalid_argument", `categories[${at}] is ${show(one)}, wanted an id and a name`);
    }
    if (names.has(idOf(id))) {
      throw new SvcError("invalid_argument", `categories[${at}]: the id ${id} is there twice`);
    }
    names.set(idOf(id), name.trim());
  }
  return names;
}

function imagesOf(images: readonly unknown[]): Map<string, Image> {
  const byId = new Map<string, Image>();
  for (const [at, one] of images.entries()) {
    const { id, file_name: name, width, height } = isObject(one) ? one : {};
    if (typeof name !== "string" || name === "" || !isId(id)) {
      throw new SvcError("invalid_argument", `images[${at}] is ${show(one)}, wanted an id and a file_name`);
    }
    if (byId.has(idOf(id))) {
      throw new SvcError("invalid_argument", `images[${at}]: the id ${id} is there twice`);
    }
    byId.set(idOf(id), {
      name,
      width: side(width),
      height: side(height),
      annotations: new ImageAnnotations(),
    });
  }
  return byId;
}

/** An annotation with a mask and no box has the box around its mask. Returns the warning. */
function annotate(
  { annotations, width, height }: Image,
  one: Record<string, unknown>,
  name: string | undefined,
  at: number,
): string | undefined {
  const where = `annotations[${at}]`;
  if (name === undefined) {
    const found = `${where} is of category ${show(one.category_id)}`;
    return annotations.spoil(`${found}, which "categories" does not list: add it there`);
  }
  const hasMask = Array.isArray(one.segmentation) ? one.segmentation.length > 0 : isObject(one.segmentation);
  const hasBox = Array.isArray(one.bbox) ? one.bbox.length > 0 : one.bbox !== undefined && one.bbox !== null;
  if (!hasBox && !hasMask) {
    annotations.labels.add(name);
    return;
  }

  // CVAT writes the angle of a turned box so; a box beside a mask is the one around the mask.
  const degrees = isObject(one.attributes) && !hasMask ? angleIn(one.attributes.rotation) : NaN;
  const sides = hasBox ? boxSides(one.bbox, degrees) : maskSides(one.segmentation);
  if (!sides) {
    const problem = hasBox
      ? `the bbox is ${show(one.bbox)}, wanted [x, y, width, height] in pixels`
      : `the segmentation is ${show(one.segmentation)}, wanted outlines or run lengths in pixels`;
    return annotations.spoil(`${where}: ${problem}`);
  }
  if (!(width > 0 && height > 0)) {
    return annotations.spoil(
      'it has boxes in pixels, and "images" does not tell its width and height: add them',
    );
  }
  const { xMin, yMin, xMax, yMax } = sides;
  const shares = { xMin: xMin / width, yMin: yMin / height, xMax: xMax / width, yMax: yMax / height };
  return annotations.addBox(name, shares);
}

/** The image at the name, in one of the folders in which tools keep images. */
function imageAt(folder: Folder, file: string, name: string): string | undefined {
  const beside = folderOf(file);
  const above = folderOf(beside);
  // `instances_val2017.json` describes `val2017/`.
  const split = stemOf(file).replace(/^instances_?/i, "");
  const folders = [beside, above, "", path(above, split), path(beside, split), path(above, "images")];
  const below = [path(beside, "images"), path(above, "images", split), "images", path(beside, "data")];
  return folder.find(...[...folders, ...below].map((one) => path(one, name)));
}

async function place(
  folder: Folder,
  file: string,
  { width, height, annotations }: Image,
  found: string,
): Promise<void> {
  const { misfit, orientation } = annotations.boxes.length > 0
    ? await folder.fit(found, { width, height })
    : {};
  if (misfit !== undefined) annotations.spoil(`${folder.at(file)}: ${misfit}`);
  if (orientation !== undefined) annotations.turn(orientation);
  folder.add(found, annotations);
}

function boxSides(bbox: unknown, degrees: number): BoxSides | undefined {
  if (!Array.isArray(bbox) || bbox.length !== 4) return undefined;
  if (!bbox.every((one) => typeof one === "number" && Number.isFinite(one))) return undefined;

  const [x, y, width, height] = bbox;
  return aroundTurned({ xMin: x, yMin: y, xMax: x + width, yMax: y + height }, degrees);
}

function isId(id: unknown): boolean {
  return typeof id === "number" || typeof id === "string";
}

/** Some programs write the same id once as a number and once as a text. */
function idOf(id: unknown): string {
  return typeof id === "string" ? id.trim() : String(id);
}

function side(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
