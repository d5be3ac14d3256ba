/** Readings of any sensor as rows: what a table shows and a plot draws. Pure functions. */

import { memberPath, NO_PATH, shownNames, type ValuePath } from "../../base/collections/value_paths.ts";

/** A sensor may give any number of readings: a table draws so many at first. */
export const READING_ROWS = 100;
const DEPTH_MAX = 3;

/** Nested objects and lists as `name.inner`. */
export function flatReadings(value: unknown): [name: string, value: unknown][] {
  const leaves = readingLeaves(value);
  const names = shownNames(leaves.map(([path]) => path));
  return leaves.map(([{ exact }, inner]) => [names.get(exact)!, inner]);
}

/** The same by paths, for what has the names of several readings. */
export function readingLeaves(value: unknown, path = NO_PATH, depth = 0): [ValuePath, unknown][] {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array || depth > DEPTH_MAX) {
    return path === NO_PATH ? [] : [[path, value]];
  }
  return Object.entries(value).flatMap(([key, inner]) =>
    readingLeaves(inner, memberPath(path, key), depth + 1)
  );
}

/** What a plot draws of a reading; `undefined` for a text. */
export function readingNumber(value: unknown): number | undefined {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "number" ? value : undefined;
}
