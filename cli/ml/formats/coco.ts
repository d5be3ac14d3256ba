/**
 * COCO: a JSON file that lists images, categories and annotations with boxes in pixels, and folders of images.
 *
 * A crowd (`iscrowd`) is not a single thing, and is skipped. An annotation without a box or a mask is a label of its
 * image.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { isObject } from "../../../lib/base/schema/schema.ts";
import { type Folder, folderOf, ImageAnnotations, type ImageSize, path, stemOf } from "./folder.ts";

const JSON_BYTES_MAX = 256 * 1024 * 1024;

interface Image extends ImageSize {
  readonly name: string;
  readonly annotations: ImageAnnotations;
}

/** The files that list instances, by their usual names, or else the only JSON file at their usual place. */
export function cocoFiles(folder: Folder): string[] {
  const usual = folder.named(/(^|\/)(instances[^/]*|_annotations\.coco)\.json$/i);
  if (usual.length > 0) return usual;
  const others = folder.named(/^(annotations\/)?[^/]+\.json$/i);
  return others.length === 1 ? others : [];
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
    const image = isObject(one) ? byId.get(one.image_id) : undefined;
    if (!isObject(one) || !image) {
      warn(
        at,
        `it is of image ${show(isObject(one) ? one.image_id : one)}, which "images" does not list: left out`,
      );
    } else if (one.iscrowd === 1) crowds++;
    else {
      const told = annotate(image, one, names.get(one.category_id), at);
      if (told !== undefined) warn(at, `${image.name}: ${told}`);
    }
  }
  if (crowds > 0) {
    folder.warnings.add(folder.at(file), `${crowds} annotations of crowds (iscrowd) are left out`);
  }
  for (const image of byId.values()) await place(folder, file, image);
}

async function listsIn(folder: Folder, file: string) {
  let json: unknown;
  const text = await folder.text(file, JSON_BYTES_MAX);
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new SvcError("invalid_argument", `it is not JSON: ${messageOf(cause)}`, { cause });
  }
  const { images, annotations, categories } = isObject(json) ? json : {};
  if (Array.isArray(images) && Array.isArray(annotations) && Array.isArray(categories)) {
    return { images, annotations, categories };
  }
  const wanted = 'wanted an object with the lists "images", "annotations" and "categories"';
  throw new SvcError("invalid_argument", `it is not a list of COCO instances, ${wanted}`);
}

function namesOf(categories: readonly unknown[]): Map<unknown, string> {
  const names = new Map<unknown, string>();
  for (const [at, one] of categories.entries()) {
    const { id, name } = isObject(one) ? one : {};
    if (typeof name !== "string" || name.trim() === "" || !isId(id)) {
      throw new SvcError("invalid_argument", `categories[${at}] is ${show(one)}, wanted an id and a name`);
    }
    if (names.has(id)) {
      throw new SvcError("invalid_argument", `categories[${at}]: the id ${id} is there twice`);
    }
    names.set(id, name.trim());
  }
  return names;
}

function imagesOf(images: readonly unknown[]): Map<unknown, Image> {
  const byId = new Map<unknown, Image>();
  for (const [at, one] of images.entries()) {
    const { id, file_name: name, width, height } = isObject(one) ? one : {};
    if (typeof name !== "string" || name === "" || !isId(id)) {
      throw new SvcError("invalid_argument", `images[${at}] is ${show(one)}, wanted an id and a file_name`);
    }
    if (byId.has(id)) throw new SvcError("invalid_argument", `images[${at}]: the id ${id} is there twice`);
    byId.set(id, { name, width: side(width), height: side(height), annotations: new ImageAnnotations() });
  }
  return byId;
}

/** Boxes stay in pixels until the size of the image is known; returns the warning. */
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
  if (one.bbox === undefined && !hasMask) {
    annotations.labels.add(name);
    return;
  }
  const box = boxIn(one.bbox);
  if (!box) {
    const wanted = "wanted [x, y, width, height] in pixels";
    return annotations.spoil(`${where}: the bbox is ${show(one.bbox)}, ${wanted}`);
  }
  if (!(width > 0 && height > 0)) {
    return annotations.spoil(
      'it has boxes in pixels, and "images" does not tell its width and height: add them',
    );
  }
  const [x, y, wide, high] = box;
  const sides = { xMin: x / width, yMin: y / height, xMax: (x + wide) / width, yMax: (y + high) / height };
  return annotations.addBox(name, sides);
}

async function place(
  folder: Folder,
  file: string,
  { name, width, height, annotations }: Image,
): Promise<void> {
  const beside = folderOf(file);
  const above = folderOf(beside);
  // `instances_val2017.json` describes `val2017/`.
  const split = stemOf(file).replace(/^instances_?/i, "");
  const folders = [beside, above, "", path(above, split), path(beside, split), path(above, "images")];
  const inImages = [path(beside, "images"), path(above, "images", split), "images"];
  const found = folder.find(...[...folders, ...inImages].map((one) => path(one, name)));
  if (found === undefined) return folder.leftOut.add(folder.at(file), folder.missing(name));
  const misfit = annotations.boxes.length > 0 ? await folder.misfit(found, { width, height }) : undefined;
  if (misfit !== undefined) annotations.spoil(`${folder.at(file)}: ${misfit}`);
  folder.add(found, annotations);
}

function boxIn(bbox: unknown): number[] | undefined {
  if (!Array.isArray(bbox) || bbox.length !== 4) return undefined;
  return bbox.every((one) => typeof one === "number" && Number.isFinite(one)) ? bbox : undefined;
}

function isId(id: unknown): boolean {
  return typeof id === "number" || typeof id === "string";
}

function side(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
