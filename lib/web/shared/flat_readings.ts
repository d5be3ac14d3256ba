/** Readings of any sensor as rows: what a table shows and a plot draws. Pure functions. */

/** A sensor may give any number of readings: a table draws so many at first. */
export const READING_ROWS = 100;
const DEPTH_MAX = 3;

/** Nested objects and lists as `name.inner`. */
export function flatReadings(value: unknown, prefix = "", depth = 0): [name: string, value: unknown][] {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array || depth > DEPTH_MAX) {
    return prefix === "" ? [] : [[prefix, value]];
  }
  return Object.entries(value).flatMap(([key, inner]) =>
    flatReadings(inner, prefix === "" ? key : `${prefix}.${key}`, depth + 1)
  );
}

/** What a plot draws of a reading; `undefined` for a text. */
export function readingNumber(value: unknown): number | undefined {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "number" ? value : undefined;
}
