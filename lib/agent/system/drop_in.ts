/**
 * Settings files of other programs that the agent owns: written where they differ, removed where they are not wanted.
 */

import { dirname } from "node:path";
import { type Disk, removeDurably, writeDurably } from "../update/disk.ts";

/** Makes a file say `text`, or be gone; whether it was changed. A power loss leaves the old or the new. */
export async function settle(disk: Disk, path: string, text: string | undefined): Promise<boolean> {
  const there = await disk.stat(path) && new TextDecoder().decode(await disk.read(path));
  if (there === text) return false;
  if (text === undefined) await removeDurably(disk, path);
  else {
    await disk.makeFolder(dirname(path));
    await writeDurably(disk, path, new TextEncoder().encode(text));
  }
  return true;
}
