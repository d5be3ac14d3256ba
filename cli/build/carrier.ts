/**
 * A runtime for executables that carries packed files behind its own end. `deno compile` puts what it embeds after them;
 * a start copies that into memory, but not what the runtime carries.
 */

import { Buffer } from "node:buffer";
import { type Extent, readExtent } from "../../lib/base/native/packed.ts";

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
  for (const [at, file] of files.entries()) {
    const extent = extents[at];
    const found = extent && await readExtent(path, extent).catch(() => undefined);
    if (!found || Buffer.compare(found, await Deno.readFile(file)) !== 0) return false;
  }
  return true;
}
