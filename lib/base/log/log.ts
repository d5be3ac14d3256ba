/**
 * Logging: a tree of named loggers over one set of sinks and one set of level rules.
 *
 * `Logs` owns the rules and the sinks; a `Logger` is a name with a cached level. Rules are `{pattern, level}` from top
 * to bottom, and the last match wins; `debug` overrides them all. Rules may change at any time and apply to every
 * logger. Repeated lines are held back (`dedup.ts`), at every level. A disabled debug line costs one comparison.
 *
 * The room owns logging, from the call to the line on a terminal or in a file.
 */

import { shownUrlsIn } from "./shown_url.ts";
import type { Clock } from "../clock.ts";
import { messageOf } from "../error.ts";
import { Deduplicator } from "./dedup.ts";
import { formatLine } from "./line.ts";
import { type Fields, type LazyFields, type Level, LEVELS, type LogRecord, type Sink } from "./record.ts";

export type { Fields, LazyFields, Level, LogRecord, Sink } from "./record.ts";
export { LEVELS } from "./record.ts";

export { formatLine };

export interface LogRule {
  readonly pattern: string;
  readonly level: Level;
}

/** The parent of all loggers (published name). */
const ROOT = "rdk";

const NO_FIELDS: Fields = {};

/** Reads a level as users write it: any case, and `warning` for `warn`. */
export function parseLevel(text: string): Level | undefined {
  const lower = text.toLowerCase();
  const level = lower === "warning" ? "warn" : lower;
  return Object.hasOwn(LEVELS, level) ? level as Level : undefined;
}

/** Flags at the start of an expression in Go's syntax; for a whole name of one line only `i` makes a difference. */
const GO_FLAGS = /^\(\?([imsU]+)\)/;

/**
 * The expression of a rule's pattern, which matches whole names. Patterns of the published runtime, where `.` is a dot
 * and `*` any run of characters, keep their meaning. Throws `SyntaxError`, which shows the expression, for a pattern
 * that is neither.
 */
export function logPattern(pattern: string): RegExp {
  const flags = GO_FLAGS.exec(pattern);
  if (flags) {
    const [written, letters = ""] = flags;
    return new RegExp(logPattern(pattern.slice(written.length)), letters.includes("i") ? "i" : "");
  }
  const published = pattern.replaceAll(".", "\\.").replace(/\*+/g, ".*");
  // Each reading must be valid by itself, so that no stray bracket can leave the anchors behind.
  new RegExp(published);
  return new RegExp(`^(?:${isExpression(pattern) ? `${pattern}|` : ""}${published})$`);
}

function isExpression(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}

/** Addresses in fields are shown as in messages. */
function shownFields(fields: Fields): Fields {
  const isAddress = (value: unknown) => typeof value === "string" && value.includes("://");
  if (!Object.values(fields).some(isAddress)) return fields;
  return Object.fromEntries(
    Object.entries(fields).map((
      [name, value],
    ) => [name, typeof value === "string" ? shownUrlsIn(value) : value]),
  );
}

export class Logs {
  readonly #loggers = new Map<string, Logger>();
  readonly #deduplicator: Deduplicator;
  readonly #everyLineOf: readonly RegExp[];
  #rules: readonly { matches: RegExp; level: Level }[] = [];
  #debug = false;
  #deduplicate = true;

  /** `everyLineOf`: patterns of the loggers whose repeated lines are all written. */
  constructor(
    private readonly clock: Clock,
    private readonly sinks: Sink[],
    { everyLineOf = [] }: { everyLineOf?: readonly string[] } = {},
  ) {
    this.#everyLineOf = everyLineOf.map(logPattern);
    this.#deduplicator = new Deduplicator(clock, (record) => this.#emit(record));
  }

  /** `aliases`: other names by which patterns may match this logger. Only the first call for a name sets them. */
  logger(name: string, aliases: readonly string[] = []): Logger {
    let logger = this.#loggers.get(name);
    if (!logger) {
      logger = new Logger(name, this, aliases);
      this.#applyRules(logger);
      this.#loggers.set(name, logger);
    }
    return logger;
  }

  /** Replaces the rules. Returns the problems of the patterns that it skipped. */
  configure(rules: readonly LogRule[], debug: boolean, deduplicate = true): string[] {
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

    const changed = this.#deduplicate !== deduplicate;
    this.#deduplicate = deduplicate;
    for (const logger of this.#loggers.values()) this.#applyRules(logger);

    if (changed) {
      this.flush();
      this.logger(ROOT).info(`Noisy log deduplication is now ${deduplicate ? "enabled" : "disabled"}`);
    }

    return problems;
  }

  /** The patterns that have matched no logger so far. */
  unmatched(patterns: readonly string[]): string[] {
    const names = [...this.#loggers.values()].flatMap(({ name, aliases }) => [name, ...aliases]);
    return patterns.filter((pattern) => {
      const matches = logPattern(pattern);
      return !names.some((name) => matches.test(name));
    });
  }

  /** Writes regardless of the rules: for records that another process has already filtered. Holds repeats back. */
  write(level: Level, logger: string, message: string, fields: Fields, caller?: string): void {
    if (this.sinks.length === 0) return;
    const place = caller === undefined ? undefined : { caller };
    const record = {
      ...{ timeMs: this.clock.nowMs(), level, logger, ...place },
      message: shownUrlsIn(message),
      fields: shownFields(fields),
    };
    // Names from other processes have no logger here, and need none.
    if (this.#loggers.get(logger)?.deduplicated ?? this.#deduplicates(logger)) {
      this.#deduplicator.write(record);
    } else {
      this.#deduplicator.expire();
      this.#emit(record);
    }
  }

  addSink(sink: Sink): void {
    this.sinks.push(sink);
  }

  /** Writes the summaries of held back repeats: call it before the end. */
  flush(): void {
    this.#deduplicator.flush();
  }

  #emit(record: LogRecord): void {
    for (const sink of this.sinks) sink(record);
  }

  #levelOf({ name, aliases }: Logger): Level {
    if (this.#debug) return "debug";
    const names = [name, ...aliases];
    return this.#rules.findLast((rule) => names.some((one) => rule.matches.test(one)))?.level ?? "info";
  }

  #applyRules(logger: Logger): void {
    logger.threshold = LEVELS[this.#levelOf(logger)];
    logger.deduplicated = this.#deduplicates(logger.name);
  }

  #deduplicates(name: string): boolean {
    return this.#deduplicate && !this.#everyLineOf.some((pattern) => pattern.test(name));
  }
}

