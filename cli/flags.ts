/**
 * Command lines from a table: one row per flag gives its parsing, its type and its help text.
 *
 * Two styles exist. `go` is the style of Go's flag package: single or double dash, `-x=v` or `-x v`; the first other
 * word ends the flags. `gnu` has `--x=v` or `--x v`, `--no-x`, clusters of short letters, and words between the flags.
 * Parsing never throws: it returns all problems as a list. A repeated flag has its last value, or all values if it is a
 * list. A value on the command line precedes one in the environment.
 */

import { SvcError } from "../lib/base/error.ts";
import { formatDuration, parseDurationMs } from "../lib/base/schema/schema.ts";
import { suggest } from "../lib/base/schema/suggest.ts";

export type Style = "go" | "gnu";

/** The value of a flag or of a word is none that the program takes; the exit code is that of a wrong command line. */
export class UsageError extends SvcError {
  constructor(message: string) {
    super("invalid_argument", message);
  }
}

interface FlagField<T extends string, D> {
  /** The text after the dashes. */
  readonly name: string;
  /** One letter, for `gnu` style only. */
  readonly short?: string;
  readonly type: T;
  readonly default: D;
  readonly help: string;
  /** Name of the value in the help text. */
  readonly value?: string;
  /** The environment variable that sets the flag if the command line does not. */
  readonly env?: string;
  /** An unusable value in the environment is warned about and does not count: for a service that has to start. */
  readonly unusableEnv?: "warn";
}

/** Durations are written in Go's syntax (`1m30s`); their default is in milliseconds. */
export type Flag =
  | FlagField<"bool", boolean>
  | FlagField<"string", string>
  | FlagField<"int", number>
  | FlagField<"list", readonly string[]>
  | FlagField<"duration", number>;

type Camel<N extends string> = N extends `${infer Head}-${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}`
  : N;
type Key<F extends Flag> = F["type"] extends "duration" ? `${Camel<F["name"]>}Ms` : Camel<F["name"]>;
type ValueOf<T> = T extends "bool" ? boolean
  : T extends "string" ? string
  : T extends "list" ? readonly string[]
  : number;

/** The values under camelCase names; those of durations end in `Ms`: `no-tls` is `noTls`, `wait` is `waitMs`. */
export type Values<T extends readonly Flag[]> = { [F in T[number] as Key<F>]: ValueOf<F["type"]> };

/** A problem in a command line; `suggestion` is the spelling of the flag that was likely meant. */
export interface FlagProblem {
  readonly message: string;
  readonly suggestion?: string;
}

export interface Parsed<T extends readonly Flag[]> {
  readonly values: Values<T>;
  /** The words that are neither flags nor their values. */
  readonly rest: readonly string[];
  /** Whether the command line asks for help. */
  readonly help: boolean;
  readonly problems: readonly FlagProblem[];
  /** Values of the environment that do not count. */
  readonly warnings: readonly FlagProblem[];
}

/** Parses `args`. `env` looks up environment variables; an empty one counts as not set. */
export function parseFlags<const T extends readonly Flag[]>(
  table: T,
  style: Style,
  args: readonly string[],
  env: (name: string) => string | undefined = () => undefined,
): Parsed<T> {
  const reader = new Reader(table, style, args);
  reader.readEnvironment(env);
  if (style === "go") reader.readGo();
  else reader.readGnu();
  const { values, rest, help, problems, warnings } = reader;
  return { values: Object.fromEntries(values) as Values<T>, rest, help, problems, warnings };
}

/**
 * How many of the first `args` are flags of `table` and their values, in `gnu` style: the position of the first other
 * word.
 */
export function leadingFlags(table: readonly Flag[], args: readonly string[]): number {
  return new Reader(table, "gnu", args).skipGnu();
}

/** A problem on one line: `Unknown flag -confg; did you mean -config?` */
export function describeProblem({ message, suggestion }: FlagProblem): string {
  return suggestion === undefined ? message : `${message}; did you mean ${suggestion}?`;
}

const BOOLEANS = new Map<string, boolean>([
  ...["1", "t", "T", "true", "TRUE", "True"].map((word) => [word, true] as const),
  ...["0", "f", "F", "false", "FALSE", "False"].map((word) => [word, false] as const),
]);

