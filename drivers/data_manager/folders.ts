/**
 * Folders whose files count as captured data, those of their subfolders included. Each file that no longer changes
 * moves into the spool and leaves its folder. Empty files stay: some program is about to write them. One that stays
 * empty is logged once.
 *
 * The file is first renamed to a name with the time of the move. If the process ends in between, the next
 * process uses that same time, so the file arrives once. A file that some program writes to while it is taken stays,
 * and is taken again, with all that it has then, once it no longer changes.
 *
 * Other programs write these folders, and may be less trusted than this one: no link in them is followed, and a file is
 * read, renamed and removed in the very folder in which it was found.
 */

import { basename, dirname, join, resolve } from "node:path";
import type { Clock } from "../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { whyMissing } from "../../lib/base/files/names.ts";
import { heldBytes, type HeldFile } from "../../lib/base/files/files.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { LogOnChange } from "../../lib/base/log/on_change.ts";
import type { Spool } from "./spool.ts";
import type { SpoolHost } from "./spool_files.ts";

export interface FoldersParts {
  readonly folders: readonly string[];
  /** The spool's own folder, whose files are never taken. */
  readonly captureFolder: string;
  /** How long a file must not have changed. */
  readonly quietMs: number;
  readonly tags: readonly string[];
  readonly host: SpoolHost;
  readonly spool: Spool;
  readonly clock: Clock;
  readonly logger: Logger;
}

const TAKEN = /\.taken-at-(\d+)$/;
/** A larger file stays in its folder. */
const FILE_BYTES_MAX = 256 * 1024 * 1024;

/** How long a file may be empty before the log names it. */
const EMPTY_MS = 60_000;

/** A file in one of the folders. */
interface Found {
  readonly path: string;
  /** The path below the folder. */
  readonly name: string;
  readonly bytes: number;
  readonly modifiedMs: number;
}

export class Folders {
  /** The last seen state of each file, and since when it has had that state. */
  #known = new Map<string, { state: string; sinceMs: number }>();
  readonly #reported = new LogOnChange();

  constructor(private readonly parts: FoldersParts) {}

  async take(): Promise<void> {
    const { folders, clock, quietMs } = this.parts;
    const known = new Map<string, { state: string; sinceMs: number }>();
    for (const folder of folders) {
      for await (const file of this.#filesIn(folder)) {
        const { path, bytes, modifiedMs } = file;
        const before = this.#known.get(path);
        const state = `${bytes} ${modifiedMs}`;
        const sinceMs = before?.state === state ? before.sinceMs : clock.monotonicMs();
        const unchangedMs = clock.monotonicMs() - sinceMs;
        if (bytes === 0) {
          known.set(path, { state, sinceMs });
          if (unchangedMs >= Math.max(EMPTY_MS, quietMs)) this.#tell(path, new Error("it is empty"));
        } else if (unchangedMs < quietMs && (before || !TAKEN.test(path))) {
          known.set(path, { state, sinceMs });
        } else if (bytes > FILE_BYTES_MAX) {
          this.#tell(path, new Error(`it has ${bytes} bytes, wanted at most ${FILE_BYTES_MAX}`));
        } else {
          const stays = await this.#takeFile(file).catch((error) => this.#tellUnlessGone(path, error));
          if (stays) known.set(stays, { state: "", sinceMs: 0 });
        }
      }
    }
    this.#known = known;
  }

  /** The files in a folder and its subfolders; links are left out. Tells of them, and of unreadable folders. */
  async *#filesIn(named: string, inside = ""): AsyncIterable<Found> {
    const { host, captureFolder } = this.parts;
    if (resolve(named) === resolve(captureFolder)) return;
    // Only the folder of the configuration may be a link itself.
    const folder = inside === "" ? await host.realPath(named).catch(() => named) : named;
    const entries = await host.entries(folder).catch((error) => this.#tell(folder, error) ?? []);
    for (const { name: own, kind } of entries) {
      const path = join(folder, own);
      const name = `${inside}${own}`;
      if (kind === "folder") {
        yield* this.#filesIn(path, `${name}/`);
        continue;
      }
      const facts = await host.stat(path, { links: true });
      if (!facts && own.includes("\ufffd")) this.#tell(path, new Error(whyMissing(path)));
      if (facts?.kind === "link") this.#tell(path, new Error("it is a link, wanted a file"));
      if (facts?.kind !== "file") continue;
      yield { path, name, bytes: facts.sizeBytes, modifiedMs: facts.modifiedMs };
    }
  }

  /** Gives the path at which the file stays because somebody writes to it. */
  async #takeFile({ path, name }: Found): Promise<string | void> {
    const file = await this.parts.host.openUnlinked(path);
    try {
      const stays = await this.#takeHeld(file, name);
      if (stays) return join(dirname(path), basename(stays));
    } finally {
      await file.close();
    }
  }

  async #takeHeld(file: HeldFile, name: string): Promise<string | void> {
    const { host, spool, clock, tags } = this.parts;
    const { path } = file;
    const content = await heldBytes(file, FILE_BYTES_MAX);
    /** Nothing there is as it was read, too: there is no more of it to lose. */
    const isAsRead = async (path: string) => {
      const facts = await host.stat(path, { links: true });
      return !facts || facts.sizeBytes === content.length && facts.modifiedMs === file.modifiedMs;
    };
    if (!await isAsRead(path)) return path;

    const takenMs = Number(TAKEN.exec(path)?.[1] ?? Math.floor(clock.nowMs()));
    const original = path.replace(TAKEN, "");
    const taken = `${original}.taken-at-${takenMs}`;
    if (taken !== path) host.moveFile(path, taken);
    await spool.addFile({
      kind: "file",
      source: { componentType: "", componentName: "", methodName: "", parameters: {}, tags, datasetIds: [] },
      timeMs: takenMs,
      receivedMs: takenMs,
      mimeType: "",
      fileName: name.replace(TAKEN, ""),
      content,
    });
    if (!await isAsRead(taken)) return taken;
    try {
      host.removeFile(taken);
    } catch (error) {
      // Somebody removed it meanwhile; the spool has its content.
      if (SvcError.from(error).code !== "not_found") throw error;
    }
  }

  /** What somebody removes during the round is wanted nowhere. */
  async #tellUnlessGone(path: string, error: unknown): Promise<void> {
    const isGone = SvcError.from(error).code === "not_found" &&
      await this.parts.host.stat(path, { links: true }) === undefined;
    if (!isGone) this.#tell(path, error);
  }

  /** Logs each problem once. */
  #tell(path: string, error: unknown): undefined {
    const problem = messageOf(error);
    if (!this.#reported.isNew(problem, path)) return;
    this.parts.logger.warn(`${path} is not taken to the cloud: ${problem}`);
  }
}