/** Writes entries under one name. Levels are per name, and may change at any time. */
export class Logger {
  /** The lowest level to log, as an index of `LEVELS`; set by `Logs`. */
  threshold: number = LEVELS.info;
  /** Whether repeated lines are held back; set by `Logs`. */
  deduplicated = true;

  /** Made by `Logs.logger` or `child`. */
  constructor(readonly name: string, private readonly logs: Logs, readonly aliases: readonly string[] = []) {}

  /** A logger whose name is this one's, a dot, and `name`. */
  child(name: string): Logger {
    return this.logs.logger(`${this.name}.${name}`);
  }

  /** For who looks for a fault. `fields` may be a function, called only if the entry is written. */
  debug(message: string, fields: LazyFields = NO_FIELDS): void {
    if (this.threshold <= LEVELS.debug) this.#write("debug", message, fields);
  }

  /** What happens in the ordinary course. `fields` may be a function. */
  info(message: string, fields: LazyFields = NO_FIELDS): void {
    if (this.threshold <= LEVELS.info) this.#write("info", message, fields);
  }

  /** What deserves a look. `fields` may be a function. */
  warn(message: string, fields: LazyFields = NO_FIELDS): void {
    if (this.threshold <= LEVELS.warn) this.#write("warn", message, fields);
  }

  /** What does not work. `fields` may be a function. */
  error(message: string, fields: LazyFields = NO_FIELDS): void {
    if (this.threshold <= LEVELS.error) this.#write("error", message, fields);
  }

  /** Writes at `level` regardless of the rules: for records that another process has already filtered. */
  unconditionally(level: Level, message: string, fields: LazyFields = NO_FIELDS): void {
    this.#write(level, message, fields);
  }

  #write(level: Level, message: string, fields: LazyFields): void {
    this.logs.write(level, this.name, message, typeof fields === "function" ? built(fields) : fields);
  }
}

/** Fields that cannot be made must not stop the action that logs them. */
function built(fields: () => Fields): Fields {
  try {
    return fields();
  } catch (error) {
    return { fields: `cannot be built: ${messageOf(error)}` };
  }
}

/** Standard output may stall for this long before lines are lost: less than what a client's session waits. */
const PATIENCE_MS = 500;
/** A text of so many characters is written at once where there is room for anything. */
const SHORT_CHARS = 1000;

/** Standard output that tells whether its reader stalls. */
export interface PatientOutput {
  /** Whether there is room for a chunk, now or within `patienceMs`. */
  hasRoom(patienceMs: number): boolean;
  /** Writes all of `text` as long as the reader stalls for less than `patienceMs`. Whether it was written in full. */
  write(text: string, patienceMs: number): boolean;
}

/** How `consoleSink` writes. */
export interface ConsoleOptions {
  readonly coloured?: boolean;
  /** Gets the first problem in a row. */
  readonly report?: (message: string) => void;
  /** Tells whether the output stalls; absent, a stall blocks. */
  readonly output?: PatientOutput;
}

/**
 * Writes lines to standard output. A line that it does not take, as on a full disk or because its reader stalls, is lost
 * and stops nobody; `report` is called with the first one that fails, and a later line counts those lost in a stall.
 */
export function consoleSink({ coloured = false, report = () => {}, output }: ConsoleOptions = {}): Sink {
  let losing = false, lost = 0;
  const print = (text: string, patienceMs: number) => {
    if (output && text.length > SHORT_CHARS) return output.write(`${text}\n`, patienceMs);
    if (output?.hasRoom(patienceMs) === false) return false;
    console.log(text);
    return true;
  };
  return (record) => {
    const note = lost === 0 ? "" : `\n… ${lost} lines are lost here: nobody read this output\n`;
    try {
      const isWritten = print(`${note}${formatLine(record, coloured)}`, lost === 0 ? PATIENCE_MS : 0);
      lost = isWritten ? 0 : lost + 1;
      losing = false;
    } catch (error) {
      if (!losing) report(`standard output takes no log lines, they are lost: ${messageOf(error)}`);
      losing = true;
    }
  };
}

/** Keeps records in memory: for tests, and for records before there is a sink. */
export function memorySink(records: LogRecord[]): Sink {
  return (record) => void records.push(record);
}

/** Discards all records. */
export function silentLogs(clock: Clock): Logs {
  return new Logs(clock, []);
}
