/**
 * One log record as text: the published console line and the text of its fields.
 *
 * Formatting never throws, whatever the fields are. A `Secret` in them shows as stars, and control characters are
 * escaped. Only the first line of a record starts at the margin: a message of several lines, which may come from a
 * client, cannot pass for several records.
 */

import { chainOf, messageOf } from "../error.ts";
import { escaped, escapedLine } from "../escape.ts";
import type { Fields, Level, LogRecord } from "./record.ts";

/** ANSI colours of the level. */
const COLOURS: { readonly [L in Level]: number } = { debug: 35, info: 34, warn: 33, error: 31 };

/** Begins the second and further lines of a message. */
const CONTINUED = "\n\t";

/** One console line: UTC time, level, logger, place in the source if known, message, fields if any; tab-separated. */
export function formatLine(
  { timeMs, level, logger, caller, message, fields }: LogRecord,
  coloured = false,
): string {
  const word = level.toUpperCase();
  const parts = [
    new Date(timeMs).toISOString(),
    coloured ? `\x1b[${COLOURS[level]}m${word}\x1b[0m` : word,
    escapedLine(logger),
  ];
  if (caller) parts.push(escapedLine(caller));
  parts.push(escaped(message).replaceAll("\n", CONTINUED));

  for (const _any in fields) {
    parts.push(escaped(formatFields(fields)));
    break;
  }

  return parts.join("\t");
}

/** As JSON; errors with the chain of their causes. */
export function formatFields(fields: Fields): string {
  try {
    return JSON.stringify(fields, (_key, value) => {
      if (typeof value === "bigint") return value.toString();
      if (typeof value === "string") return value.toWellFormed();
      return value instanceof Error ? chainOf(value) : value;
    });
  } catch (error) {
    return JSON.stringify({ fields: `cannot be shown: ${messageOf(error)}` });
  }
}
