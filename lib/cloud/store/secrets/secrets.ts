/**
 * The control plane's own secrets: the keys that sign tokens, certificates, releases and links.
 *
 * Owns a folder with a file for each, readable by its user alone. The database has only their fingerprints: control
 * planes that share it have the same folder or a copy, and one with other keys does not start. A replaced key stays
 * valid as long as its signatures. Secrets in a database of an older version are moved out of it.
 *
 * The room owns these keys: their kinds, their succession, and the authority that signs the machines' certificates.
 */

import { createHash } from "node:crypto";
import type { Platform } from "../../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../../base/files/files.ts";
import type { Clock } from "../../../base/clock.ts";
import { chainOf, SvcError } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import { SECRET_KINDS, type SecretName } from "./secret_kinds.ts";
import type { Sql, Store } from "../store.ts";

export interface SecretsParts {
  readonly store: Store;
  readonly host: Platform & ReadFiles & WriteFiles;
  /** Created if it is missing. */
  readonly folder: string;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
}

/** A key in a file, the newest last. */
export interface SecretKey {
  /** Fingerprint of its value. */
  readonly id: string;
  /** Empty if it is no longer valid. */
  readonly value: string;
  readonly made_ms: number;
  /** The time from which it signs. */
  readonly from_ms: number;
  /** The time until which its signatures are valid; absent for the newest one. */
  readonly until_ms?: number;
}

const NAMES = Object.keys(SECRET_KINDS) as SecretName[];
/** The secret from which the keys of notices between control planes are derived. */
const NOTICES = "token";
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const OTHERS = 0o007;
/** Interval at which a running control plane checks for keys that a command has created. */
const LOOK_MS = 5_000;
const KEYS_MAX = 20;
/** A table entry that marks bytes of a removed secret that the database's files may still contain. */
const UNSCRUBBED = "unscrubbed";

export class Secrets {
  readonly #loaded = new Map<SecretName, readonly SecretKey[]>();
  readonly #complained = new Set<SecretName>();

  private constructor(private readonly parts: SecretsParts) {}

  /**
   * Reads the keys, creates those that have never existed, and moves those of an older version out of the database.
   * Throws `failed_precondition` for keys that do not match the database.
   */
  static async open(parts: SecretsParts): Promise<Secrets> {
    const { folder, store, logger } = parts;
    const secrets = new Secrets(parts);
    await parts.host.makeFolder(folder, { mode: FOLDER_MODE });
    await store.exclusive(async (sql) => {
      for (const name of NAMES) secrets.#loaded.set(name, await secrets.#agreed(sql, name));
    });
    await scrub(store).catch((error) =>
      logger.warn(
        `bytes of old keys may be left in the database's files; the next start tries again: ${
          chainOf(error)
        }`,
      )
    );
    store.notices.useKeys({
      valid: () => Promise.resolve(secrets.good(NOTICES)),
      warn: (why) => logger.warn(why),
    });
    return secrets;
  }

  /** Seals the notices of a command with the keys in the folder, if it has access to them; creates none. */
  static sealNotices(parts: SecretsParts): void {
    const secrets = new Secrets(parts);
    const valid = async () => {
      const keys = await secrets.#read(NOTICES);
      if (!keys) return [];
      secrets.#loaded.set(NOTICES, keys);
      return secrets.good(NOTICES);
    };
    parts.store.notices.useKeys({ valid, warn: () => {} });
  }

  /** Replaces lost or stolen keys: their signatures are no longer valid. */
  static async replace(parts: SecretsParts, names: readonly SecretName[]): Promise<void> {
    await parts.host.makeFolder(parts.folder, { mode: FOLDER_MODE });
    const secrets = new Secrets(parts);
    for (const name of names) {
      await parts.store.exclusive(async (sql) => {
        const before = await secrets.#read(name).catch(() => undefined) ?? [];
        await secrets.#add(sql, name, before.map(buried), undefined, 0);
        await sql.query("DELETE FROM secrets WHERE name = ?", SECRET_KINDS[name].earlier);
      });
    }
  }

