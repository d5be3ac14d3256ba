/** ZIP archives: Deno's runtimes are published in such with one file, and programs for Windows in such with a few. */

import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { messageOf, SvcError } from "../../lib/base/error.ts";

/** ZIP's records (APPNOTE 6.3, 4.3): the file's header, its entry in the list of files, and the end of the list. */
const LOCAL = 0x04034b50;
const ENTRY = 0x02014b50;
const END = 0x06054b50;
const LOCAL_BYTES = 30;
const ENTRY_BYTES = 46;
const END_BYTES = 22;
const STORED = 0;
const DEFLATED = 8;
const VERSION_NEEDED = 20;
const MADE_BY_UNIX = 3 << 8;
const UTF8_NAMES = 1 << 11;
const REGULAR_FILE = 0o100000;
/** 1980-01-01, the first day that ZIP knows. */
const FIRST_DAY = (1 << 5) | 1;

/** The only file of an archive, which is how Deno's runtimes are published. Throws `data_loss`. */
export function onlyFileOf(zip: Uint8Array<ArrayBuffer>): Uint8Array {
  const view = new DataView(zip.buffer, zip.byteOffset, zip.byteLength);
  const broken = (what: string, cause?: unknown) =>
    new SvcError("data_loss", `no ZIP archive with one file: ${what}`, { cause });
  let end = zip.length - END_BYTES;
  // A comment may follow.
  while (end >= 0 && view.getUint32(end, true) !== END) end--;
  if (end < 0) throw broken("it has no end");
  const entry = view.getUint32(end + 16, true);
  const files = view.getUint16(end + 10, true);
  if (files !== 1 || entry + ENTRY_BYTES > end || view.getUint32(entry, true) !== ENTRY) {
    throw broken(`${files} files`);
  }
  const method = view.getUint16(entry + 10, true);
  const bytes = view.getUint32(entry + 20, true);
  const header = view.getUint32(entry + 42, true);
  if (header + LOCAL_BYTES > entry) throw broken("its file begins behind its end");
  const start = header + LOCAL_BYTES + view.getUint16(header + 26, true) + view.getUint16(header + 28, true);
  const content = zip.subarray(start, start + bytes);
  if (method === STORED) return content;
  if (method !== DEFLATED) throw broken(`method ${method}`);
  try {
    return inflateRawSync(content);
  } catch (cause) {
    throw broken(messageOf(cause), cause);
  }
}

/** A file of an archive. */
export interface ZippedFile {
  readonly name: string;
  readonly content: Uint8Array;
  /** Unix's mode; 0644 by default. */
  readonly mode?: number;
}

/** An archive of these files, in their order. The same files make the same archive. */
export function zipOf(files: readonly ZippedFile[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const entries: Uint8Array[] = [];
  let offset = 0;
  for (const file of files) {
    const { local, entry } = recordsOf(file, offset);
    parts.push(...local);
    entries.push(entry);
    offset += bytesOf(local);
  }

  const end = new Uint8Array(END_BYTES);
  const view = new DataView(end.buffer);
  view.setUint32(0, END, true);
  view.setUint16(8, files.length, true);
  view.setUint16(10, files.length, true);
  view.setUint32(12, bytesOf(entries), true);
  view.setUint32(16, offset, true);
  return joined([...parts, ...entries, end]);
}

/** The header and content of a file that stands at `offset`, and its entry in the list. */
function recordsOf({ name, content, mode = 0o644 }: ZippedFile, offset: number) {
  const nameBytes = new TextEncoder().encode(name);
  const packed = deflateRawSync(content);

  // What the file's header and its entry both say, from the version needed to the length of the name.
  const common = new DataView(new ArrayBuffer(24));
  common.setUint16(0, VERSION_NEEDED, true);
  common.setUint16(2, UTF8_NAMES, true);
  common.setUint16(4, DEFLATED, true);
  common.setUint16(8, FIRST_DAY, true);
  common.setUint32(10, crc32(content), true);
  common.setUint32(14, packed.length, true);
  common.setUint32(18, content.length, true);
  common.setUint16(22, nameBytes.length, true);

  const header = new Uint8Array(LOCAL_BYTES);
  new DataView(header.buffer).setUint32(0, LOCAL, true);
  header.set(new Uint8Array(common.buffer), 4);

  const entry = new Uint8Array(ENTRY_BYTES + nameBytes.length);
  const view = new DataView(entry.buffer);
  view.setUint32(0, ENTRY, true);
  view.setUint16(4, MADE_BY_UNIX | VERSION_NEEDED, true);
  entry.set(new Uint8Array(common.buffer), 6);
  view.setUint32(38, ((REGULAR_FILE | mode) << 16) >>> 0, true);
  view.setUint32(42, offset, true);
  entry.set(nameBytes, ENTRY_BYTES);
  return { local: [header, nameBytes, packed], entry };
}

function bytesOf(parts: readonly Uint8Array[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(bytesOf(parts));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
