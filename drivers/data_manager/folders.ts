/**
 * Folders whose files are captured data too: each file that no longer grows is taken into the spool and removed.
 *
 * A file is renamed first, to a name with the time at which it was taken: should the process end in between, the next
 * one takes it with that same time, and it arrives once.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { messageOf } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { Spool, SpoolHost } from "./spool.ts";

export interface FoldersParts {
  readonly folders: readonly string[];
  /** How long a file must have had its size. */
  readonly quietMs: number;
  readonly tags: readonly string[];
  readonly host: SpoolHost;
  readonly spool: Spool;
  readonly clock: Clock;
  readonly logger: Logger;
}

const TAKEN = /\.taken-at-(\d+)$/;
/** A larger one stays where it is. */
const FILE_BYTES_MAX = 256 * 1024 * 1024;

export class Folders {
  /** How large files were, and since when. */
  #sizes = new Map<string, { bytes: number; sinceMs: number }>();
  readonly #told = new Set<string>();

  constructor(private readonly parts: FoldersParts) {}

  async take(): Promise<void> {
    const { folders, host, clock, quietMs } = this.parts;
    const sizes = new Map<string, { bytes: number; sinceMs: number }>();
    for (const folder of folders) {
      const names = await host.readFolder(folder).catch((error) => this.#tell(folder, error) ?? []);
      for (const path of names.map((name) => `${folder}/${name}`)) {
        const bytes = await host.fileSize(path);
        if (bytes === undefined) continue;
        const before = this.#sizes.get(path);
        const sinceMs = before?.bytes === bytes ? before.sinceMs : clock.monotonicMs();
        if (!TAKEN.test(path) && clock.monotonicMs() - sinceMs < quietMs) {
          sizes.set(path, { bytes, sinceMs });
        } else if (bytes > FILE_BYTES_MAX) {
          this.#tell(path, new Error(`it has ${bytes} bytes, wanted at most ${FILE_BYTES_MAX}`));
        } else {
          await this.#takeFile(path).catch((error) => this.#tell(path, error));
        }
      }
    }
    this.#sizes = sizes;
  }

  async #takeFile(path: string): Promise<void> {
    const { host, spool, clock, tags } = this.parts;
    // A folder cannot be read, and stays what it is.
    const content = await host.readFile(path);
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
      fileName: original.slice(original.lastIndexOf("/") + 1),
      content,
    });
    host.removeFile(taken);
  }

  /** Each trouble once. */
  #tell(path: string, error: unknown): undefined {
    if (this.#told.has(path)) return;
    this.#told.add(path);
    this.parts.logger.warn(`${path} is not taken to the cloud: ${messageOf(error)}`);
  }
}
