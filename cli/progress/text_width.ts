/** Columns that text takes on a terminal: two for a wide character, none for an accent of its own. */

const PLAIN = /^[\x20-\x7e]*$/;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const PICTURE = /\p{Emoji_Presentation}|\p{Extended_Pictographic}\ufe0f|\p{Regional_Indicator}{2}/u;

export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  return lettersOf(text).reduce((sum, letter) => sum + letterWidth(letter), 0);
}

/** Fills the text with blanks up to `width` columns. */
export function padded(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - textWidth(text)));
}

/** The text within `width` columns, with `…` in place of its end, or of its middle. */
export function cutText(text: string, width: number, at: "end" | "middle" = "end"): string {
  if (textWidth(text) <= width) return text;
  const letters = lettersOf(text);
  const tail = at === "middle" ? Math.floor((width - 1) / 2) : 0;
  const end = within(letters.toReversed(), tail).toReversed().join("");
  return `${within(letters, width - 1 - textWidth(end)).join("")}…${end}`;
}

/** Letters with their accents, and pictures of several parts, as one each. */
function lettersOf(text: string): string[] {
  return Array.from(
    new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text),
    (one) => one.segment,
  );
}

function letterWidth(letter: string): number {
  return WIDE.test(letter) || PICTURE.test(letter) ? 2 : 1;
}

/** As many of the letters, from the first on, as fit. */
function within(letters: readonly string[], width: number): string[] {
  let taken = 0;
  const over = letters.findIndex((letter) => (taken += letterWidth(letter)) > width);
  return over < 0 ? [...letters] : letters.slice(0, over);
}
