/**
 * The tags of readings, by which a filter finds them through an index.
 *
 * Readings of one upload have the same tags, so a list of tags is stored once (`reading_tags`) and each reading names
 * its list. A list without readings is forgotten.
 */

import { createHash } from "node:crypto";
import type { BatchStatement, Sql, Store } from "./store.ts";

/** Readings of an older database that get their list in one transaction. */
const MOVE_AT_ONCE = 2_000;
const FORGET_AT_ONCE = 500;

/** The name of a list of tags, given as JSON; `null` for a list without tags. */
export function tagListOf(json: string): string | null {
  return json === "[]" ? null : createHash("sha256").update(json).digest("hex").slice(0, 32);
}

/** Stores a list of tags, given as JSON; returns its name. */
export async function noteTagList(sql: Sql, json: string): Promise<string | null> {
  const statement = tagListStatement(json);
  if (statement) await sql.query(statement.text, ...statement.values);
  return tagListOf(json);
}

/** Stores a list of tags, given as JSON, unless it is empty. */
export function tagListStatement(json: string): BatchStatement | undefined {
  const list = tagListOf(json);
  if (list === null) return undefined;
  const tags = [...new Set(JSON.parse(json) as string[])];
  return {
    text: `INSERT INTO reading_tags (tag, list) VALUES ${
      tags.map(() => "(?, ?)").join(", ")
    } ON CONFLICT DO NOTHING`,
    values: tags.flatMap((tag) => [tag, list]),
  };
}

/** Gives lists to some of the readings that lack one. Returns whether all readings have one. */
export async function moveReadingTags(sql: Sql): Promise<boolean> {
  const rows = await sql.query<{ origin: string; capturedUs: number; entry: string; tags: string }>(
    `SELECT origin_id AS origin, captured_us AS "capturedUs", entry_id AS entry, tags FROM tabular_data
     WHERE tag_list IS NULL AND tags <> '[]' LIMIT ?`,
    MOVE_AT_ONCE,
  );
  for (const [tags, same] of Map.groupBy(rows, ({ tags }) => tags)) {
    const list = await noteTagList(sql, tags);
    const text =
      "UPDATE tabular_data SET tag_list = ? WHERE origin_id = ? AND captured_us = ? AND entry_id = ?";
    // All updates go to the database in one trip.
    await Promise.all(
      same.map(({ origin, capturedUs, entry }) => sql.query(text, list, origin, capturedUs, entry)),
    );
  }
  return rows.length < MOVE_AT_ONCE;
}

/** Deletes lists without readings, some at a time. */
export async function forgetTagLists(store: Store): Promise<void> {
  for (let after = "";;) {
    const lists = await store.query<{ list: string }>(
      "SELECT DISTINCT list FROM reading_tags WHERE list > ? ORDER BY list LIMIT ?",
      after,
      FORGET_AT_ONCE,
    );
    const names = lists.map(({ list }) => list);
    const last = names.at(-1);
    if (last === undefined) return;
    await store.transaction((sql) =>
      sql.query(
        `DELETE FROM reading_tags WHERE list IN (${names.map(() => "?").join(", ")})
           AND NOT EXISTS (SELECT 1 FROM tabular_data d WHERE d.tag_list = reading_tags.list)
           AND NOT EXISTS (SELECT 1 FROM reading_files d WHERE d.tag_list = reading_tags.list)`,
        ...names,
      )
    );
    after = last;
  }
}
