/**
 * A migration step: stores the host word of each part, which was derived from its name before. The oldest part keeps
 * that word; later parts with the same word get another one.
 *
 * The step spells words as the program did when the step was written, and is not changed later.
 */

import { domainToASCII } from "node:url";
import type { Sql } from "../store.ts";

const LABEL_CHARS_MAX = 63;
const ID_CHARS = 12;

export async function chooseHostWords(sql: Sql): Promise<void> {
  const parts = await sql.query<{ id: string; name: string; locationId: string }>(
    `SELECT p.id, p.name, m.location_id AS "locationId" FROM parts p JOIN machines m ON m.id = p.machine_id
     ORDER BY p.created_ms, p.id`,
  );
  const taken = new Set<string>();
  const insert = "INSERT INTO part_hosts (location_id, word, part_id, released_ms) VALUES (?, ?, ?, NULL)";
  for (const { id, name, locationId } of parts) {
    const word = candidates(name, id).find((one) => !taken.has(`${one}.${locationId}`))!;
    taken.add(`${word}.${locationId}`);
    await sql.query(insert, locationId, word, id);
  }
}

function* candidates(name: string, id: string): Generator<string> {
  const old = name.toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "");
  const word = old.slice(0, LABEL_CHARS_MAX) || "part";
  yield word;
  const other = domainToASCII(name.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}-]+/gu, "-"));
  if (/^xn--[a-z0-9-]{1,58}[a-z0-9]$/.test(other)) yield other;
  for (let number = 2; number < 100; number++) yield `${word.slice(0, 60)}-${number}`;
  yield `part-${id.slice(0, ID_CHARS)}`;
  yield id;
}
