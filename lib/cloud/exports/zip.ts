/** Writes a ZIP archive of stored files in one pass: sizes and sums follow each content. */

import { Buffer } from "node:buffer";
import { crc32 } from "node:zlib";

export interface ZipEntry {
  /** ASCII. */
  readonly name: string;
  readonly content: AsyncIterable<Uint8Array>;
}

const LOCAL = 0x04034b50;
const DESCRIPTOR = 0x08074b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const VERSION = 20;
/** Sizes follow the content. */
const FLAGS = 0x08;
/** 1980-01-01, because the time of writing does not matter. */
const DATE = 0x21;
export const ZIP_BYTES_MAX = 2 ** 32 - 2 ** 20;

/** The bytes of an archive. Its files, and the whole, are below `ZIP_BYTES_MAX`. */
export async function* zipped(entries: readonly ZipEntry[]): AsyncGenerator<Uint8Array> {
  let offset = 0;
  const central: Uint8Array[] = [];
  for (const { name, content } of entries) {
    const start = offset;
    const local = Buffer.concat([fields([4, LOCAL], ...common(0, 0, name)), Buffer.from(name)]);
    offset += local.length;
    yield local;
    let [sum, bytes] = [0, 0];
    for await (const piece of content) {
      sum = crc32(piece, sum);
      bytes += piece.length;
      offset += piece.length;
      yield piece;
    }
    const descriptor = fields([4, DESCRIPTOR], [4, sum], [4, bytes], [4, bytes]);
    offset += descriptor.length;
    yield descriptor;
    const entry = fields([4, CENTRAL], [2, VERSION], ...common(sum, bytes, name), [2, 0], [2, 0], [2, 0], [
      4,
      0,
    ], [
      4,
      start,
    ]);
    central.push(entry, Buffer.from(name));
  }
  const directory = Buffer.concat(central);
  yield directory;
  const { length } = entries;
  yield fields([4, END], [2, 0], [2, 0], [2, length], [2, length], [4, directory.length], [4, offset], [
    2,
    0,
  ]);
}

function common(sum: number, bytes: number, name: string): [number, number][] {
  return [[2, VERSION], [2, FLAGS], [2, 0], [2, 0], [2, DATE], [4, sum], [4, bytes], [4, bytes], [
    2,
    name.length,
  ], [
    2,
    0,
  ]];
}

/** Numbers of two or four bytes. */
function fields(...all: readonly (readonly [bytes: number, value: number])[]): Uint8Array {
  const out = Buffer.alloc(all.reduce((sum, [bytes]) => sum + bytes, 0));
  let at = 0;
  for (const [bytes, value] of all) {
    at = bytes === 2 ? out.writeUInt16LE(value, at) : out.writeUInt32LE(value, at);
  }
  return out;
}