/** Of the environment, where people write what other programs take. */
const MORE_BOOLEANS = new Map<string, boolean>([
  ...["yes", "y", "on", "enabled"].map((word) => [word, true] as const),
  ...["no", "n", "off", "disabled"].map((word) => [word, false] as const),
]);

const WANTED = {
  bool: "true or false",
  string: "text",
  list: "text",
  int: "a whole number",
  duration: 'a duration such as "10s" or "1m30s"',
};

type Value = boolean | string | number | readonly string[];

/** The value of `text`, or `undefined` if the flag does not have such values. */
function decode(flag: Flag, text: string): Value | undefined {
  switch (flag.type) {
    case "bool":
      return BOOLEANS.get(text);
    case "string":
      // The empty path of an unset variable would mean the working folder.
      return text === "" && flag.default !== "" && isPath(flag) ? undefined : text;
    case "list":
      return [text];
    case "int":
      return /^[+-]?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
    case "duration":
      return parseDurationMs(text);
  }
}

function isPath({ value }: Flag): boolean {
  return value === "FILE" || value === "FOLDER";
}

/** What a flag takes, as an error names it. */
function wantedBy(flag: Flag): string {
  return flag.type === "string" || flag.type === "list" ? flag.value ?? WANTED[flag.type] : WANTED[flag.type];
}

function isFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-";
}

/** The name of a flag's value among `Values`. */
export function valueKeyOf(flag: Flag): string {
  const camel = flag.name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return flag.type === "duration" ? `${camel}Ms` : camel;
}

/** One pass over one command line. */
class Reader {
  readonly values = new Map<string, Value>();
  readonly rest: string[] = [];
  readonly problems: FlagProblem[] = [];
  readonly warnings: FlagProblem[] = [];
  help = false;

  readonly #table: readonly Flag[];
  readonly #args: readonly string[];
  readonly #dashes: string;
  /** Lists with a value from the command line. */
  readonly #lists = new Set<Flag>();
  #next = 0;

  constructor(table: readonly Flag[], style: Style, args: readonly string[]) {
    this.#table = table;
    this.#args = args;
    this.#dashes = style === "go" ? "-" : "--";
    for (const flag of table) this.values.set(valueKeyOf(flag), flag.default);
  }

  readEnvironment(env: (name: string) => string | undefined): void {
    for (const flag of this.#table) {
      const text = flag.env === undefined ? undefined : env(flag.env);
      if (text) this.#fromEnvironment(flag, text.trim());
    }
  }

