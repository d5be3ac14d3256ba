/**
 * The newest releases and packages that this device has accepted, by the channel or range that led to them: protection
 * against a mirror, or a control plane without the signing key, that offers old releases as the newest ones.
 *
 * Owns one file. A missing or damaged file means that nothing is known yet: only who may write the device's disk
 * damages it.
 */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../files/files.ts";
import { isObject } from "../schema/schema.ts";
import { compareVersions, parseVersion } from "../semver.ts";
import type { ReleaseStatement } from "./signature.ts";

interface Accepted {
  readonly version: string;
  readonly signed_ms: number;
}

/** The oldest entries leave first. */
const ENTRIES_MAX = 2_000;

export class ReleaseHistory {
  constructor(private readonly path: string, private readonly files: ReadFiles & WriteFiles) {}

  /**
   * The newest accepted release that a release is older than; `undefined` if it may be taken. A higher version number
   * is never older: a channel may come to a version that was published before.
   */
  async newerThan(
    { name, version, signed_ms }: ReleaseStatement,
    wanted: string,
  ): Promise<Accepted | undefined> {
    const last = (await this.#read()).get(keyOf(name, wanted));
    if (!last || signed_ms >= last.signed_ms) return undefined;
    const [found, before] = [parseVersion(version), parseVersion(last.version)];
    return found && before && compareVersions(found, before) > 0 ? undefined : last;
  }

  /** Remembers an accepted release, durably. */
  async accept({ name, version, signed_ms }: ReleaseStatement, wanted: string): Promise<void> {
    const entries = await this.#read();
    const key = keyOf(name, wanted);
    const last = entries.get(key);
    if (last?.version === version && last.signed_ms === signed_ms) return;
    entries.delete(key);
    entries.set(key, { version, signed_ms: Math.max(signed_ms, last?.signed_ms ?? 0) });
    while (entries.size > ENTRIES_MAX) entries.delete(entries.keys().next().value!);
    await this.files.makeFolder(dirname(this.path));
    await this.files.writeFile(this.path, JSON.stringify(Object.fromEntries(entries), undefined, 1));
  }

  async #read(): Promise<Map<string, Accepted>> {
    try {
      const json: unknown = JSON.parse(await this.files.readTextFile(this.path));
      return new Map(Object.entries(isObject(json) ? json : {}).filter(isEntry));
    } catch {
      return new Map();
    }
  }
}

function keyOf(name: string, wanted: string): string {
  return `${name} ${wanted}`;
}

function isEntry(entry: [string, unknown]): entry is [string, Accepted] {
  const { version, signed_ms } = (entry[1] ?? {}) as { [key: string]: unknown };
  return typeof version === "string" && Number.isSafeInteger(signed_ms);
}
