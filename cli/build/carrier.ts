/**
 * A runtime for executables that carries packed files behind its own end. `deno compile` puts what it embeds after them;
 * a start copies that into memory, but not what the runtime carries.
 */

import { Buffer } from "node:buffer";
import { inflateRawSync } from "node:zlib";
import { SvcError } from "../../lib/base/error.ts";
import { type Extent, readExtent } from "../../lib/base/native/packed.ts";

/** ZIP's records (APPNOTE 6.3, 4.3): the file's header, its entry in the list of files, and the end of the list. */
const ENTRY = 0x02014b50;
const END = 0x06054b50;
const END_BYTES = 22;
const STORED = 0;
const DEFLATED = 8;

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
  if (files !== 1 || entry + 46 > end || view.getUint32(entry, true) !== ENTRY) {
    throw broken(`${files} files`);
  }
  const method = view.getUint16(entry + 10, true);
  const bytes = view.getUint32(entry + 20, true);
  const header = view.getUint32(entry + 42, true);
  const start = header + 30 + view.getUint16(header + 26, true) + view.getUint16(header + 28, true);
  const content = zip.subarray(start, start + bytes);
  if (method === STORED) return content;
  if (method === DEFLATED) return inflateRawSync(content);
  throw broken(`method ${method}`);
}

/** Writes a runtime that carries `files` (paths) to `path`; returns the extents of the files in their order. */
export async function writeCarrier(
  path: string,
  runtime: Uint8Array,
  files: readonly string[],
): Promise<Extent[]> {
  using output = await Deno.open(path, { write: true, create: true, truncate: true, mode: 0o755 });
  const writer = output.writable.getWriter();
  await writer.write(runtime);
  const extents: Extent[] = [];
  let offset = runtime.length;
  for (const file of files) {
    const content = await Deno.readFile(file);
    await writer.write(content);
    extents.push({ offset, bytes: content.length });
    offset += content.length;
  }
  await writer.close();
  return extents;
}

/** Whether the executable at `path` has each of `files` at its extent. */
export async function carries(
  path: string,
  files: readonly string[],
  extents: readonly Extent[],
): Promise<boolean> {
  for (const [at, extent] of extents.entries()) {
    const found = await readExtent(path, extent).catch(() => undefined);
    if (!found || Buffer.compare(found, await Deno.readFile(files[at])) !== 0) return false;
  }
  return true;
}
