/**
 * A folder of annotated images from another tool, and its content.
 *
 * Owns the limits. Names in annotations are looked up in the list of the folder's own files, so that no file outside is
 * read, whatever paths and links the folder contains. Pipes and devices are never opened.
 *
 * The room owns the formats in which other tools store annotated images: a file per format reads it.
 */

import { join, normalize } from "node:path";
import { readHead } from "../../../lib/base/files/head.ts";
import { FileError, type ReadFiles } from "../../../lib/base/files/files.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { Label, LabelBox } from "../../../lib/cloud_client/dataset.ts";
import { imageSize } from "../../../lib/geometry/image/image.ts";
import {
  isJpeg,
  isTurned,
  jpegHeader,
  type Orientation,
  uprightSides,
} from "../../../lib/geometry/image/jpeg.ts";
import type { Skipped } from "../data/local_images.ts";
import { decodedText } from "./encodings.ts";

const FILES_MAX = 400_000;
/** Limit of nested folders. */
const DEPTH_MAX = 8;
const IMAGES_MAX = 100_000;
/** Limit of an image's boxes. */
const BOXES_MAX = 1_000;
/** Length of an image's beginning that gives its size: cameras write up to a few hundred kilobytes before it. */
const HEAD_BYTES = 512 * 1024;
/** Limit of stored problems; further ones are only counted. */
const LOGGED_MAX = 1_000;
/** Tolerance for boxes that reach out of the image, because numbers have been rounded. */
const ROUNDING = 0.002;
/** Images with less difference in shape were scaled, and boxes fit them. */
const SHAPE_SHARE = 0.02;

/** Also images that cannot be imported, so that each is named. */
const IMAGE = /\.(jpe?g|png|bmp|webp|tiff?|gif|heic|heif|avif)$/i;

/** Problems by file. */
export class Problems {
  readonly all: Skipped[] = [];
  count = 0;

  add(path: string, reason: string): void {
    this.count++;
    if (this.all.length < LOGGED_MAX) this.all.push({ path, reason });
  }
}

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** The sides of a box as fractions of the image, not yet checked. */
export interface BoxSides {
  readonly xMin: number;
  readonly yMin: number;
  readonly xMax: number;
  readonly yMax: number;
}

export interface Annotated {
  readonly path: string;
  readonly labels: readonly Label[];
  readonly boxes: readonly Omit<LabelBox, "id">[];
}

/** The annotations of one image, collected step by step. */
export class ImageAnnotations {
  readonly boxes: Omit<LabelBox, "id">[] = [];
  readonly labels = new Set<string>();
  /** Why the image is skipped: an image with half of its annotations would teach that the other objects are absent. */
  fault: string | undefined;

  spoil(fault: string): undefined {
    this.fault ??= fault;
  }

  /** Adds a box, its corners put in order, clipped to the image; returns the warning. */
  addBox(label: string, given: BoxSides, confidence?: number): string | undefined {
    if (!Object.values(given).every(Number.isFinite)) {
      return this.spoil(`a box "${label}" has sides that are not numbers: fix or remove it`);
    }
    const xMin = Math.min(given.xMin, given.xMax), xMax = Math.max(given.xMin, given.xMax);
    const yMin = Math.min(given.yMin, given.yMax), yMax = Math.max(given.yMin, given.yMax);
    if (xMin === xMax || yMin === yMax) {
      const missing = xMin === xMax ? "width" : "height";
      return `a box "${label}" has no ${missing} and is left out: fix or remove it`;
    }
    const cut = (side: number) => Math.min(1, Math.max(0, side));
    const box = { label, xMin: cut(xMin), yMin: cut(yMin), xMax: cut(xMax), yMax: cut(yMax) };
    if (box.xMin >= box.xMax || box.yMin >= box.yMax) {
      return `a box "${label}" lies outside the image and is left out: fix or remove it`;
    }
    if (this.boxes.length === BOXES_MAX) {
      return this.spoil(`it has more than ${BOXES_MAX} boxes, wanted fewer`);
    }
    this.boxes.push(confidence === undefined ? box : { ...box, confidence });
    if (given.xMin > given.xMax || given.yMin > given.yMax) {
      return `a box "${label}" has its corners swapped, or a negative size: its corners are put in order`;
    }
    const outside = Math.max(-xMin, -yMin, xMax - 1, yMax - 1);
    return outside > ROUNDING ? `a box "${label}" reaches out of the image and is cut to it` : undefined;
  }

