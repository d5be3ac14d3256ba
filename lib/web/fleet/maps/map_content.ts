/**
 * The points of a map: out of the archive of its version, or from the picture of a mapping session.
 *
 * An archive is read as it arrives and let go at its picture, so a map of gigabytes costs the page no memory. What an
 * archive holds is a tenant's: everything is bounded.
 */

import { type CloudPoints, readPcdPoints } from "../../machine/parts/pcd_points.ts";

const PICTURE = ".pcd";
const PICTURE_BYTES_MAX = 128 * 1024 * 1024;
/** Unpacked, before the picture. */
const BEFORE_BYTES_MAX = 4 * 1024 ** 3;
const BLOCK = 512;
const REGULAR_FILES = ["0", "\0"];

/** The points of the first point cloud in a map's `.tar.gz`. Throws what is wrong with it. */
export async function pointsInArchive(link: string, signal: AbortSignal): Promise<CloudPoints> {
  const { body } = await fetched(link, signal);
  if (!body) throw new Error("the map is empty");
  // The types of browsers know other streams than they give.
  const gzip = new DecompressionStream("gzip") as ReadableWritablePair<Uint8Array, Uint8Array>;
  const bytes = new Unpacked(body.pipeThrough(gzip).getReader());
  try {
    return readPcdPoints(await pictureIn(bytes));
  } finally {
    await bytes.close();
  }
}

/** The points of a point cloud as such. */
export async function pointsInPicture(link: string, signal: AbortSignal): Promise<CloudPoints> {
  const { body } = await fetched(link, signal);
  if (!body) throw new Error("the map is empty");
  const bytes = new Unpacked(body.getReader());
  try {
    return readPcdPoints(await bytes.rest(PICTURE_BYTES_MAX));
  } finally {
    await bytes.close();
  }
}

/** The control plane serves a link at every address that it has, but this page may ask its own alone. */
async function fetched(link: string, signal: AbortSignal): Promise<Response> {
  const { pathname, search } = new URL(link, location.href);
  const answer = await fetch(`${pathname}${search}`, { signal, credentials: "omit" });
  if (answer.ok) return answer;
  throw new Error((await answer.text()).slice(0, 300) || `the control plane answered ${answer.status}`);
}

async function pictureIn(bytes: Unpacked): Promise<Uint8Array> {
  let passed = 0;
  for (;;) {
    const header = await bytes.take(BLOCK);
    if (!header || header[0] === 0) {
      throw new Error("this version has no picture: there is no point cloud (.pcd) in it");
    }
    const size = sizeIn(header);
    const isFile = REGULAR_FILES.includes(String.fromCharCode(header[156] ?? 0));
    if (isFile && textIn(header, 0, 100).endsWith(PICTURE)) {
      if (size > PICTURE_BYTES_MAX) throw new Error(`the picture has ${size} bytes: too many for this page`);
      const picture = await bytes.take(size);
      if (!picture) throw new Error("the map is cut off");
      return picture;
    }
    const padded = Math.ceil(size / BLOCK) * BLOCK;
    passed += BLOCK + padded;
    if (passed > BEFORE_BYTES_MAX) throw new Error("the map is too large to look for its picture here");
    await bytes.skip(padded);
  }
}

/** In octal digits; other forms are for files larger than a map. */
function sizeIn(header: Uint8Array): number {
  const digits = textIn(header, 124, 12).trim();
  if (/^[0-7]+$/.test(digits)) return parseInt(digits, 8);
  throw new Error("the map is damaged: a file in it has no size");
}

function textIn(header: Uint8Array, from: number, length: number): string {
  const field = header.subarray(from, from + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

/** Bytes that arrive in pieces, taken in others. */
class Unpacked {
  #piece = new Uint8Array();

  constructor(private readonly reader: ReadableStreamDefaultReader<Uint8Array>) {}

  /** So many bytes; `undefined` if the end comes first. */
  async take(count: number): Promise<Uint8Array | undefined> {
    const pieces: Uint8Array[] = [];
    for (let wanted = count; wanted > 0;) {
      const piece = await this.#next(wanted);
      if (!piece) return undefined;
      pieces.push(piece);
      wanted -= piece.length;
    }
    return joined(pieces);
  }

  async skip(count: number): Promise<void> {
    for (let wanted = count; wanted > 0;) {
      const piece = await this.#next(wanted);
      if (!piece) return;
      wanted -= piece.length;
    }
  }

  /** All that is left. Throws if it is more than `max`. */
  async rest(max: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let length = 0;
    for (let piece = await this.#next(max); piece; piece = await this.#next(max)) {
      pieces.push(piece);
      length += piece.length;
      if (length > max) throw new Error(`the picture has more than ${max} bytes: too many for this page`);
    }
    return joined(pieces);
  }

  async close(): Promise<void> {
    await this.reader.cancel().catch(() => {});
  }

  /** Some bytes, at most so many. */
  async #next(atMost: number): Promise<Uint8Array | undefined> {
    while (this.#piece.length === 0) {
      const { value, done } = await this.reader.read();
      if (done) return undefined;
      this.#piece = value as Uint8Array<ArrayBuffer>;
    }
    const taken = this.#piece.subarray(0, atMost);
    this.#piece = this.#piece.subarray(atMost);
    return taken;
  }
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
