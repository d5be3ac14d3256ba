/** Texts as cells of CSV (RFC 4180) that spreadsheets open without running them. Pure. */

/**
 * The beginning of a cell that a spreadsheet takes for a formula, also behind blanks and characters that nobody sees, and
 * with the wide signs of East Asian keyboards.
 */
const FORMULA = /^(?:[\s\p{Cc}\p{Cf}\p{Z}]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r])/u;

/** A text that a spreadsheet would run gets an apostrophe in front. */
export function csvText(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
