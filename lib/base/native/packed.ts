/**
 * Native code that executables embed packed, because every start copies what they embed into memory.
 *
 * Loading it needs a folder for temporary files that may hold programs.
 */

import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of packed files, with a folder for each package; from the root of the tree. */
export const PACKED_FOLDER = "dist/native";
/** The ending of a packed file's name, after that of the file. */
export const PACKED_SUFFIX = ".br";

const PREFIX = "svc-native-";
/** An unpacked folder of this age is loaded, or was left behind. */
const OLD_MS = 3600_000;

/**
 * Unpacks what the executable embeds for a package into a folder of its own, and runs `load` with its path.
 *
 * Only the folder's owner can read or write it: nobody can put a library beside those that are loaded. It is removed
 * afterwards; on Windows, which keeps the files of loaded libraries, a later program removes it.
 */
export async function withPacked<T>(name: string, load: (folder: string) => T): Promise<T> {
  if (Deno.build.os === "windows") await forgetOld();
  const folder = await Deno.makeTempDir({ prefix: PREFIX });
  try {
    const packed = fileURLToPath(new URL(`../../../${PACKED_FOLDER}/${name}`, import.meta.url));
    for await (const { name: file } of Deno.readDir(packed)) {
      const { readable } = await Deno.open(join(packed, file));
      const unpacked = readable.pipeThrough(new DecompressionStream("brotli"));
      await Deno.writeFile(join(folder, basename(file, PACKED_SUFFIX)), unpacked, { mode: 0o600 });
    }
    return load(folder);
  } finally {
    await forget(folder);
  }
}

/** Removes what earlier programs have left. */
async function forgetOld(): Promise<void> {
  for await (const { name } of Deno.readDir(tmpdir())) {
    const folder = join(tmpdir(), name);
    if (!name.startsWith(PREFIX)) continue;
    const changedMs = (await Deno.stat(folder).catch(() => undefined))?.mtime?.getTime() ?? Date.now();
    if (Date.now() - changedMs > OLD_MS) await forget(folder);
  }
}

/** Removes an unpacked folder, unless the system still holds its files. */
async function forget(folder: string): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(() => {});
}
