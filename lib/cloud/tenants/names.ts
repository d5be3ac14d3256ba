/**
 * Names that people give to things of the control plane: one line, without invisible characters. And the host word of
 * each part, the first label of its host names.
 *
 * Owns the table `part_hosts`. A host word is unique in its location and is chosen once: when the part is created,
 * renamed or moved. The first holder keeps it; others get a suffix. A word that a certificate may name stays reserved
 * until the certificate ends, also after its part was renamed, moved or deleted.
 */

import { domainToASCII } from "node:url";
import { SvcError } from "../../base/error.ts";
import { escapedLine, hasHidden, withoutEnd } from "../../base/escape.ts";
import { CERTIFICATE_DAYS } from "../store/secrets/authority.ts";
import { placeholders, queryOne, type Sql } from "../store/store.ts";

export const NAME_CHARS_MAX = 200;

/** Throws `invalid_argument` for a name that is empty, too long, or has control characters in it. */
export function checkedName(name: string): string {
  if (hasHidden(name)) {
    throw new SvcError(
      "invalid_argument",
      `found the name "${escapedLine(name.slice(0, NAME_CHARS_MAX))}", wanted one without control characters`,
    );
  }
  if (name.trim() !== "" && name.length <= NAME_CHARS_MAX) return name;
  throw new SvcError(
    "invalid_argument",
    `found a name of ${name.length} characters, wanted 1 to ${NAME_CHARS_MAX} and not only spaces`,
  );
}

const LABEL_CHARS_MAX = 63;
const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
/** Suffixes that are tried before the part's own id. */
const SUFFIXES = 98;
const ID_CHARS = 12;
/** Former words that one part may keep reserved. */
const RESERVED_MAX = 50;
const RESERVED_MS = CERTIFICATE_DAYS * 24 * 3600 * 1000;

/** The host form of a name: letters and digits of ASCII, Punycode for other scripts, or else a word with the id. */
export function hostWordOf(name: string, id: string): string {
  const plain = name.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}-]+/gu, "-");
  const isAscii = /^[a-z0-9-]*$/.test(plain);
  const trimmed = (isAscii ? plain.replace(/^-+/, "").slice(0, LABEL_CHARS_MAX) : plain).replace(
    /^-+|-+$/g,
    "",
  );
  const word = isAscii ? trimmed || "part" : domainToASCII(trimmed);
  return word.length <= LABEL_CHARS_MAX && LABEL.test(word) ? word : `part-${id.slice(0, ID_CHARS)}`;
}

export class HostWords {
  constructor(private readonly sql: Sql) {}

  /** Gives a part the host word of its name in a location, and releases its former one. */
  async claim(partId: string, locationId: string, name: string, nowMs: number): Promise<void> {
    const words = candidatesOf(hostWordOf(name, partId), partId);
    await this.sql.query(
      "DELETE FROM part_hosts WHERE location_id = ? AND released_ms IS NOT NULL AND released_ms < ?",
      locationId,
      nowMs - RESERVED_MS,
    );
    const word = await this.#firstFree(words, locationId, partId);
    if (word === undefined) {
      throw new SvcError(
        "already_exists",
        `no host name is left for "${name}" in this location: rename the part`,
      );
    }
    await this.release(partId, nowMs, { locationId, word });
    await this.sql.query(
      `INSERT INTO part_hosts (location_id, word, part_id, released_ms) VALUES (?, ?, ?, NULL)
       ON CONFLICT (location_id, word) DO UPDATE SET released_ms = NULL`,
      locationId,
      word,
      partId,
    );
  }

  /** The first of the words that no other part has. Nearly always it is the very first, so that is asked for alone. */
  async #firstFree(
    words: readonly string[],
    locationId: string,
    partId: string,
  ): Promise<string | undefined> {
    for (const some of [words.slice(0, 1), words.slice(1)]) {
      const others = await this.sql.query<{ word: string }>(
        `SELECT word FROM part_hosts WHERE location_id = ? AND part_id <> ? AND word IN (${
          placeholders(some)
        })`,
        locationId,
        partId,
        ...some,
      );
      const taken = new Set(others.map(({ word }) => word));
      const free = some.find((one) => !taken.has(one));
      if (free !== undefined) return free;
    }
    return undefined;
  }

  /** Releases a part's word, except `kept`; reserves it if a certificate names it. */
  async release(
    partId: string,
    nowMs: number,
    kept: { readonly locationId: string; readonly word: string } = { locationId: "", word: "" },
  ): Promise<void> {
    const certified = await this.sql.query("SELECT part_id FROM certificates WHERE part_id = ?", partId);
    const which = "WHERE part_id = ? AND released_ms IS NULL AND NOT (location_id = ? AND word = ?)";
    if (certified.length === 0) {
      await this.sql.query(`DELETE FROM part_hosts ${which}`, partId, kept.locationId, kept.word);
      return;
    }
    await this.sql.query(
      `UPDATE part_hosts SET released_ms = ? ${which}`,
      nowMs,
      partId,
      kept.locationId,
      kept.word,
    );
    const { amount } = await queryOne<{ amount: number }>(
      this.sql,
      "SELECT COUNT(*) AS amount FROM part_hosts WHERE part_id = ? AND released_ms >= ?",
      partId,
      nowMs - RESERVED_MS,
    );
    if (Number(amount) <= RESERVED_MAX || kept.word === "") return;
    throw new SvcError(
      "resource_exhausted",
      `the part had ${RESERVED_MAX} other host names in the last ${CERTIFICATE_DAYS} days: rename it later`,
    );
  }
}

function candidatesOf(word: string, partId: string): string[] {
  const numbers = Array.from({ length: SUFFIXES }, (_, index) => String(index + 2));
  const suffixes = [...numbers, withoutEnd(partId.slice(0, ID_CHARS), "-")];
  // A shortened Punycode word would be no word.
  const base = (suffix: string) =>
    word.startsWith("xn--") && word.length + suffix.length >= LABEL_CHARS_MAX
      ? "part"
      : withoutEnd(word.slice(0, LABEL_CHARS_MAX - 1 - suffix.length), "-");
  return [word, ...suffixes.map((suffix) => `${base(suffix)}-${suffix}`)];
}