  /** The valid values, the signing one first. */
  good(name: SecretName): readonly string[] {
    const nowMs = this.parts.clock.nowMs();
    const keys = (this.#loaded.get(name) ?? []).filter(({ value, until_ms }) =>
      value !== "" && (until_ms === undefined || nowMs < until_ms)
    );
    const signing = keys.findLast(({ from_ms }) => from_ms <= nowMs) ?? keys[0];
    const others = keys.filter((key) => key !== signing);
    return [...signing ? [signing] : [], ...others].map(({ value }) => value);
  }

  /** The facts about the keys of a name, the newest last. */
  list(name: SecretName): readonly Omit<SecretKey, "value">[] {
    return (this.#loaded.get(name) ?? []).map(({ value: _, ...key }) => key);
  }

  /** Makes a new key. It signs only after a while, so that every verifier knows it by then; see `SECRET_KINDS`. */
  async rotate(name: SecretName): Promise<void> {
    const { leadMs, lifetimeMs } = SECRET_KINDS[name];
    const nowMs = this.parts.clock.nowMs();
    await this.parts.store.exclusive(async (sql) => {
      const keys = await this.#agreed(sql, name);
      const untilMs = nowMs + leadMs + lifetimeMs;
      const kept = keys.map((key) => key.until_ms === undefined ? { ...key, until_ms: untilMs } : key)
        .map((key) => key.until_ms! <= nowMs ? buried(key) : key);
      const next = await this.#add(sql, name, kept, keys.at(-1)!.value, leadMs);
      this.#loaded.set(name, next);
    });
  }

  /**
   * Removes keys that are past their time, so that a clock which is set back does not make them valid again. `nowMs`
   * must be right: a clock that is ahead would remove valid keys.
   */
  async removeExpired(nowMs: number): Promise<void> {
    const isOver = ({ value, until_ms }: SecretKey) =>
      value !== "" && until_ms !== undefined && until_ms <= nowMs;
    for (const name of NAMES) {
      if (!this.#loaded.get(name)?.some(isOver)) continue;
      await this.parts.store.exclusive(async (sql) => {
        const keys = await this.#agreed(sql, name);
        const left = keys.map((key) => isOver(key) ? buried(key) : key);
        this.#loaded.set(name, await this.#write(name, left));
      });
    }
  }

  /** Applies the commands' changes of the keys, until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.parts;
    while (!signal.aborted) {
      await clock.sleep(LOOK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      await this.#look().catch((error) => logger.warn(`cannot look for new keys: ${chainOf(error)}`));
    }
  }

  async #look(): Promise<void> {
    const { store, folder, logger } = this.parts;
    for (const name of NAMES) {
      const noted = await notedId(store, name);
      if (noted === undefined || noted === this.#loaded.get(name)?.at(-1)?.id) continue;
      const keys = await this.#read(name);
      if (keys?.some(({ id }) => id === noted)) {
        this.#loaded.set(name, keys);
        this.#complained.delete(name);
        logger.info(`the ${name} key has been replaced`);
      } else if (!this.#complained.has(name)) {
        this.#complained.add(name);
        logger.error(
          `another control plane has a newer ${name} key: copy its folder of keys to ${folder}; until then the old ` +
            "one is used here",
        );
      }
    }
  }

  /** The keys of a name on which file and database agree. */
  async #agreed(sql: Sql, name: SecretName): Promise<readonly SecretKey[]> {
    const { earlier } = SECRET_KINDS[name];
    const noted = await notedId(sql, name);
    const [legacy] = await sql.query<{ value: string }>("SELECT value FROM secrets WHERE name = ?", earlier);
    let keys = await this.#read(name);
    if (!keys && noted !== undefined) {
      throw this.#foreign(name, "the file is missing", noted);
    }
    // A file unknown to the database comes from a program that was killed halfway.
    if (!keys && legacy) keys = await this.#write(name, [keyOf(legacy.value, 0, 0)]);
    if (!keys) return await this.#add(sql, name, [], undefined, 0);

    const wanted = noted ?? (legacy && idOf(legacy.value));
    if (wanted !== undefined && !keys.some(({ id }) => id === wanted)) {
      throw this.#foreign(name, `found key ${keys.at(-1)?.id}`, wanted);
    }
    await note(sql, name, keys.at(-1)!.id);
    if (legacy) {
      await sql.query("DELETE FROM secrets WHERE name = ?", earlier);
      await upsert(sql, UNSCRUBBED, "yes");
    }
    return keys;
  }

  #foreign(name: SecretName, found: string, wanted: string): SvcError {
    return new SvcError(
      "failed_precondition",
      `${
        this.#path(name)
      } is not of this database: ${found}, wanted key ${wanted}; use the folder of keys (--keys) ` +
        `of the control plane that works on it, or make a new key: svc-cloud secret rotate ` +
        `${SECRET_KINDS[name].word} --now`,
    );
  }

