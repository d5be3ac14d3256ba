/**
 * Makes foreign text safe to show. Characters that move the cursor, colour or rename a terminal, or hide or reorder
 * the text around them are written as JSON writes them (`\u001b`).
 *
 * `DenoHost` escapes everything that a program prints, and the log escapes every line, so a new command gets this
 * without code of its own. Escaped JSON keeps its value. A command line to copy has its words quoted for a shell.
 * `withoutEnd` shortens such a text.
 */

/** C0 except tab and newline, DEL, C1, line and paragraph separators, direction marks and overrides, and BOM. */
// deno-lint-ignore no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
// deno-lint-ignore no-control-regex
const ANY = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

/**
 * What looks like a blank, or like nothing: every space but the usual one, soft hyphens, joiners, fillers, variation
 * selectors. Text in a language may have them; a name with one looks like another name.
 */
const LOOKS_BLANK = new RegExp(
  "[\\u00a0\\u00ad\\u034f\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180e\\u2000-\\u200d\\u202f\\u205f-\\u2064" +
    "\\u206a-\\u206f\\u3000\\u3164\\ufe00-\\ufe0f\\uffa0]",
  "g",
);

/** What every shell takes as it is; `=` at the start names a program in zsh. */
const PLAIN_WORD = /^[\w@%+:,./-][\w@%+=:,./-]*$/;

/** Escapes text of several lines: tabs and newlines stay. */
export function escaped(text: string): string {
  return text.replace(HIDDEN, unicode);
}

/** Escapes text for one line and one column, such as a name in a table. */
export function escapedLine(text: string): string {
  return escaped(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** Escapes also what looks like a blank or like nothing: for an error that quotes what somebody wrote. */
export function escapedBlanks(text: string): string {
  return text.replace(LOOKS_BLANK, unicode);
}

/** Whether a name contains a character that `escaped` would replace. */
export function hasHidden(text: string): boolean {
  return ANY.test(text);
}

/** The text as one word of a POSIX shell, quoted where the shell would read more in it. */
export function shellWord(text: string): string {
  return PLAIN_WORD.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function unicode(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/**
 * A text without the characters of `letters` that stand at its end. In a long text from outside, `/x+$/` would count
 * the same x again and again, and take minutes.
 */
export function withoutEnd(text: string, letters: string): string {
  let end = text.length;
  while (end > 0 && letters.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
