/**
 * The revisions of fragments and their tags.
 *
 * Owns the tables `fragment_revisions` and `fragment_tags`. A revision never changes; the oldest ones end.
 */

import { placeholders, type Sql } from "../../store/store.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";

/** A revision and its predecessor: the two sides of a change. */
export interface FragmentChange {
  readonly revision: number;
  readonly atMs: number;
  readonly who: string;
  readonly config: JsonObject;
  readonly oldName: string;
  readonly old: JsonObject;
}

export interface Tag {
  readonly tag: string;
  readonly revision: number;
}

/** Each revision `r` beside its predecessor `b`: newest first, below a revision, up to a count. */
const NEWEST_CHANGES = `FROM fragment_revisions r
       JOIN fragment_revisions b ON b.fragment_id = r.fragment_id AND b.revision = r.revision - 1
       WHERE r.fragment_id = ? AND r.revision < ? ORDER BY r.revision DESC LIMIT ?`;
/** A version that is a revision, and not a tag. */
export const REVISION = /^[1-9]\d{0,14}$/;

export class FragmentRevisions {
  constructor(private readonly sql: Sql) {}

  /** The number of a version: a revision, or the one that has the tag; `undefined` if there is no such tag. */
  async findNumber(id: string, version: string): Promise<number | undefined> {
    if (REVISION.test(version)) return Number(version);
    return (await this.tags(id)).find(({ tag }) => tag === version)?.revision;
  }

  async find(
    id: string,
    revision: number,
  ): Promise<{ readonly name: string; readonly config: string; readonly atMs: number } | undefined> {
    const [row] = await this.sql.query<{ name: string; config: string; atMs: number }>(
      `SELECT name, config, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? AND revision = ?`,
      id,
      revision,
    );
    return row;
  }

  /** Stores the newest revision in the history. */
  async keep(id: string, who: string): Promise<void> {
    await this.sql.query(
      `INSERT INTO fragment_revisions (fragment_id, revision, at_ms, who, name, config)
       SELECT id, revision, updated_ms, CAST(? AS TEXT), name, config FROM fragments WHERE id = ?`,
      who,
      id,
    );
    await this.#measure(id);
  }

  /**
   * Deletes the oldest revisions beyond the given number, and beyond a number of characters of all together, except
   * those with a tag and those that parts or fragments name.
   */
  async keepNewest(id: string, count: number, lettersMax: number): Promise<void> {
    const rows = await this.sql.query<{ version: string }>(
      `SELECT version FROM part_fragments WHERE fragment_id = ?
       UNION SELECT version FROM fragment_fragments WHERE used_id = ?`,
      id,
      id,
    );
    const named = rows.map(({ version }) => version).filter((one) => REVISION.test(one));
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(config) AS letters FROM fragment_revisions WHERE fragment_id = ? ORDER BY revision DESC LIMIT ?`,
      id,
      count,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }, index) => (left -= letters) < 0 && index > 0);
    await this.sql.query(
      `DELETE FROM fragment_revisions WHERE fragment_id = ?
         AND revision <= (SELECT revision FROM fragments WHERE id = ?) - ?
         AND revision NOT IN (SELECT revision FROM fragment_tags WHERE fragment_id = ?)
         AND revision NOT IN (${placeholders([0, ...named])})`,
      id,
      id,
      over < 0 ? count : over,
      id,
      0,
      ...named.map(Number),
    );
    await this.#measure(id);
  }

  /** The stored revisions, newest first. */
  all(id: string): Promise<{ readonly revision: number; readonly atMs: number }[]> {
    return this.sql.query(
      `SELECT revision, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? ORDER BY revision DESC`,
      id,
    );
  }

  tags(id: string): Promise<Tag[]> {
    return this.sql.query("SELECT tag, revision FROM fragment_tags WHERE fragment_id = ? ORDER BY tag", id);
  }

  /** Gives a tag to a revision, and takes it from its former revision. */
  async setTag(id: string, tag: string, revision: number): Promise<void> {
    await this.sql.query(
      `INSERT INTO fragment_tags (fragment_id, tag, revision) VALUES (?, ?, ?)
       ON CONFLICT (fragment_id, tag) DO UPDATE SET revision = excluded.revision`,
      id,
      tag,
      revision,
    );
  }

  /** Whether the tag existed. */
  async removeTag(id: string, tag: string): Promise<boolean> {
    const text = "DELETE FROM fragment_tags WHERE fragment_id = ? AND tag = ? RETURNING tag";
    return (await this.sql.query(text, id, tag)).length > 0;
  }

  /** The number of newest changes that fit into the given number of letters; at least one. */
  async fitting(id: string, limit: number, lettersMax: number, before = Number.MAX_SAFE_INTEGER) {
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(r.config) + LENGTH(b.config) AS letters
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }) => (left -= Number(letters)) < 0);
    return over < 0 ? limit : Math.max(over, 1);
  }

  /** The newest changes, newest first, below revision `before`. */
  async history(id: string, limit: number, before = Number.MAX_SAFE_INTEGER): Promise<FragmentChange[]> {
    const rows = await this.sql.query<
      Omit<FragmentChange, "config" | "old"> & { config: string; old: string }
    >(
      `SELECT r.revision, r.at_ms AS "atMs", r.who, r.config, b.name AS "oldName", b.config AS old
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    return rows.map((row) => ({ ...row, config: JSON.parse(row.config), old: JSON.parse(row.old) }));
  }

  /** Counts the characters of a fragment with its revisions. */
  async #measure(id: string): Promise<void> {
    await this.sql.query(
      `UPDATE fragments SET config_bytes = LENGTH(config) +
         (SELECT COALESCE(SUM(LENGTH(r.config)), 0) FROM fragment_revisions r WHERE r.fragment_id = fragments.id)
       WHERE id = ?`,
      id,
    );
  }
}
