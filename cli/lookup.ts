/**
 * Finds what a person names: by id, by a unique beginning of an id, or by name. Whatever fits nothing gets a suggestion.
 */

import { SvcError } from "../lib/base/error.ts";
import { didYouMean } from "../lib/base/schema/suggest.ts";

/** A shorter word is no beginning of an id: too many ids would begin with it by chance. */
const ID_CHARS_MIN = 4;
const NAMES_SHOWN = 12;

/** The element of a list that has only one. */
export function onlyOf<T>(list: readonly T[]): T | undefined {
  return list.length === 1 ? list[0] : undefined;
}

export interface Nameable {
  readonly id: string;
  readonly name: string;
  /** Further names of the same, which count if no entry has the word as its own name. */
  readonly also?: readonly string[];
}

/** The only entry that `wanted` means. Throws `not_found`, or `invalid_argument` where it means several. */
export function namedOne<T extends Nameable>(what: string, wanted: string, entries: readonly T[]): T {
  const ways: readonly ((one: T) => boolean)[] = [
    ({ id }) => id === wanted,
    ({ name }) => name === wanted,
    ({ also = [] }) => also.includes(wanted),
    ({ id }) => wanted.length >= ID_CHARS_MIN && id.startsWith(wanted),
  ];
  for (const way of ways) {
    const found = entries.filter(way);
    const only = onlyOf(found);
    if (only) return only;
    if (found.length > 1) {
      const listed = found.slice(0, NAMES_SHOWN).map(({ id, name }) => `${name} (${id})`).join(", ");
      throw new SvcError(
        "invalid_argument",
        `"${wanted}" means ${found.length} ${what}s: ${listed}; give an id`,
      );
    }
  }
  throw new SvcError("not_found", `there is no ${what} "${wanted}"${hintOf(wanted, entries)}`);
}

function hintOf(wanted: string, entries: readonly Nameable[]): string {
  const near = didYouMean(wanted, new Set(entries.flatMap(({ name, also = [] }) => [name, ...also])));
  if (near !== "") return near;
  const names = [...new Set(entries.map(({ name }) => name))];
  if (names.length === 0) return "";
  const more = names.length > NAMES_SHOWN ? ", …" : "";
  return `; there are ${names.slice(0, NAMES_SHOWN).join(", ")}${more}`;
}
