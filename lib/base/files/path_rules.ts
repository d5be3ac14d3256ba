/**
 * The paths of this computer that a caller may name who may not change the configuration.
 *
 * A path is judged by its real path: links and `..` lead nowhere else. The refusal of a path is the same whether or not
 * something is there. Whoever reads the file afterwards opens it by `openUnlinked`, because the path may have been
 * replaced since.
 */

import { dirname, join, resolve, sep } from "node:path";
import { SvcError } from "../error.ts";
import type { ReadFolders } from "./files.ts";

export interface PathRules {
  /** The folders with the files that callers may name, subfolders included. */
  readonly folders: readonly string[];
  /**
   * The program's own files and folders, which no caller may name. A folder of `folders` inside of one of them is
   * meant, and allowed.
   */
  readonly own: readonly string[];
  /** Completes "wanted a path in <folders>", with the setting that names further folders. */
  readonly setting: string;
}

/** The system's views of its own memory, processes and devices. */
export const SYSTEM_VIEWS = ["/proc", "/sys", "/dev"];

const FOLDERS_SHOWN = 5;

/** The rules with every path resolved, for the paths of one call. */
export class AllowedPaths {
  private constructor(
    private readonly rules: PathRules,
    private readonly folders: readonly string[],
    private readonly own: readonly string[],
    private readonly files: ReadFolders,
  ) {}

  static async of(rules: PathRules, files: ReadFolders): Promise<AllowedPaths> {
    const all = async (paths: readonly string[]) =>
      await Promise.all(paths.map(async (path) => (await resolved(path, files)).path));
    // The path as it is written, too: it may become a file later.
    const own = [...await all(rules.own), ...rules.own.map((path) => resolve(path))];
    return new AllowedPaths(rules, await all(rules.folders), own, files);
  }

  /**
   * The real path of `path`. Throws `permission_denied` if it is not allowed, and `not_found` if nothing is at an
   * allowed path.
   */
  async realPath(path: string): Promise<string> {
    const found = await resolved(path, this.files);
    this.require(found.path, path);
    if (found.missing === undefined) return found.path;
    throw new SvcError("not_found", `there is no file in ${path}`, { cause: found.missing });
  }

  /** Throws unless a real path is allowed. */
  require(real: string, shown = real): void {
    const problem = this.#problemOf(real);
    if (problem !== undefined) throw new SvcError("permission_denied", `"${shown}" ${problem}`);
  }

  #problemOf(real: string): string | undefined {
    const around = this.folders.filter((folder) => isIn(real, folder));
    if (around.length === 0) {
      const shown = this.rules.folders.slice(0, FOLDERS_SHOWN).map((folder) => resolve(folder));
      const more = this.rules.folders.length > FOLDERS_SHOWN ? " and others" : "";
      const wanted = `wanted a path in ${shown.join(", ")}${more}`;
      return `is not in a folder whose files callers may read, ${wanted}; ${this.rules.setting}`;
    }
    const isOpen = (folder: string) =>
      !this.own.some((own) => isIn(real, own) && (folder === own || !isIn(folder, own)));
    if (around.some(isOpen)) return undefined;
    return "is a file of the program or the system itself (configuration, keys, state), which nobody may read";
  }
}

/** Whether a path is that of the folder or of something in it; both absolute. */
function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`);
}

/** The real path, or that of the nearest folder that exists with the rest of the path behind it. */
async function resolved(
  path: string,
  files: ReadFolders,
): Promise<{ readonly path: string; readonly missing?: unknown }> {
  const absolute = resolve(path);
  try {
    return { path: await files.realPath(path) };
  } catch (missing) {
    const folder = dirname(absolute);
    if (folder === absolute) return { path: absolute, missing };
    const above = await resolved(folder, files);
    return { path: join(above.path, absolute.slice(folder.length)), missing };
  }
}
