/**
 * Settings files of other programs that the agent owns: written where they differ, removed where they are not wanted.
 */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";

/** Makes a file say `text`, or be gone; whether it was changed. A power loss leaves the old or the new. */
export async function writeIfOther(
  files: ReadFiles & WriteFiles,
  path: string,
  text: string | undefined,
): Promise<boolean> {
  const there = await files.findFile(path) && await files.readTextFile(path);
  if (there === text) return false;
  if (text === undefined) await files.removeDurably(path);
  else {
    await files.makeFolder(dirname(path));
    await files.writeFile(path, text);
  }
  return true;
}
