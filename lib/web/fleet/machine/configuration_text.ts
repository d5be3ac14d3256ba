/** The text of a part's configuration. Pure. */

import type { ConfigProblem } from "../../machine/link/config_service.ts";

/** As people read it; the text itself if it is no JSON. */
export function prettyJson(text: string): string {
  try {
    return `${JSON.stringify(JSON.parse(text === "" ? "{}" : text), null, 2)}\n`;
  } catch {
    return text;
  }
}

/** As people read it, with the settings of each object by name. */
export function orderedJson(text: string): string {
  try {
    const ordered = JSON.parse(
      text === "" ? "{}" : text,
      (_, value: unknown) =>
        typeof value === "object" && value !== null && !Array.isArray(value)
          ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1))
          : value,
    );
    return prettyJson(JSON.stringify(ordered));
  } catch {
    return text;
  }
}

/** What keeps a text from being a configuration at all; the control plane says the rest. */
export function jsonProblems(text: string): readonly ConfigProblem[] {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return [];
    return [problemAt("wanted an object, such as {}", 0, text.length)];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const [, place] = /at position (\d+)/.exec(message) ?? [];
    const from = Math.min(place === undefined ? text.length : Number(place), Math.max(0, text.length - 1));
    return [problemAt(message, from, from + 1)];
  }
}

function problemAt(message: string, from: number, to: number): ConfigProblem {
  return { path: "", message, isWarning: false, from, to };
}
