/**
 * Files with the names of a model's classes, as people and tools write them: a line for each class, or JSON. Pure.
 *
 * A file of another form is an `invalid_argument` error: its lines would give every class a wrong name.
 */

import { messageOf, SvcError } from "../../base/error.ts";

const CLASSES_MAX = 100_000;
/** The first line of a label map of TensorFlow, and the list of names in a `data.yaml`. */
const OTHER_FORMS = /^\s*item\s*\{|^\s*names\s*:\s*(\[.*|\{.*)?$/m;
/** A class's number before its name, such as `11: stop sign`. */
const NUMBERED = /^(\d{1,6})\s*[\s:;,=]\s*(\S.*)$/;

/** The names by the numbers of the classes; an empty name where the file has none. */
export function classLabelsIn(bytes: Uint8Array): string[] {
  const text = textIn(bytes);
  const listed = jsonLabels(text);
  if (listed) return listed;
  if (OTHER_FORMS.test(text)) {
    throw unusable("it is a label map (item { … }) or a data.yaml (names: …)");
  }
  const lines = text.split(/\r\n|\r|\n/).map((line) => line.trim());
  while (lines.at(-1) === "") lines.pop();
  return byNumber(lines) ?? lines;
}

/** Editors write UTF-8, UTF-16 with its mark, or a code page of Western Europe. */
function textIn(bytes: Uint8Array): string {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** A list of names, or an object: of names by number, or of numbers by name. `undefined` if the text is no JSON. */
function jsonLabels(text: string): string[] | undefined {
  if (!/^\s*[[{]\s*["}\]\d]/.test(text)) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw unusable(`it is not JSON: ${messageOf(cause)}`);
  }

  const labels: string[] = [];
  for (const [key, value] of Object.entries(json as object)) {
    const [number, name] = typeof value === "number" ? [String(value), key] : [key, value];
    if (typeof name !== "string" || !/^\d+$/.test(number) || Number(number) >= CLASSES_MAX) {
      throw unusable(`it has ${JSON.stringify({ [key]: value }).slice(0, 60)}`);
    }
    labels[Number(number)] = name.trim();
  }
  return Array.from(labels, (name = "") => name);
}

/**
 * The lines at the places that their numbers say, if numbers are left out. All lines have different names and a number,
 * from 0 on, each above the one before: lines such as "1 finger" and "2 fingers" only look so.
 */
function byNumber(lines: readonly string[]): string[] | undefined {
  const found = lines.filter((line) => line !== "").map((line) => ({ line, parts: NUMBERED.exec(line) }));
  const numbers = found.map(({ parts }) => Number(parts?.[1] ?? NaN));
  const names = new Set(found.map(({ parts }) => parts?.[2]));
  const isRising = numbers.every((number, at) => at === 0 ? number === 0 : number > numbers[at - 1]!);
  if (!isRising || names.size < found.length || numbers.at(-1) === undefined) return undefined;

  const placed = new Map(found.map(({ line }, at) => [numbers[at], line]));
  return Array.from({ length: numbers.at(-1)! + 1 }, (_, number) => placed.get(number) ?? "");
}

function unusable(found: string): SvcError {
  return new SvcError(
    "invalid_argument",
    `cannot read the labels: ${found}, wanted a label a line, or a list of texts in JSON`,
  );
}
