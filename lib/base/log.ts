/**
 * Logging: a tree of named loggers over one set of sinks and one set of level rules.
 *
 * `Logs` owns the rules and the sinks; a `Logger` is a name with a cached level. Rules are `{pattern, level}`
 * from top to bottom and the last match wins; `debug` beats them all. Rules may change at any time and apply to
 * every logger, old and new. A disabled debug line costs one comparison.
 */

import type { Clock } from "./clock.ts";
import { messageOf } from "./error.ts";

export const LEVELS = { debug: 0, info: 1, warn: 2, error: 3 } as const;
export type Level = keyof typeof LEVELS;

export type Fields = { readonly [key: string]: unknown };

export interface LogRecord {
  readonly timeMs: number;
  readonly level: Level;
  readonly logger: string;
  readonly message: string;
  readonly fields: Fields;
}

export interface LogRule {
  readonly pattern: string;
  readonly level: Level;
}

/** Where records go. A sink never throws and never waits. */
export type Sink = (record: LogRecord) => void;

/** Reads a level as users write it: any case, and `warning` for `warn`. */
export function parseLevel(text: string): Level | undefined {
  const lower = text.toLowerCase();
  const level = lower === "warning" ? "warn" : lower;
  return level in LEVELS ? level as Level : undefined;
}

/**
 * What a rule's pattern matches: it is anchored at both ends, its `.` is literal and `*` is any run of characters;
 * the rest is regular expression. Throws `SyntaxError`, which shows the expression that came of it.
 */
export function logPattern(pattern: string): RegExp {
  return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
}

export class Logs {
  readonly #loggers = new Map<string, Logger>();
  #rules: readonly { matches: RegExp; level: Level }[] = [];
  #debug = false;

  constructor(private readonly clock: Clock, private readonly sinks: Sink[]) {}

  logger(name: string): Logger {
    let logger = this.#loggers.get(name);
    if (!logger) {
      logger = new Logger(name, this);
      logger.threshold = LEVELS[this.#levelOf(name)];
      this.#loggers.set(name, logger);
    }
    return logger;
  }

  /** Replaces the rules. Returns what is wrong with the patterns that were skipped. */
  configure(rules: readonly LogRule[], debug: boolean): string[] {
    const problems: string[] = [];
    const compiled: { matches: RegExp; level: Level }[] = [];
    for (const { pattern, level } of rules) {
      try {
        compiled.push({ matches: logPattern(pattern), level });
      } catch (error) {
        problems.push(`log pattern "${pattern}" is skipped: ${messageOf(error)}`);
      }
    }
    this.#rules = compiled;
    this.#debug = debug;
    for (const [name, logger] of this.#loggers) logger.threshold = LEVELS[this.#levelOf(name)];
    return problems;
  }

  write(level: Level, logger: string, message: string, fields: Fields): void {
    const record = { timeMs: this.clock.nowMs(), level, logger, message, fields };
    for (const sink of this.sinks) sink(record);
  }

  addSink(sink: Sink): void {
    this.sinks.push(sink);
  }

  #levelOf(name: string): Level {
    if (this.#debug) return "debug";
    return this.#rules.findLast((rule) => rule.matches.test(name))?.level ?? "info";
  }
}

export class Logger {
  /** The lowest level that is written, as a number of `LEVELS`; kept by `Logs`. */
  threshold: number = LEVELS.info;

  constructor(readonly name: string, private readonly logs: Logs) {}

  child(name: string): Logger {
    return this.logs.logger(`${this.name}.${name}`);
  }

  debug(message: string, fields: Fields = {}): void {
    if (this.threshold <= LEVELS.debug) this.logs.write("debug", this.name, message, fields);
  }

  info(message: string, fields: Fields = {}): void {
    if (this.threshold <= LEVELS.info) this.logs.write("info", this.name, message, fields);
  }

  warn(message: string, fields: Fields = {}): void {
    if (this.threshold <= LEVELS.warn) this.logs.write("warn", this.name, message, fields);
  }

  error(message: string, fields: Fields = {}): void {
    if (this.threshold <= LEVELS.error) this.logs.write("error", this.name, message, fields);
  }

  /** Writes at `level` whatever the rules say: for records that another process has already filtered. */
  unconditionally(level: Level, message: string, fields: Fields = {}): void {
    this.logs.write(level, this.name, message, fields);
  }
}

/** One console line: UTC time, level, logger, message and fields, tab-separated (the published layout). */
export function formatLine(record: LogRecord): string {
  const parts = [
    new Date(record.timeMs).toISOString(),
    record.level.toUpperCase(),
    record.logger,
    record.message,
  ];
  if (Object.keys(record.fields).length > 0) parts.push(formatFields(record.fields));
  return parts.join("\t");
}

function formatFields(fields: Fields): string {
  try {
    return JSON.stringify(fields, (_key, value) => {
      if (typeof value === "bigint") return value.toString();
      return value instanceof Error ? value.message : value;
    });
  } catch (error) {
    return JSON.stringify({ fields: `cannot be shown: ${messageOf(error)}` });
  }
}

/** Writes lines to standard output. */
export function consoleSink(): Sink {
  return (record) => console.log(formatLine(record));
}

/** Keeps records: for tests, and for what is said before there is anywhere to say it. */
export function memorySink(records: LogRecord[]): Sink {
  return (record) => void records.push(record);
}

/** Logs that go nowhere. */
export function silentLogs(clock: Clock): Logs {
  return new Logs(clock, []);
}
