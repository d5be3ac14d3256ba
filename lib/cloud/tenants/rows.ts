/** What the tables of the tree have in common: a row by its id, names that are unique among siblings, ended roles. */

import { SvcError } from "../../base/error.ts";
import type { Lookup } from "../store/lookups.ts";
import type { Sql, SqlValue } from "../store/store.ts";

export interface NamedRow {
  readonly id: string;
  readonly name: string;
  readonly createdMs: number;
}

/** The row with this id. Throws `not_found` if there is none. */
export async function readById<T>(
  sql: Sql,
  statement: string | Lookup,
  kind: string,
  id: string,
): Promise<T> {
  const [row] = await sql.query<T>(statement, id);
  if (!row) throw new SvcError("not_found", `there is no ${kind} "${id}"`);
  return row;
}

/** Runs a statement that gives something a name. Throws `already_exists` if a sibling has the name. */
export async function writeName(
  sql: Sql,
  { kind, name }: { readonly kind: string; readonly name: string },
  text: string,
  ...values: readonly SqlValue[]
): Promise<void> {
  try {
    await sql.query(text, ...values);
  } catch (error) {
    if (SvcError.from(error).code !== "already_exists") throw error;
    throw new SvcError(
      "already_exists",
      `there is ${kind === "organization" ? "an" : "a"} ${kind} "${name}" here already`,
    );
  }
}

/** Removes the grants of keys on a deleted resource. */
export async function removeGrantsOn(sql: Sql, kind: string, id: string): Promise<void> {
  await sql.query("DELETE FROM grants WHERE kind = ? AND resource_id = ?", kind, id);
}
