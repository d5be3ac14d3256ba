/**
 * A migration step: records the parts and fragments that name a fragment, which only the configurations contained
 * before.
 *
 * The step reads configurations as the program did when the step was written, and is not changed later.
 *
 * The room owns the steps of migrations that SQL alone cannot do.
 */

import type { Sql } from "../store.ts";

/** Limit of configurations in memory. */
const ROWS_A_QUERY = 20;
const VERSION = /^[\w.-]{0,60}$/;

export async function recordFragmentUses(sql: Sql): Promise<void> {
  const rows = await sql.query<{ id: string }>("SELECT id FROM fragments");
  const known = new Set(rows.map(({ id }) => id));
  if (known.size === 0) return;
  const ofPart = "INSERT INTO part_fragments (part_id, fragment_id, version) VALUES (?, ?, ?)";
  const ofFragment = "INSERT INTO fragment_fragments (fragment_id, used_id, version) VALUES (?, ?, ?)";
  for (const [table, text] of [["parts", ofPart], ["fragments", ofFragment]] as const) {
    let last = "";
    for (;;) {
      const found = await sql.query<{ id: string; config: string }>(
        `SELECT id, config FROM ${table} WHERE id > ? AND config LIKE '%"fragments"%' ORDER BY id LIMIT ?`,
        last,
        ROWS_A_QUERY,
      );
      for (const { id, config } of found) {
        for (const [used, version] of usesIn(config)) {
          if (known.has(used)) await sql.query(text, id, used, version);
        }
      }
      const end = found.at(-1);
      if (!end || found.length < ROWS_A_QUERY) break;
      last = end.id;
    }
  }
}

/** Each fragment with the version at which a configuration names it, once. */
function usesIn(config: string): [string, string][] {
  const { fragments } = JSON.parse(config) as { fragments?: unknown };
  if (!Array.isArray(fragments)) return [];
  const uses = fragments.map((one): [unknown, string] =>
    typeof one === "string" ? [one, ""] : [one?.id, versionOf(one?.version)]
  );
  const named = uses.filter((use): use is [string, string] =>
    typeof use[0] === "string" && VERSION.test(use[1])
  );
  return [...new Map(named.map((use) => [JSON.stringify(use), use])).values()];
}

function versionOf(version: unknown): string {
  return typeof version === "string" || typeof version === "number" ? String(version) : "";
}
