/**
 * The last good configuration of the control plane, on disk: a machine starts with it while the control plane is away.
 *
 * Owns one file under the program's home folder, readable by the user alone because it holds keys. A crash or power
 * loss leaves the old or the new file, complete.
 */

import type { LogFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { isObject, type JsonObject } from "../../base/schema/schema.ts";
import { fileNameFrom } from "../../base/files/names.ts";

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
    this.#name = `cached_cloud_config_${fileNameFrom(parts.partId)}.json`;
  }

  get path(): string {
    return `${this.#parts.home}/${this.#name}`;
  }

  /** The stored configuration, if any. Deletes an unreadable file, and the leftovers of a crash. */
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

  /** Replaces the stored configuration. Throws if it cannot be written. */
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

  /** An interrupted write leaves a temporary file behind. */
  async #clearAway(): Promise<void> {
    const { host, home } = this.#parts;
    const names = await host.readFolder(home).catch(() => []);
    for (const name of names.filter((one) => one.startsWith(`${this.#name}.`) && one.endsWith(".tmp"))) {
      try {
        host.removeFile(`${home}/${name}`);
      } catch {
        // Another process has removed it.
      }
    }
  }
}
