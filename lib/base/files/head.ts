/** The beginning of a file, which shows its type. */

import type { ReadFiles } from "./files.ts";

/** The first `length` bytes of a regular file, or all of a shorter one. */
export async function readHead(
  files: Pick<ReadFiles, "readPieces">,
  path: string,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const head = new Uint8Array(length);
  let filled = 0;
  for await (const piece of files.readPieces(path)) {
    const taken = piece.subarray(0, length - filled);
    head.set(taken, filled);
    filled += taken.length;
    if (filled === length) break;
  }
  return head.subarray(0, filled);
}
