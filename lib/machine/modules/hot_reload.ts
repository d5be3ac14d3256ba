/**
 * Hot reload, for authors of modules: starts a local module again when a file below a folder has changed.
 *
 * It looks at the files rather than listens for events, which not every file system sends. A change counts once the
 * files have been the same for one look. A module that has crashed starts again at once, too.
 */

import { join, relative, resolve } from "node:path";
import type { FileFacts, FileKind } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

/** Time between two looks. */
const LOOK_MS = 400;
/** Of a larger folder only the first files count. */
const WATCHED_FILES_MAX = 10_000;
const DEPTH_MAX = 16;
/** Folders that builds and tools write, and files that programs write while they run. */
const LEFT_OUT =
  /^(?:\.git|\.hg|node_modules|venv|\.venv|__pycache__|\.mypy_cache|dist|target)$|\.(?:pyc|log|swp|tmp|gz)$|~$/;

export interface HotReloadParts {
  readonly folder: string;
  readonly files: {
    entries(path: string): Promise<{ readonly name: string; readonly kind: FileKind }[]>;
    stat(path: string): Promise<FileFacts | undefined>;
    realPath(path: string): Promise<string>;
  };
  /** The local modules at present. */
  readonly programs: () => readonly { readonly name: string; readonly program: string }[];
  /** Starts a module again; resolves when it is ready. */
  readonly restart: (name: string) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class HotReload {
  readonly #over = new AbortController();
  readonly #done: Promise<void>;

  constructor(private readonly parts: HotReloadParts) {
    this.#done = this.#watch().catch((error) => {
      if (!this.#over.signal.aborted) parts.logger.error(`hot reload has ended: ${chainOf(error)}`);
    });
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#done;
  }

  async #watch(): Promise<void> {
    const { folder, clock, logger } = this.parts;
    let loaded = await this.#look();
    if (loaded.size === 0) logger.warn(`hot reload: there are no files in ${folder}`);
    let last = loaded;
    for (;;) {
      await clock.sleep(LOOK_MS, this.#over.signal);
      const now = await this.#look();
      const isStill = changedOf(last, now).length === 0;
      last = now;
      const changed = isStill ? changedOf(loaded, now) : [];
      if (changed.length === 0) continue;
      loaded = now;
      await this.#reload(changed.map((path) => relative(folder, path)));
    }
  }

  async #reload(changed: readonly string[]): Promise<void> {
    const { restart, programs, folder, files, logger } = this.parts;
    const root = await files.realPath(folder).catch(() => folder);
    const what = changed.length === 1 ? changed[0] : `${changed[0]} and ${changed.length - 1} more files`;
    let found = false;
    for (const { name, program } of programs()) {
      const path = await files.realPath(resolve(program)).catch(() => resolve(program));
      if (relative(root, path).startsWith("..")) continue;
      found = true;
      logger.info(`module "${name}" starts again: ${what} changed`);
      // A module that never answers holds up nothing: the next change starts it again.
      void restart(name).catch((error) => {
        if (!this.#over.signal.aborted) logger.warn(`module "${name}": ${chainOf(error)}`);
      });
    }

    if (!found) logger.warn(`${what} changed, but no module's program is in ${folder}`);
  }

  /** The files and what changes with their content. */
  async #look(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    await this.#lookInto(this.parts.folder, found, 0);
    return found;
  }

  async #lookInto(folder: string, found: Map<string, string>, depth: number): Promise<void> {
    const { files } = this.parts;
    for (const { name, kind } of await files.entries(folder).catch(() => [])) {
      if (LEFT_OUT.test(name) || found.size >= WATCHED_FILES_MAX) continue;
      const path = join(folder, name);
      if (kind === "folder" && depth < DEPTH_MAX) await this.#lookInto(path, found, depth + 1);
      if (kind !== "file") continue;
      const facts = await files.stat(path);
      if (facts) found.set(path, `${facts.modifiedMs} ${facts.sizeBytes} ${facts.mode}`);
    }
  }
}

function changedOf(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string[] {
  const changed = [...now].filter(([path, mark]) => before.get(path) !== mark).map(([path]) => path);
  return [...changed, ...[...before.keys()].filter((path) => !now.has(path))];
}
