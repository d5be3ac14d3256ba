/**
 * Damage of an installed package of a module: its program is missing or empty, as after a fault of the disk, or after
 * somebody has removed a file. Such a module would fail for ever, because an installed package is not fetched again.
 */

import { join } from "node:path";
import type { ReadFiles } from "../../base/files/files.ts";
import { isObject } from "../../base/schema/schema.ts";

/** What is wrong with the package in `folder`, which may have some of these programs; `undefined` for nothing. */
export async function findDamage(
  folder: string,
  programs: readonly string[],
  files: Pick<ReadFiles, "fileSize" | "readTextFile">,
): Promise<string | undefined> {
  const meta = join(folder, "meta.json");
  if (await files.fileSize(meta) === 0) return `${meta} is empty`;

  // The package's own word precedes the configuration's.
  const entry = await readEntrypoint(meta, files);
  const own = entry === undefined
    ? programs.filter((path) => path.startsWith(`${folder}/`))
    : [join(folder, entry)];
  for (const path of own) {
    const bytes = await files.fileSize(path) ?? await files.fileSize(`${path}.exe`);
    if (bytes === undefined) return `${path} is missing`;
    if (bytes === 0) return `${path} is empty`;
  }
  return undefined;
}

/** Anything else than a usable word is the module's to report. */
async function readEntrypoint(
  meta: string,
  files: Pick<ReadFiles, "fileSize" | "readTextFile">,
): Promise<string | undefined> {
  if (await files.fileSize(meta) === undefined) return undefined;
  try {
    const found: unknown = JSON.parse(await files.readTextFile(meta));
    return isObject(found) && typeof found.entrypoint === "string" && found.entrypoint !== ""
      ? found.entrypoint
      : undefined;
  } catch {
    return undefined;
  }
}
