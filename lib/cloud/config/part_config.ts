/**
 * The configurations of parts, as people wrote them, with their history.
 *
 * Revision 0 is the empty configuration; each change makes the next revision. The history never changes: restoring an
 * earlier revision makes a new one with the same text.
 *
 * The room owns the configurations of parts: their revisions, fragments, and the message that a machine gets.
 */

import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Sql } from "../store/store.ts";
import { FragmentUses } from "./fragments/fragment_uses.ts";
import { setPackagesOfPart } from "./package_uses.ts";
import type { ConfigText, Resolution } from "./resolution.ts";

export interface PartConfig {
  readonly config: JsonObject;
  readonly revision: number;
  /** Time of the last change; 0 if there was none. */
  readonly updatedMs: number;
}

/** A change of a part: the step to `revision` from its predecessor. */
export interface PartChange {
  readonly revision: number;
  readonly atMs: number;
  readonly who: string;
  readonly oldName: string;
  readonly old: JsonObject;
}

export interface HistoryQuery {
  readonly limit: number;
  /** Only revisions before this one. */
  readonly before?: number;
  readonly fromMs?: number;
  readonly untilMs?: number;
}

export class PartConfigs {
  constructor(private readonly sql: Sql) {}

  async get(partId: string): Promise<PartConfig> {
    const [row] = await this.sql.query<{ config: string; revision: number; updatedMs: number }>(
      `SELECT config, revision, config_ms AS "updatedMs" FROM parts WHERE id = ?`,
      partId,
    );
    if (!row) throw new SvcError("not_found", `there is no part "${partId}"`);
    return { ...row, config: JSON.parse(row.config) };
  }

  /** The configuration as it is stored. */
  async readText(partId: string): Promise<{ readonly text: string; readonly revision: number }> {
    const [row] = await this.sql.query<{ text: string; revision: number }>(
      "SELECT config AS text, revision FROM parts WHERE id = ?",
      partId,
    );
    if (!row) throw new SvcError("not_found", `there is no part "${partId}"`);
    return row;
  }

  /**
   * Stores a configuration as the next revision, unless it is equal to the present one. Throws `aborted` if that was
   * changed after `knownMs`.
   */
  async set(
    partId: string,
    { text, imports, packages }: ConfigText,
    who: string,
    nowMs: number,
    knownMs?: number,
  ): Promise<void> {
    const [old] = await this.sql.query<{ name: string; config: string; revision: number; updatedMs: number }>(
      `SELECT name, config, revision, config_ms AS "updatedMs" FROM parts WHERE id = ?`,
      partId,
    );
    if (!old) throw new SvcError("not_found", `there is no part "${partId}"`);
    if (knownMs !== undefined && old.updatedMs > knownMs) {
      throw new SvcError(
        "aborted",
        `part "${old.name}" was changed at ${new Date(old.updatedMs).toISOString()}, after you last read it`,
      );
    }
    if (old.config === text) return;
    await this.sql.query(
      "INSERT INTO part_history (part_id, revision, at_ms, who, old_name, old_config) VALUES (?, ?, ?, ?, ?, ?)",
      partId,
      old.revision + 1,
      nowMs,
      who,
      old.name,
      old.config,
    );
    // The time identifies a change, so no two have the same.
    await this.sql.query(
      "UPDATE parts SET config = ?, config_ms = ?, revision = ? WHERE id = ?",
      text,
      Math.max(nowMs, old.updatedMs + 1),
      old.revision + 1,
      partId,
    );
    await new FragmentUses(this.sql).setOfPart(partId, imports);
    await setPackagesOfPart(this.sql, partId, packages);
    // The old text is already counted. An unmeasured history is measured here.
    await this.sql.query(
      `UPDATE parts SET config_bytes = LENGTH(config) + COALESCE(config_bytes,
         (SELECT COALESCE(SUM(LENGTH(h.old_config)), 0) FROM part_history h WHERE h.part_id = parts.id))
       WHERE id = ?`,
      partId,
    );
  }

  /** Deletes the oldest changes beyond the given number, and beyond a number of characters with the newest text. */
  async keepNewest(partId: string, count: number, lettersMax: number): Promise<void> {
    const [row] = await this.sql.query<{ revision: number; letters: number }>(
      `SELECT revision, COALESCE(config_bytes, 0) AS letters FROM parts WHERE id = ?`,
      partId,
    );
    if (!row) return;
    let gone = await this.sql.query<{ letters: number }>(
      `DELETE FROM part_history WHERE part_id = ? AND revision <= ? RETURNING LENGTH(old_config) AS letters`,
      partId,
      row.revision - count,
    );
    let left = row.letters;
    for (;;) {
      left -= gone.reduce((sum, { letters }) => sum + letters, 0);
      if (left <= lettersMax) break;
      gone = await this.sql.query<{ letters: number }>(
        `DELETE FROM part_history WHERE part_id = ? AND revision =
           (SELECT MIN(revision) FROM part_history WHERE part_id = ?) RETURNING LENGTH(old_config) AS letters`,
        partId,
        partId,
      );
      if (gone.length === 0) break;
    }
    await this.sql.query("UPDATE parts SET config_bytes = ? WHERE id = ?", left, partId);
  }

  /** The number of requested changes that fit into the given number of letters; at least one. */
  async fitting(partId: string, query: HistoryQuery, lettersMax: number): Promise<number> {
    const sizes = await this.#changes<{ letters: number }>("LENGTH(old_config) AS letters", partId, query);
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }) => (left -= letters) < 0);
    return over < 0 ? query.limit : Math.max(over, 1);
  }

  /** The newest changes, newest first. */
  async history(partId: string, query: HistoryQuery): Promise<PartChange[]> {
    const columns = `revision, at_ms AS "atMs", who, old_name AS "oldName", old_config AS old`;
    const rows = await this.#changes<Omit<PartChange, "old"> & { old: string }>(columns, partId, query);
    return rows.map((row) => ({ ...row, old: JSON.parse(row.old) }));
  }

  #changes<T>(columns: string, partId: string, query: HistoryQuery): Promise<T[]> {
    const { limit, before = Number.MAX_SAFE_INTEGER, fromMs = 0, untilMs = Number.MAX_SAFE_INTEGER } = query;
    return this.sql.query<T>(
      `SELECT ${columns} FROM part_history
       WHERE part_id = ? AND revision < ? AND at_ms >= ? AND at_ms <= ?
         -- What its former organization wrote is not told to the present one.
         AND at_ms > (SELECT moved_ms FROM parts WHERE id = part_id) ORDER BY revision DESC LIMIT ?`,
      partId,
      before,
      fromMs,
      untilMs,
      limit,
    );
  }

  /** The configuration at a revision. Throws `not_found`. */
  async at(partId: string, revision: number): Promise<JsonObject> {
    const now = await this.get(partId);
    if (revision === now.revision) return now.config;
    const [next] = await this.sql.query<{ old: string }>(
      "SELECT old_config AS old FROM part_history WHERE part_id = ? AND revision = ?",
      partId,
      revision + 1,
    );
    if (!next) {
      throw new SvcError(
        "not_found",
        `there is no revision ${revision}, wanted one from 0 to ${now.revision}`,
      );
    }
    return JSON.parse(next.old);
  }
}

/** `7+0a1b2c3d.4`: a revision of a part, and the fragments in it with theirs. */
export function revisionText(revision: number, used: Resolution["used"]): string {
  return [revision, ...used.map((one) => `${one.id.slice(0, 8)}.${one.revision}`)].join("+");
}
