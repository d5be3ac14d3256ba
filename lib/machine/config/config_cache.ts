/**
 * The last good configuration of the control plane, on disk: what a machine starts with while it is away.
 *
 * Owns one file under the program's home folder, for the user's eyes only, for it holds keys. Whatever happens to
 * the program or its power while it is written, the file is whole: the old one or the new one.
 */

import type { LogFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { isObject, type JsonObject } from "../../base/schema/schema.ts";
import { fileNameOf } from "./placeholder.ts";

const MODE = 0o600;

export interface ConfigCacheParts {
  /** The program's home folder. */
  readonly home: string;
  readonly partId: string;
  readonly host: ReadFiles & WriteFiles & LogFiles;
  readonly logger: Logger;
}

export class ConfigCache {
  readonly #parts: ConfigCacheParts;
  readonly #name: string;

  constructor(parts: ConfigCacheParts) {
    this.#parts = parts;
    this.#name = `cached_cloud_config_${fileNameOf(parts.partId)}.json`;
  }

  get path(): string {
    return `${this.#parts.home}/${this.#name}`;
  }

  /** What was kept last, if anything; a file that cannot be read is deleted. Clears away what a crash has left. */
  async read(): Promise<JsonObject | undefined> {
    const { host, logger } = this.#parts;
    await this.#clearAway();
    let text: string;
    try {
      text = await host.readTextFile(this.path);
    } catch (error) {
      if (SvcError.from(error).code !== "not_found") {
        logger.warn(`the last good configuration: ${chainOf(error)}`);
      }
      return undefined;
    }
    try {
      const json: unknown = JSON.parse(text);
      if (isObject(json)) return json as JsonObject;
    } catch {
      // Told below.
    }
    logger.warn(`${this.path} holds no configuration and is deleted`);
    this.delete();
    return undefined;
  }

  /** Replaces what was kept. Throws where it cannot be written. */
  async write(json: JsonObject): Promise<void> {
    const { host, home } = this.#parts;
    await host.makeFolder(home);
    await host.writeFile(this.path, JSON.stringify(json), { mode: MODE });
  }

  delete(): void {
    const { host, logger } = this.#parts;
    try {
      host.removeFile(this.path);
    } catch (error) {
      if (SvcError.from(error).code !== "not_found") logger.warn(chainOf(error));
    }
  }

  /** A write that did not end leaves its half behind under a name of its own. */
  async #clearAway(): Promise<void> {
    const { host, home } = this.#parts;
    const names = await host.readFolder(home).catch(() => []);
    for (const name of names.filter((one) => one.startsWith(`${this.#name}.`) && one.endsWith(".tmp"))) {
      try {
        host.removeFile(`${home}/${name}`);
      } catch {
        // Somebody else cleared it away.
      }
    }
  }
}
