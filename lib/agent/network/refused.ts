/**
 * The configured networks that have cut the device off, by their digests, in a file that survives a restart. None is
 * tried again before its entry changes.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";

/** The latest ones are kept. */
const REFUSED_MAX = 100;

export class Refused {
  #digests: string[] | undefined;

  constructor(private readonly files: ReadFiles & WriteFiles, private readonly path: string) {}

  async has(digest: string): Promise<boolean> {
    return (await this.#read()).includes(digest);
  }

  async add(digests: readonly string[]): Promise<void> {
    const before = await this.#read();
    this.#digests = [...before.filter((one) => !digests.includes(one)), ...digests].slice(-REFUSED_MAX);
    await this.files.writeFile(this.path, JSON.stringify(this.#digests));
  }

  /** An unreadable file counts as empty: then a network may be tried once more. */
  async #read(): Promise<readonly string[]> {
    return this.#digests ??= await this.files.readTextFile(this.path).then((text) => {
      const found: unknown = JSON.parse(text);
      return Array.isArray(found) ? found.filter((one) => typeof one === "string").slice(-REFUSED_MAX) : [];
    }).catch(() => []);
  }
}
