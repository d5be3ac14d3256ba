/**
 * Folders whose files count as captured data. Each file that no longer grows moves into the spool and leaves
 * its folder.
 *
 * The file is first renamed to a name with the time of the move. If the process ends in between, the next
 * process uses that same time, so the file arrives once.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { messageOf } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { Spool, SpoolHost } from "./spool.ts";

export interface FoldersParts {
  readonly folders: readonly string[];
  /** How long the size of a file must not have changed. */
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

export class Folders {
  /** The last seen size of each file, and since when it has had that size. */
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
    // Reading a folder fails, so a folder stays as it is.
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

  /** Logs each problem once. */
  #tell(path: string, error: unknown): undefined {
    if (this.#told.has(path)) return;
    this.#told.add(path);
    this.parts.logger.warn(`${path} is not taken to the cloud: ${messageOf(error)}`);
  }
}
