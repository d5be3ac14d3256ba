/** A line of a log before it is written, and the sinks that take it. */

/** The weight of a log line. */
export type Level = "debug" | "info" | "warn" | "error";

/** The levels in order, the lightest first. */
export const LEVELS: { readonly [L in Level]: number } = { debug: 0, info: 1, warn: 2, error: 3 };

/** Facts beside the message of a line, by name; values are written as JSON. */
export type Fields = { readonly [key: string]: unknown };

/** Expensive fields are given as a function, which is called only if the line is written. */
export type LazyFields = Fields | (() => Fields);

export interface LogRecord {
  readonly timeMs: number;
  readonly level: Level;
  readonly logger: string;
  /** Place in the source, `folder/file.ext:line`, if the writer gives it. */
  readonly caller?: string;
  readonly message: string;
  readonly fields: Fields;
}

/** Receives records. A sink never throws and never waits. */
export type Sink = (record: LogRecord) => void;