  #fromEnvironment(flag: Flag, text: string): void {
    const word = flag.type === "bool"
      ? String(MORE_BOOLEANS.get(text.toLowerCase()) ?? text.toLowerCase())
      : text;
    const value = decode(flag, word);
    if (value !== undefined) return void this.values.set(valueKeyOf(flag), value);
    const message = `Environment variable ${flag.env}: found ${JSON.stringify(text)}, wanted ${
      wantedBy(flag)
    }`;
    if (flag.unusableEnv) this.warnings.push({ message: `${message}; it does not count` });
    else this.problems.push({ message });
  }

  readGo(): void {
    for (let word = this.#word(); word?.startsWith("-") && word !== "-"; word = this.#word()) {
      this.#next++;
      if (word === "--") break;
      this.#long(word, word.replace(/^--?/, ""));
    }
    this.rest.push(...this.#args.slice(this.#next));
  }

  readGnu(): void {
    for (let word = this.#word(); word !== undefined; word = this.#word()) {
      this.#next++;
      if (word === "--") break;
      if (isFlag(word)) this.#gnu(word);
      else this.rest.push(word);
    }
    this.rest.push(...this.#args.slice(this.#next));
  }

  /** Reads flags up to the first other word; returns that word's position. */
  skipGnu(): number {
    for (let word = this.#word(); word !== undefined && isFlag(word); word = this.#word()) {
      this.#next++;
      if (word === "--") break;
      this.#gnu(word);
    }
    return Math.min(this.#next, this.#args.length);
  }

  /** The next word, if one is left. */
  #word(): string | undefined {
    return this.#args[this.#next];
  }

  #gnu(word: string): void {
    if (word.startsWith("--")) this.#long(word, word.slice(2));
    // A complete long name after one dash counts as that name, not as a cluster of letters.
    else if (this.#isLong(word.slice(1))) this.#long(word, word.slice(1));
    else this.#cluster(word);
  }

  #isLong(text: string): boolean {
    const [name = ""] = text.split("=", 1);
    return name.length > 1 && (name === "help" || this.#find(name) !== undefined);
  }

  #find(name: string): Flag | undefined {
    return this.#table.find((flag) => flag.name === name);
  }

  /** `text` is `word` without its dashes: `name` or `name=value`. */
  #long(word: string, text: string): void {
    const equals = text.indexOf("=");
    const name = equals < 0 ? text : text.slice(0, equals);
    const value = equals < 0 ? undefined : text.slice(equals + 1);
    if (name === "" || name.startsWith("-")) {
      this.problems.push({ message: `Malformed flag ${word}` });
      return;
    }
    const flag = this.#find(name);
    if (flag !== undefined) return this.#give(flag, `Flag ${this.#dashes}${name}`, value);
    const negated = this.#dashes === "--" && name.startsWith("no-") ? this.#find(name.slice(3)) : undefined;
    if (negated?.type === "bool" && value === undefined) this.values.set(valueKeyOf(negated), false);
    else if (this.#asksHelp(name)) {
      this.help = this.#decoded(HELP, value ?? "true", `Flag ${this.#dashes}${name}`) === true;
    } else this.#unknown(`${this.#dashes}${name}`, name);
  }

  /** `-abc`, `-c value`, `-cvalue` or `-c=value`: letters up to the first one that takes a value. */
  #cluster(word: string): void {
    for (let at = 1; at < word.length; at++) {
      const letter = word[at];
      const flag = this.#table.find((flag) => flag.short === letter);
      if (flag === undefined) {
        if (letter === "h") this.help = true;
        else return this.#unknown(word.length === 2 ? word : `-${letter} in ${word}`, word.slice(1));
        continue;
      }
      const tail = word.slice(at + 1);
      let attached: string | undefined;
      if (tail.startsWith("=")) attached = tail.slice(1);
      else if (flag.type !== "bool" && tail !== "") attached = tail;
      this.#give(flag, `Flag -${letter}`, attached);
      if (attached !== undefined || flag.type !== "bool") return;
    }
  }

  #asksHelp(name: string): boolean {
    return name === "help" || (name === "h" && this.#dashes === "-");
  }

  /**
   * Sets `flag` to `text`. Without a text, a bool becomes true and any other flag takes the next word, even one with
   * dashes.
   */
  #give(flag: Flag, where: string, text: string | undefined): void {
    const taken = text ?? (flag.type === "bool" ? "true" : this.#args[this.#next++]);
    if (taken === undefined) this.problems.push({ message: `${where} needs a value: ${wantedBy(flag)}` });
    else if (flag.type !== "list" || !this.#lists.has(flag)) {
      this.#lists.add(flag);
      this.#set(flag, taken, where);
    } else {this.values.set(valueKeyOf(flag), [
        ...this.values.get(valueKeyOf(flag)) as readonly string[],
        taken,
      ]);}
  }

  #set(flag: Flag, text: string, where: string): void {
    const value = this.#decoded(flag, text, where);
    if (value !== undefined) this.values.set(valueKeyOf(flag), value);
  }

  #decoded(flag: Flag, text: string, where: string): Value | undefined {
    const value = decode(flag, text);
    if (value === undefined) {
      this.problems.push({ message: `${where}: found ${JSON.stringify(text)}, wanted ${wantedBy(flag)}` });
    }
    return value;
  }

  #unknown(written: string, name: string): void {
    const near = suggest(name, [...this.#table.map((flag) => flag.name), "help"]);
    const message = `Unknown flag ${written}`;
    if (near === undefined) this.problems.push({ message: `${message}; see ${this.#dashes}help` });
    // `-no-tls` is a flag, `-no-webrtc` is none.
    else if (this.#dashes === "-" && name === `no-${near}` && this.#find(near)?.type === "bool") {
      this.problems.push({ message, suggestion: `-${near}=false` });
    } else this.problems.push({ message, suggestion: `${this.#dashes}${near}` });
  }
}

