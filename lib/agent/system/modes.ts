/**
 * Restores the modes and the owner of the agent's files at each start, because an older version, a backup or a copied
 * image may have left secrets that everybody can read, programs that do not start, or programs of root that another
 * user can replace.
 */

import { join } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

const SECRET = { file: 0o600, folder: 0o700 } as const;
const PROGRAM_MODE = 0o755;
/** Modes for files that everybody may read, and only the owner may write. */
const OPEN = { file: 0o644, folder: 0o755 } as const;
/** Depth of folders below the agent's; deeper ones do not belong to it. */
const DEPTH_MAX = 4;
const FILES_MAX = 10_000;

type ModeFiles = Pick<ReadFiles, "entries" | "stat"> & Pick<WriteFiles, "setMode" | "setOwner">;

/** Root, as user and as group. */
const ROOT = 0;

/**
 * Sets the modes that differ, below the agent's folder and of the given secret files; for an agent of root also the
 * owner of what is in its folder. Never throws.
 */
export async function repairModes(
  files: ModeFiles,
  base: string,
  secretFiles: readonly string[],
  logger: Logger,
  isRoot = false,
): Promise<void> {
  const repaired: string[] = [];
  let left = FILES_MAX;
  const set = async (path: string, mode: number) => {
    const found = await files.stat(path, { links: true });
    if (!found || found.kind === "link") return;
    // The credentials file outside the folder may belong to another user on purpose.
    const isOther = isRoot && !secretFiles.includes(path) && (found.uid ?? ROOT) !== ROOT;
    // The owner first: until then the other user could change the mode back.
    if (isOther) await files.setOwner(path, ROOT, ROOT);
    const isOpen = (found.mode & 0o7777) !== mode;
    if (isOpen) await files.setMode(path, mode);
    if (isOther || isOpen) repaired.push(path);
  };
  const below = async (folder: string, modes: typeof SECRET | typeof OPEN, depth = 0) => {
    if ((await files.stat(folder, { links: true }))?.kind !== "folder") return;
    await set(folder, modes.folder);
    for (const { name, kind } of await files.entries(folder)) {
      if (left-- <= 0) return;
      const path = join(folder, name);
      if (kind === "folder" && depth < DEPTH_MAX) await below(path, modes, depth + 1);
      else if (kind === "file") await set(path, modes.file);
    }
  };
  const programs = async (folder: string) => {
    if ((await files.stat(folder, { links: true }))?.kind !== "folder") return;
    await set(folder, OPEN.folder);
    for (const { name, kind } of await files.entries(folder)) {
      if (kind === "file" && !name.endsWith(".tmp")) await set(join(folder, name), PROGRAM_MODE);
    }
  };
  const works = [
    ...secretFiles.map((path) => () => set(path, SECRET.file)),
    () => set(base, OPEN.folder),
    () => below(join(base, "state"), SECRET),
    () => below(join(base, "etc"), OPEN),
    () => programs(join(base, "bin")),
    () => programs(join(base, "cache")),
  ];
  for (const work of works) {
    await work().catch((error) =>
      logger.warn(`cannot restore the modes and owners of files: ${chainOf(error)}`)
    );
  }
  if (repaired.length > 0) {
    logger.warn("restored the modes and owners of files", { files: repaired.slice(0, 20) });
  }
}