  /** Turns all boxes with an image whose annotations are of its stored, unturned form. */
  turn(orientation: Orientation): void {
    for (const [at, box] of this.boxes.entries()) {
      this.boxes[at] = { ...box, ...uprightSides(box, orientation) };
    }
  }
}

export class Folder {
  /** Files by their path in small letters, for names in other letter case or form of Unicode; empty where several differ by that only. */
  readonly #byLetters = new Map<string, string>();
  readonly images = new Map<string, Annotated>();
  readonly leftOut = new Problems();
  readonly warnings = new Problems();

  private constructor(
    readonly path: string,
    /** Paths relative to the folder, with `/` as separator. */
    readonly files: ReadonlySet<string>,
    private readonly port: ReadFiles,
  ) {
    for (const file of files) {
      const letters = lettersOf(file);
      this.#byLetters.set(letters, this.#byLetters.has(letters) ? "" : file);
    }
  }

  static async open(port: ReadFiles, path: string, signal: AbortSignal): Promise<Folder> {
    const files = new Set<string>(), links = new Set<string>();
    await list(path, "", 0, { port, files, links, signal });
    const folder = new Folder(path, files, port);
    for (const name of links) {
      folder.warnings.add(
        folder.at(name),
        "it is a link and is not followed: replace it by its target",
      );
    }
    return folder;
  }

  /** The path of one of the folder's files on this computer. */
  at(name: string): string {
    return join(this.path, name);
  }

