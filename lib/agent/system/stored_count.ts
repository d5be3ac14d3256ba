/** A number in a file that survives a power loss, such as reboots in a row. */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";

export interface StoredCount {
  get(): Promise<number>;
  set(count: number): Promise<void>;
}

/** The number in the file `path`; 0 if it is missing or unreadable. */
export function storedCount(files: ReadFiles & WriteFiles, path: string): StoredCount {
  let known: number | undefined;
  const get = async () => {
    known ??= Number(await files.readTextFile(path).catch(() => "")) || 0;
    return known;
  };
  return {
    get,
    set: async (count) => {
      if (await get() === count) return;
      await files.makeFolder(dirname(path));
      await files.writeFile(path, String(count));
      known = count;
    },
  };
}