const WIDTH = 80;
const LEFT_LIMIT = 28;

const HELP: Flag = {
  name: "help",
  short: "h",
  type: "bool",
  default: false,
  help: "Print this help and exit.",
};

/** The flags' rows of the help text, including the row of help itself. */
export function describeFlags(table: readonly Flag[], style: Style): string {
  return columns([...table, HELP].map((flag) => ({ left: leftOf(flag, style), right: rightOf(flag) })));
}

/** Names beside their descriptions, at most 80 columns wide if the words allow it. */
export function columns(rows: readonly { left: string; right: string }[]): string {
  const left = Math.min(LEFT_LIMIT, Math.max(0, ...rows.map((row) => row.left.length)));
  const indent = " ".repeat(left + 4);
  const lines = rows.flatMap((row) => {
    const [first = "", ...more] = wrap(row.right, WIDTH - indent.length);
    const head = row.left.length > left
      ? [`  ${row.left}`, indent + first]
      : [`  ${row.left.padEnd(left)}  ${first}`];
    return [...head, ...more.map((line) => indent + line)];
  });
  return lines.map((line) => line.trimEnd() + "\n").join("");
}

/** `text` as lines of at most `width` letters, broken between words. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/).filter((word) => word !== "")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    line += line === "" ? word : ` ${word}`;
  }
  return line === "" ? lines : [...lines, line];
}

/** The name of a flag's value in the help text; empty for a bool, which has none. */
export function placeholderOf({ value, type }: Flag): string {
  return value ?? { bool: "", string: "TEXT", list: "TEXT", int: "N", duration: "DURATION" }[type];
}

function leftOf(flag: Flag, style: Style): string {
  const gnu = flag.short === undefined ? "    --" : `-${flag.short}, --`;
  const short = style === "go" ? "-" : gnu;
  const placeholder = placeholderOf(flag);
  return placeholder === "" ? `${short}${flag.name}` : `${short}${flag.name} ${placeholder}`;
}

function rightOf(flag: Flag): string {
  const notes: string[] = [];
  if (flag.type === "list") notes.push("may be repeated");
  else if (flag.type === "bool" ? flag.default : flag.default !== "" && flag.default !== 0) {
    notes.push(`default ${flag.type === "duration" ? formatDuration(flag.default) : flag.default}`);
  }
  if (flag.env !== undefined) notes.push(`env ${flag.env}`);
  return notes.length === 0 ? flag.help : `${flag.help} (${notes.join("; ")})`;
}

/** A count that may not be 0. */
export function atLeastOne(value: number, flag: string): number {
  if (value >= 1) return value;
  throw new UsageError(`${flag}: found ${value}, wanted 1 or more`);
}

const TIME = /^(?<day>\d{4}-\d\d-\d\d)([T ](?<clock>\d\d:\d\d(:\d\d(\.\d+)?)?)(?<zone>Z|[+-]\d\d:\d\d)?)?$/;

/**
 * A length of time before `nowMs`, or a time: `10m`, `2024-01-02T03:04:05Z`. Without a zone it is in UTC, as all times
 * that the programs print.
 */
export function sinceMs(flag: string, text: string, nowMs: number): number {
  const ago = parseDurationMs(text);
  const { day, clock = "00:00", zone = "Z" } = TIME.exec(text)?.groups ?? {};
  const at = ago === undefined ? timeOn(day, clock, zone) : nowMs - ago;
  if (Number.isFinite(at) && !(ago !== undefined && ago < 0)) return at;
  const wanted = "a length of time such as 10m, or a time such as 2024-01-02T03:04:05Z";
  throw new UsageError(`--${flag}: found "${text}", wanted ${wanted}`);
}

/** NaN for a day that the month has not: `Date.parse` takes 31 February for 2 March. */
function timeOn(day = "", clock: string, zone: string): number {
  const midnight = Date.parse(day);
  const isReal = Number.isFinite(midnight) && new Date(midnight).toISOString().startsWith(day);
  return isReal ? Date.parse(`${day}T${clock}${zone}`) : NaN;
}
