/** ZIP archives of one file, which is how Deno's runtimes are published. */

import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { SvcError } from "../../lib/base/error.ts";

/** ZIP's records (APPNOTE 6.3, 4.3): the file's header, its entry in the list of files, and the end of the list. */
const LOCAL = 0x04034b50;
const ENTRY = 0x02014b50;
const END = 0x06054b50;
const LOCAL_BYTES = 30;
const ENTRY_BYTES = 46;
const END_BYTES = 22;
const STORED = 0;
const DEFLATED = 8;
const MADE_BY_UNIX = 0x0314;
/** A regular file with mode 0755, as ZIP keeps Unix's modes. */
const EXECUTABLE_FILE = (0o100755 << 16) >>> 0;

/** The only file of an archive, which is how Deno's runtimes are published. Throws `data_loss`. */
export function onlyFileOf(zip: Uint8Array<ArrayBuffer>): Uint8Array {
  const view = new DataView(zip.buffer, zip.byteOffset, zip.byteLength);
  const broken = (what: string) => new SvcError("data_loss", `no ZIP archive with one file: ${what}`);
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
  const start = header + LOCAL_BYTES + view.getUint16(header + 26, true) + view.getUint16(header + 28, true);
  const content = zip.subarray(start, start + bytes);
  if (method === STORED) return content;
  if (method === DEFLATED) return inflateRawSync(content);
  throw broken(`method ${method}`);
}

/** An archive with one executable file. */
export function zipOf(name: string, content: Uint8Array): Uint8Array {
  const nameBytes = new TextEncoder().encode(name);
  const packed = deflateRawSync(content);
  const entry = LOCAL_BYTES + nameBytes.length + packed.length;
  const end = entry + ENTRY_BYTES + nameBytes.length;
  const zip = new Uint8Array(end + END_BYTES);
  const view = new DataView(zip.buffer);

  /** What the file's header and its entry both say, from the version needed to the length of the name. */
  const describe = (at: number) => {
    view.setUint16(at, 20, true);
    view.setUint16(at + 4, DEFLATED, true);
    // The first day that ZIP knows: the same content is the same archive.
    view.setUint16(at + 8, 0x21, true);
    view.setUint32(at + 10, crc32(content), true);
    view.setUint32(at + 14, packed.length, true);
    view.setUint32(at + 18, content.length, true);
    view.setUint16(at + 22, nameBytes.length, true);
  };

  view.setUint32(0, LOCAL, true);
  describe(4);
  zip.set(nameBytes, LOCAL_BYTES);
  zip.set(packed, LOCAL_BYTES + nameBytes.length);

  view.setUint32(entry, ENTRY, true);
  view.setUint16(entry + 4, MADE_BY_UNIX, true);
  describe(entry + 6);
  view.setUint32(entry + 38, EXECUTABLE_FILE, true);
  zip.set(nameBytes, entry + ENTRY_BYTES);

  view.setUint32(end, END, true);
  view.setUint16(end + 8, 1, true);
  view.setUint16(end + 10, 1, true);
  view.setUint32(end + 12, ENTRY_BYTES + nameBytes.length, true);
  view.setUint32(end + 16, entry, true);
  return zip;
}
