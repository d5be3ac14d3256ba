/**
 * Text from elsewhere as it is shown to people: what would move the cursor, colour or rename a terminal, hide or
 * reorder what stands around it, is written out as JSON writes it (`\u001b`).
 *
 * `DenoHost` does it with everything that a program prints, and the log with every line, so that a new command need
 * not think of it. JSON stays the same value.
 */

/** C0 but tab and newline, DEL, C1, line and paragraph separators, marks and overrides of direction, and BOM. */
// deno-lint-ignore no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
// deno-lint-ignore no-control-regex
const ANY = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

/** Several lines of text: tabs and newlines stay. */
export function escaped(text: string): string {
  return text.replace(HIDDEN, unicode);
}

/** A text that is to stay on one line and in one column, such as a name in a table. */
export function escapedLine(text: string): string {
  return escaped(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** Whether a name has in it what is not to be seen as such. */
export function hasHidden(text: string): boolean {
  return ANY.test(text);
}

function unicode(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
