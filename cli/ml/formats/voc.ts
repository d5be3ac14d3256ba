/**
 * Pascal VOC: for each image an XML file in `ImageAnnotations`, and the images in `JPEGImages`. Sides of boxes are pixels,
 * counted from 1.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { childOf, childrenOf, type Element, parseXml, textIn } from "../../../lib/base/xml.ts";
import { type Folder, folderOf, ImageAnnotations, type ImageSize, path, stemOf } from "./folder.ts";

const XML_BYTES_MAX = 512 * 1024;
const FOLDERS = ["JPEGImages", "images", "Images", ""];
const ENDINGS = [".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"];

/** The files with annotations: those in `ImageAnnotations`, or all. */
export function vocFiles(folder: Folder): string[] {
  const usual = folder.named(/(^|\/)Annotations\/([^/]+\/)*[^/]+\.xml$/i);
  return usual.length > 0 ? usual : folder.named(/\.xml$/i);
}

export async function readVoc(folder: Folder, files: readonly string[]): Promise<void> {
  for (const file of files) {
    try {
      await readFile(folder, file);
    } catch (error) {
      folder.leftOut.add(folder.at(file), `${messageOf(error)}; its image is left out`);
    }
  }
}

async function readFile(folder: Folder, file: string): Promise<void> {
  const root = await parseXml(await folder.text(file, XML_BYTES_MAX));
  if (root.tagName !== "annotation") throw invalid(`it begins with <${root.tagName}>, wanted <annotation>`);
  const named = textIn(root, "filename") ?? "";
  const image = imageOf(folder, file, named);
  if (image === undefined) {
    return folder.leftOut.add(folder.at(file), folder.missing(named || `${stemOf(file)}.jpg`));
  }
  const annotations = new ImageAnnotations();
  const objects = childrenOf(root, "object");
  if (objects.length > 0) {
    const size = await sizeIn(folder, root, image);
    for (const [at, one] of objects.entries()) {
      const told = annotate(annotations, one, size, `object ${at + 1}`);
      if (told !== undefined) folder.warnings.add(folder.at(file), told);
    }
  }
  if (annotations.fault !== undefined) annotations.fault = `${folder.at(file)}: ${annotations.fault}`;
  folder.add(image, annotations);
}

/** The image that the file names, or an image of the file's name, in the usual folders. */
function imageOf(folder: Folder, file: string, named: string): string | undefined {
  const beside = folderOf(file);
  const above = beside.replace(/(^|\/)Annotations(\/.*)?$/i, "");
  const base = named.replaceAll("\\", "/").split("/").at(-1) ?? "";
  const names = [named, base, ...ENDINGS.map((ending) => stemOf(file) + ending)];
  const folders = [...FOLDERS.map((one) => path(above, one)), beside];
  return folder.find(...names.flatMap((name) => name === "" ? [] : folders.map((one) => path(one, name))));
}

async function sizeIn(
  folder: Folder,
  root: Element,
  image: string,
): Promise<ImageSize> {
  const size = childOf(root, "size");
  const told = {
    width: Number(size && textIn(size, "width")),
    height: Number(size && textIn(size, "height")),
  };
  if (!(told.width > 0 && told.height > 0)) {
    const real = await folder.sizeOf(image);
    if (real) return real;
    throw invalid("it has boxes in pixels and tells no <size> with <width> and <height>: add it");
  }
  const misfit = await folder.misfit(image, told);
  if (misfit !== undefined) throw invalid(misfit);
  return told;
}

/** Returns the warning. */
function annotate(
  annotations: ImageAnnotations,
  object: Element,
  { width, height }: ImageSize,
  where: string,
): string | undefined {
  const label = textIn(object, "name") ?? "";
  if (label === "") return annotations.spoil(`${where} has no <name>: add it`);
  const box = childOf(object, "bndbox");
  if (!box) return annotations.spoil(`${where}, "${label}", has no <bndbox>: add it, or remove the object`);
  const side = (name: string) => {
    const text = textIn(box, name) ?? "";
    return text === "" ? NaN : Number(text);
  };
  // Files that count from 0 mean the same first pixel.
  const first = (name: string) => side(name) > 0 ? side(name) - 1 : side(name);
  const sides = {
    xMin: first("xmin") / width,
    yMin: first("ymin") / height,
    xMax: side("xmax") / width,
    yMax: side("ymax") / height,
  };
  return annotations.addBox(label, sides);
}

function invalid(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