  /** The first of these names that is a file in the folder; letter case and form of Unicode decide only between several. */
  find(...names: readonly string[]): string | undefined {
    const plain = names.filter((name) => name !== "" && !name.includes("\0"))
      .map((name) => normalize(name.replaceAll("\\", "/")).replaceAll("\\", "/"));
    const exact = plain.find((name) => this.files.has(name));
    if (exact !== undefined) return exact;

    const other = plain.find((name) => this.#byLetters.get(lettersOf(name)));
    return other === undefined ? undefined : this.#byLetters.get(lettersOf(other));
  }

  /**
   * The images that these names mean if their folders do not count: tools write paths of the computer on which they ran,
   * or addresses. Leaves out a name if another one, or more than one image of the folder, ends in the same way.
   */
  findByEnd(names: readonly string[]): Map<string, string> {
    const images = byEnd(this.imageNames(), (image) => [lastPart(image)]);
    const owners = byEnd(names, endsOf);
    const found = new Map<string, string>();
    for (const name of names) {
      const end = endsOf(name).find((one) => images.get(one)?.length === 1 && owners.get(one)?.length === 1);
      const [image] = end === undefined ? [] : images.get(end) ?? [];
      if (image !== undefined) found.set(name, image);
    }
    return found;
  }

  /** The files whose paths match the pattern, sorted. */
  named(pattern: RegExp): string[] {
    return [...this.files].filter((name) => pattern.test(name)).sort();
  }

  imageNames(): string[] {
    return this.named(IMAGE);
  }

  /** The text of one of the folder's files. Throws the problem, without the file's name. */
  async text(name: string, bytesMax: number): Promise<string> {
    return decodedText(await this.bytes(name, bytesMax));
  }

  /** The content of one of the folder's files. Throws the problem, without the file's name. */
  async bytes(name: string, bytesMax: number): Promise<Uint8Array> {
    const path = this.at(name);
    const facts = await this.port.stat(path, { links: true });
    if (facts?.kind !== "file") throw new SvcError("invalid_argument", "it is not a file");
    if (facts.sizeBytes > bytesMax) {
      const wanted = `wanted at most ${bytesMax}: divide it into several`;
      throw new SvcError("invalid_argument", `it has ${facts.sizeBytes} bytes, ${wanted}`);
    }
    return await this.port.readFile(path);
  }

  /** Adds an image with its annotations, or records why not. */
  add(name: string, { boxes, labels, fault }: ImageAnnotations): void {
    const path = this.at(name);
    if (fault !== undefined) return this.leftOut.add(path, fault);
    if (this.images.has(name)) {
      return this.leftOut.add(path, "it is annotated twice, and only the first counts: keep one of the two");
    }
    if (this.images.size === IMAGES_MAX) {
      throw new SvcError("invalid_argument", `${this.path} has more than ${IMAGES_MAX} images: divide it`);
    }
    this.images.set(name, { path, boxes, labels: [...labels].map((label) => ({ label })) });
  }

  /** Why a name is not one of the folder's images. */
  missing(name: string): string {
    const plain = normalize(name.replaceAll("\\", "/"));
    const leaves = /^([/\\]|[A-Za-z]:|\.\.([/\\]|$))/.test(plain);
    return leaves
      ? `it names the image "${name}", which is outside of ${this.path}: put the image into the folder`
      : `there is no image "${name}" in ${this.path}: add it, or remove its annotations`;
  }

  /** How boxes in pixels of an image of this size fit the file. */
  async fit(name: string, { width, height }: ImageSize): Promise<Fit> {
    const real = await this.readHeader(name);
    if (!real) return {};

    const isShape = (wide: number, high: number) =>
      Math.abs(wide * height / (high * width) - 1) <= SHAPE_SHARE;
    if (isShape(real.width, real.height)) return {};
    if (isTurned(real.orientation) && isShape(real.height, real.width)) {
      return { orientation: real.orientation };
    }
    const found = `${this.at(name)} is ${real.width} x ${real.height} pixels, and ${width} x ${height} here`;
    return { misfit: `${found}: has it been turned or replaced?` };
  }

  /** Size of the upright image and its orientation from its first bytes; `undefined` if they do not give them. */
  async readHeader(name: string): Promise<ImageSize & { readonly orientation: Orientation } | undefined> {
    try {
      const head = await readHead(this.port, this.at(name), HEAD_BYTES);
      return { ...imageSize(head), orientation: isJpeg(head) ? jpegHeader(head).orientation : 1 };
    } catch {
      // All formats report files that are no images later, in the same way.
      return undefined;
    }
  }
}

/** Both absent: the boxes are of the upright image. */
export interface Fit {
  /** The boxes are of the image as it is stored; see `ImageAnnotations.turn`. */
  readonly orientation?: Orientation;
  /** Why the boxes are of another image. */
  readonly misfit?: string;
}

/** Lists regular files only: links may lead anywhere. */
async function list(
  root: string,
  below: string,
  depth: number,
  found: {
    readonly port: ReadFiles;
    readonly files: Set<string>;
    readonly links: Set<string>;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { port, files, links, signal } = found;
  signal.throwIfAborted();
  const folder = join(root, below);
  if (depth > DEPTH_MAX) {
    throw new SvcError("invalid_argument", `${folder} is ${depth} folders deep, wanted ${DEPTH_MAX}`);
  }
  const folders: string[] = [];
  try {
    for (const { name, kind } of await port.entries(folder)) {
      if (name.startsWith(".")) continue;
      const path = below === "" ? name : `${below}/${name}`;
      if (kind === "folder") folders.push(path);
      if (kind === "link") links.add(path);
      if (kind !== "file") continue;
      if (files.size === FILES_MAX) {
        throw new SvcError("invalid_argument", `${root} has more than ${FILES_MAX} files: divide it`);
      }
      files.add(path);
    }
  } catch (cause) {
    if (cause instanceof SvcError && !(cause instanceof FileError)) throw cause;
    throw new SvcError("not_found", `cannot read ${folder}: ${messageOf(cause)}`, { cause });
  }
  for (const path of folders) await list(root, path, depth + 1, found);
}

/** The names by each of their ends, in small letters. */
function byEnd(names: readonly string[], ends: (name: string) => readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const name of names) {
    for (const end of new Set(ends(name).map(lettersOf))) {
      found.set(end, [...found.get(end) ?? [], name]);
    }
  }
  return found;
}

/**
 * The file names, in small letters, with which a path or an address may end: `C:\\shots\\a.jpg`, `images/1/a.jpg`,
 * `https://host/a%20b.jpg?key=1`, and Label Studio's `/data/local-files/?d=shots%5Ca.jpg`.
 */
function endsOf(name: string): string[] {
  const plain = decoded(name);
  const ways = [name, plain, plain.replace(/[?#].*$/s, ""), plain.replace(/^.*[?&]d=/s, "")];
  return [...new Set(ways.map((one) => lettersOf(lastPart(one))))].filter((one) => one !== "");
}

/** A name in small letters; the Mac and its archives write `ä` as an `a` with a sign of its own. */
function lettersOf(name: string): string {
  return name.normalize("NFC").toLowerCase();
}

function lastPart(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? "";
}

/** An address without its percent signs; a name that is no address stays as it is. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The name of a file without its folders and its extension. */
export function stemOf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1).replace(/\.[^.]*$/, "");
}

/** The folder of a file, empty for the outermost one. */
export function folderOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** Joins the parts of a path, without empty parts. */
export function path(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("/");
}
