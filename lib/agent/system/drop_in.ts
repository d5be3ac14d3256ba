/** Settings files for other programs: the agent writes a file if it differs, and removes it if it is not wanted. */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";

/**
 * Gives a file the content `text`, or removes it; returns whether it changed. A power loss leaves the old file or the
 * new one.
 */
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
