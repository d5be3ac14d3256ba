/**
 * Pascal VOC: for each image an XML file in `ImageAnnotations`, and the images in `JPEGImages`. Sides of boxes are pixels,
 * counted from 1.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { childOf, childrenOf, type Element, elementsIn, parseXml, textIn } from "../../../lib/base/xml.ts";
import { decodedXml } from "./encodings.ts";
import {
  type BoxSides,
  type Fit,
  type Folder,
  folderOf,
  ImageAnnotations,
  type ImageSize,
  path,
  stemOf,
} from "./folder.ts";
import { angleIn, aroundTurned } from "./turned_box.ts";

const XML_BYTES_MAX = 512 * 1024;
const FOLDERS = ["JPEGImages", "images", ""];
const ENDINGS = [".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"];

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
  const root = await parseXml(decodedXml(await folder.bytes(file, XML_BYTES_MAX)));
  if (root.tagName !== "annotation") throw invalid(`it begins with <${root.tagName}>, wanted <annotation>`);
  const named = textIn(root, "filename") ?? "";
  const image = imageOf(folder, file, named);
  if (image === undefined) {
    return folder.leftOut.add(folder.at(file), folder.missing(named || `${stemOf(file)}.jpg`));
  }
  const own = folder.find(...placesOf(file, namesLike(file)));
  if (own !== undefined && stemOf(own).toLowerCase() !== stemOf(image).toLowerCase()) {
    const found = `it names the image ${folder.at(image)}, and ${folder.at(own)} has its own name`;
    throw invalid(`${found}: correct the <filename>, or rename one of the files`);
  }
  const annotations = new ImageAnnotations();
  const objects = childrenOf(root, "object");
  if (objects.length > 0) {
    const { size, orientation } = await sizeIn(folder, root, image);
    for (const [at, one] of objects.entries()) {
      const reported = annotate(annotations, one, size, `object ${at + 1}`);
      if (reported !== undefined) folder.warnings.add(folder.at(file), reported);
    }
    if (orientation !== undefined) annotations.turn(orientation);
  }
  if (annotations.fault !== undefined) annotations.fault = `${folder.at(file)}: ${annotations.fault}`;
  folder.add(image, annotations);
}

/** The image that the file names, or an image of the file's name, in the usual folders. */
function imageOf(folder: Folder, file: string, named: string): string | undefined {
  const base = named.replaceAll("\\", "/").split("/").at(-1) ?? "";
  return folder.find(...placesOf(file, [named, base, ...namesLike(file)])) ??
    folder.findByEnd([named]).get(named);
}

function namesLike(file: string): string[] {
  return ENDINGS.map((ending) => stemOf(file) + ending);
}

/** The names in the usual folders. */
function placesOf(file: string, names: readonly string[]): string[] {
  const beside = folderOf(file);
  const above = beside.replace(/(^|\/)Annotations(\/.*)?$/i, "");
  const folders = [...FOLDERS.map((one) => path(above, one)), beside];
  return names.flatMap((name) => name === "" ? [] : folders.map((one) => path(one, name)));
}

async function sizeIn(
  folder: Folder,
  root: Element,
  image: string,
): Promise<{ readonly size: ImageSize } & Fit> {
  const size = childOf(root, "size");
  const reported = {
    width: Number(size && textIn(size, "width")),
    height: Number(size && textIn(size, "height")),
  };
  if (!(reported.width > 0 && reported.height > 0)) {
    const real = await folder.readHeader(image);
    if (real) return { size: real };
    throw invalid("it has boxes in pixels and tells no <size> with <width> and <height>: add it");
  }
  const fit = await folder.fit(image, reported);
  if (fit.misfit !== undefined) throw invalid(fit.misfit);
  return { size: reported, ...fit };
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
  const outline = childOf(object, "polygon");
  const turned = childOf(object, "robndbox");
  if (!box && outline) return annotations.addBox(label, aroundOutline(outline, { width, height }));
  const pixels = box ? pixelsOf(box) : turned && turnedPixelsOf(turned);
  if (!pixels) {
    return annotations.spoil(`${where}, "${label}", has no <bndbox>: add it, or remove the object`);
  }
  const { xMin, yMin, xMax, yMax } = box ? aroundTurned(pixels, rotationOf(object)) : pixels;
  const shares = { xMin: xMin / width, yMin: yMin / height, xMax: xMax / width, yMax: yMax / height };
  return annotations.addBox(label, shares);
}

function numberOf(element: Element, name: string): number {
  const text = textIn(element, name) ?? "";
  return text === "" ? NaN : Number(text);
}

function pixelsOf(box: Element): BoxSides {
  const side = (name: string) => numberOf(box, name);
  // Files that count from 0 mean the same first pixel.
  const first = (name: string) => side(name) > 0 ? side(name) - 1 : side(name);
  return { xMin: first("xmin"), yMin: first("ymin"), xMax: side("xmax"), yMax: side("ymax") };
}

/** The box around one of roLabelImg: its middle, its sizes, and its angle in radians. */
function turnedPixelsOf(turned: Element): BoxSides {
  const [x = NaN, y = NaN, wide = NaN, high = NaN, angle = NaN] = ["cx", "cy", "w", "h", "angle"]
    .map((name) => numberOf(turned, name));
  const box = { xMin: x - wide / 2, yMin: y - high / 2, xMax: x + wide / 2, yMax: y + high / 2 };
  return aroundTurned(box, angle * 180 / Math.PI);
}

/** The angle of CVAT's turned boxes, in degrees, among the attributes of the object. */
function rotationOf(object: Element): number {
  const attributes = childOf(object, "attributes");
  const all = attributes ? childrenOf(attributes, "attribute") : [];
  const rotation = all.find((one) => textIn(one, "name") === "rotation");
  return angleIn(rotation && textIn(rotation, "value"));
}

/** The box around an outline, whose points are `<x1>`, `<y1>`, `<x2>`… or `<pt>` with `<x>` and `<y>`. */
function aroundOutline(outline: Element, { width, height }: ImageSize): BoxSides {
  const points = childrenOf(outline, "pt");
  const elements = points.length > 0 ? points.flatMap(elementsIn) : elementsIn(outline);
  const along = (axis: RegExp, size: number) =>
    elements.filter(({ nodeName }) => axis.test(nodeName)).map(({ textContent }) =>
      Number(textContent) / size
    );
  const [xs, ys] = [along(/^x\d*$/, width), along(/^y\d*$/, height)];
  return { xMin: Math.min(...xs), yMin: Math.min(...ys), xMax: Math.max(...xs), yMax: Math.max(...ys) };
}

function invalid(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