  async #add(
    sql: Sql,
    name: SecretName,
    before: readonly SecretKey[],
    previous: string | undefined,
    leadMs: number,
  ): Promise<readonly SecretKey[]> {
    const nowMs = this.parts.clock.nowMs();
    const made = keyOf(await SECRET_KINDS[name].make(nowMs, previous), nowMs, nowMs + leadMs);
    const keys = await this.#write(name, [...before, made].slice(-KEYS_MAX));
    await note(sql, name, made.id);
    return keys;
  }

  #path(name: SecretName): string {
    return `${this.parts.folder}/${name}.json`;
  }

  async #write(name: SecretName, keys: readonly SecretKey[]): Promise<readonly SecretKey[]> {
    const text = `${JSON.stringify({ keys }, undefined, 1)}\n`;
    await this.parts.host.writeFile(this.#path(name), text, { mode: FILE_MODE });
    return keys;
  }

  /** The keys in a file; `undefined` if there is none. */
  async #read(name: SecretName): Promise<readonly SecretKey[] | undefined> {
    const path = this.#path(name);
    const { host } = this.parts;
    let text: string;
    try {
      text = await host.readTextFile(path);
    } catch (error) {
      if (SvcError.from(error).code === "not_found") return undefined;
      throw error;
    }
    const found = await host.stat(path);
    if (!found) throw new SvcError("unavailable", `cannot tell who may read ${path}`);
    if (host.platform().os !== "windows" && (found.mode & OTHERS) !== 0) {
      throw new SvcError(
        "failed_precondition",
        `${path}: everybody may read it (${found.mode.toString(8)}): chmod 600 ${path}`,
      );
    }
    try {
      const { keys } = JSON.parse(text) as { keys: SecretKey[] };
      if (keys.length > 0 && keys.every(({ id, value }) => value === "" || id === idOf(value))) return keys;
    } catch {
      // Falls through to the common error, because the file's content must not be logged.
    }
    throw new SvcError("data_loss", `${path} is not as svc-cloud wrote it: restore it from a copy`);
  }
}

/** Removes the traces of former secrets from the database's files. */
async function scrub(store: Store): Promise<void> {
  const rows = await store.query("SELECT name FROM secrets WHERE name = ?", UNSCRUBBED);
  if (rows.length === 0) return;
  for (const table of ["secrets", "certificates"]) await store.scrub(table);
  await store.transaction((sql) => sql.query("DELETE FROM secrets WHERE name = ?", UNSCRUBBED));
}

function keyOf(value: string, madeMs: number, fromMs: number): SecretKey {
  return { id: idOf(value), value, made_ms: madeMs, from_ms: fromMs };
}

function buried(key: SecretKey): SecretKey {
  return { ...key, value: "", until_ms: key.until_ms ?? key.made_ms };
}

/** Secrets have so much entropy that a hash reveals nothing. */
function idOf(value: string): string {
  return createHash("sha256").update(value).digest("hex").slice(0, 32);
}

async function notedId(sql: Sql, name: SecretName): Promise<string | undefined> {
  const [row] = await sql.query<{ value: string }>(
    "SELECT value FROM secrets WHERE name = ?",
    `id of ${name}`,
  );
  return row?.value;
}

function note(sql: Sql, name: SecretName, id: string): Promise<void> {
  return upsert(sql, `id of ${name}`, id);
}

async function upsert(sql: Sql, name: string, value: string): Promise<void> {
  await sql.query(
    "INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    name,
    value,
  );
}
