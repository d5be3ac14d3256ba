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
    await writeForAll(files, path, text);
  }
  return true;
}

/** Modes of files that other programs and their users read. */
const FOR_ALL = 0o644;

/** Writes a file that everybody may read, whatever the umask of the shell from which this program was started. */
export async function writeForAll(files: WriteFiles, path: string, text: string): Promise<void> {
  await files.writeFile(path, text);
  await files.setMode(path, FOR_ALL);
}
