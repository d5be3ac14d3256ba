/**
 * JSONC: JSON with comments and trailing commas. Errors name the position and the text found there.
 *
 * The reader is bounded: it refuses files and nestings past its limits, so that later steps need no check. It also
 * substitutes shell-style variables if it is given any: inside texts, and as whole values such as numbers.
 */

import { messageOf, SvcError } from "../error.ts";
import { escapedBlanks } from "../escape.ts";
import type { Json, JsonObject, Problem } from "./schema.ts";
import { suggest } from "./suggest.ts";

/** Limit of nested objects and arrays. */
export const JSON_DEPTH_MAX = 100;

/** Limit of all objects, arrays, texts and numbers of a document. */
export const JSON_VALUES_MAX = 500_000;

const WARNINGS_MAX = 100;

export interface JsoncOptions {
  /** The name of the text in errors. */
  readonly file: string;
  /** The value of a variable. Without this function, `$` is an ordinary character. */
  readonly variable?: (name: string) => string | undefined;
  /**
   * Reads what the published runtime reads: ignores what stands behind the value, and takes bytes that are no UTF-8 as
   * "\ufffd". Both are warnings.
   */
  readonly tolerant?: boolean;
  /** Receives warnings: duplicate keys, unset variables. */
  readonly problems?: Problem[];
  /** Receives where each value stands, by its path as in problems: `components.0.name`; `""` for the whole. */
  readonly spans?: Map<string, TextSpan>;
  /** Receives where each comment stands. */
  readonly comments?: TextSpan[];
}

/** A part of a text, in UTF-16 units; `to` is behind its end. */
export interface TextSpan {
  readonly from: number;
  readonly to: number;
}

/** The position of an error of `parseJsonc` in its text, from its message; `undefined` if it has none. */
export function positionInText(message: string, file: string, text: string): number | undefined {
  const [, line, column] =
    /^:(\d+):(\d+): /.exec(message.startsWith(file) ? message.slice(file.length) : "") ?? [];
  if (line === undefined) return undefined;

  let start = 0;
  for (let at = 1; at < Number(line); at++) start = text.indexOf("\n", start) + 1;
  return Math.min(text.length, start + Number(column) - 1);
}

/** Reads UTF-8 text. Throws `invalid_argument` with `<file>:<line>:<column>: found …, wanted …`. */
export function parseJsonc(bytes: Uint8Array, options: JsoncOptions): Json {
  return new Reader(decodeText(bytes, options), options).document();
}

function decodeText(bytes: Uint8Array, { file, tolerant, problems }: JsoncOptions): string {
  const refuse = (message: string) => new SvcError("invalid_argument", `${file}: ${message}`);
  const [a, b, c, d] = bytes;
  const marked = (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
  if (marked || (a === 0 && c === 0 && b && d) || (b === 0 && d === 0 && a && c)) {
    throw refuse("found UTF-16 text, wanted UTF-8");
  }

  // The decoder drops a byte order mark.
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    return decoder.decode(bytes);
  } catch {
    const found = `found bytes that are not UTF-8 text in line ${badLine(bytes)}`;
    if (!tolerant) throw refuse(`${found}, wanted UTF-8`);
    problems?.push({ severity: "warning", path: "", message: `${found}, read as "\ufffd"; wanted UTF-8` });
    return new TextDecoder().decode(bytes);
  }
}

function badLine(bytes: Uint8Array): number {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let line = 1, start = 0;; line++) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline < 0 ? bytes.length : newline;
    try {
      decoder.decode(bytes.subarray(start, end));
    } catch {
      return line;
    }
    if (newline < 0) return line;
    start = end + 1;
  }
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const WORD = /[\w$.+-]+/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const BLANK = /(?:[ \t\r\n]+|\/\/[^\r\n]*)/y;
const VARIABLE = /\$(?:\{([A-Za-z_]\w*)(?:(:?-)([^{}]*))?\}|([A-Za-z_]\w*))/g;
const VARIABLE_HERE = new RegExp(VARIABLE, "y");
const LITERALS: ReadonlyMap<string, Json> = new Map<string, Json>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

class Reader {
  #at = 0;
  #values = 0;
  readonly #path: (string | number)[] = [];

  constructor(private readonly source: string, private readonly options: JsoncOptions) {}

  document(): Json {
    this.#skip();
    if (this.#at === this.source.length) {
      throw new SvcError("invalid_argument", `${this.options.file}: the file is empty, wanted JSON`);
    }
    const value = this.#value();
    try {
      this.#skip();
      if (this.#at < this.source.length) throw this.#found("the end of the file");
    } catch (error) {
      if (!this.options.tolerant) throw error;
      this.#warn(`${messageOf(error).slice(this.options.file.length + 1)}; this and what follows is ignored`);
    }
    return value;
  }

  #value(): Json {
    const from = this.#at;
    const value = this.#anyValue();
    this.options.spans?.set(this.#path.join("."), { from, to: this.#at });
    return value;
  }

  #anyValue(): Json {
    if (++this.#values > JSON_VALUES_MAX) throw this.#fail(`more than ${JSON_VALUES_MAX} values`);
    switch (this.source[this.#at]) {
      case "{":
        return this.#object();
      case "[":
        return this.#array();
      case '"':
        return this.#filled(this.#text());
      case "$":
        if (this.options.variable) return this.#variable(this.options.variable);
    }

    const start = this.#at;
    const word = this.#match(WORD)?.[0] ?? "";
    const value = NUMBER.test(word) ? Number(word) : LITERALS.get(word);
    if (value === undefined) {
      const likely = suggest(word, LITERALS.keys());
      throw this.#found(likely ? `a value; did you mean ${likely}?` : "a value", start);
    }
    if (Math.abs(Number(value)) === Infinity) throw this.#found("a number up to 1.8e308", start);

    return value;
  }

  #object(): Json {
    const object: JsonObject = {};
    this.#items("}", () => {
      if (this.source[this.#at] !== '"') throw this.#found('a key in double quotes or "}"');
      const key = this.#text();
      this.#skip();
      if (this.source[this.#at] !== ":") throw this.#found('":" after the key');

      this.#at++;
      this.#skip();
      this.#path.push(key);
      if (Object.hasOwn(object, key)) {
        this.#warn("written more than once, the last one counts");
      }
      const value = this.#value();
      this.#path.pop();

      // An assignment would set the prototype.
      if (key === "__proto__") {
        Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
      } else object[key] = value;
    });
    return object;
  }

  #array(): Json {
    const array: Json[] = [];
    this.#items("]", () => {
      this.#path.push(array.length);
      array.push(this.#value());
      this.#path.pop();
    });
    return array;
  }

  /** Reads from an opening bracket to `close`, and calls `item` at the start of each item. */
  #items(close: string, item: () => void): void {
    const open = this.#at++;
    if (this.#path.length >= JSON_DEPTH_MAX) {
      throw this.#fail(`nested deeper than ${JSON_DEPTH_MAX} levels`, open);
    }

    for (;;) {
      this.#skip();
      if (this.source[this.#at] === close) break;
      if (this.#at === this.source.length) throw this.#unclosed(close, open);
      item();
      this.#skip();
      if (this.source[this.#at] === ",") this.#at++;
      else if (this.#at === this.source.length) throw this.#unclosed(close, open);
      else if (this.source[this.#at] !== close) throw this.#found(`"," or "${close}"`);
    }

    this.#at++;
  }

  #text(): string {
    const start = this.#at++;
    let escaped = false;
    for (;;) {
      const code = this.source.charCodeAt(this.#at);
      if (code === 0x22) break;
      if (Number.isNaN(code) || code === 0x0a || code === 0x0d) {
        throw this.#fail('found the end of the line in a text, wanted a closing "', start);
      }
      if (code < 0x20) throw this.#found("it written with a backslash");
      if (code !== 0x5c) this.#at++;
      else if (this.#match(ESCAPE)) escaped = true;
      else {throw this.#fail(
          `found ${quoted(this.source.slice(this.#at, this.#at + 2))}, wanted \\\\ for a backslash`,
        );}
    }

    const written = this.source.slice(start, ++this.#at);
    return escaped ? JSON.parse(written) : written.slice(1, -1);
  }

  /** A text with its variables substituted; an unset variable stays as it is written. */
  #filled(text: string): string {
    const { variable } = this.options;
    if (!variable || !text.includes("$")) return text;
    return text.replace(VARIABLE, (written, braced, kind, fallback, bare) => {
      const value = valueOf(variable, braced ?? bare, kind, fallback);
      if (value === undefined && braced !== undefined) {
        this.#warn(`environment variable ${braced} is not set, ${written} is left as it is`);
      }
      return value ?? written;
    });
  }

  /** A variable as a whole value: a number, true, false or null. */
  #variable(variable: (name: string) => string | undefined): Json {
    const start = this.#at;
    const found = this.#match(VARIABLE_HERE);
    if (!found) throw this.#found("a value; a placeholder needs quotes", start);
    const [written, braced, kind, fallback, bare = ""] = found;
    const text = valueOf(variable, braced ?? bare, kind, fallback)?.trim();
    if (text === undefined) throw this.#fail(`environment variable ${braced ?? bare} is not set`, start);
    const value = NUMBER.test(text) ? Number(text) : LITERALS.get(text);
    if (value !== undefined) return value;
    // The message does not show the text: it may be a secret.
    throw this.#fail(
      `${written} is not a number, true, false or null; a text needs quotes: "${written}"`,
      start,
    );
  }

  #skip(): void {
    for (;;) {
      const from = this.#at;
      if (this.#match(BLANK)) {
        if (this.source[from] === "/") this.options.comments?.push({ from, to: this.#at });
        continue;
      }
      if (!this.source.startsWith("/*", this.#at)) return;
      const end = this.source.indexOf("*/", this.#at + 2);
      if (end < 0) throw this.#fail('found a comment without its closing "*/"');
      this.#at = end + 2;
      this.options.comments?.push({ from, to: this.#at });
    }
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.source);
    this.#at += found?.[0].length ?? 0;
    return found;
  }

  #warn(message: string): void {
    if (this.options.problems && this.options.problems.length >= WARNINGS_MAX) return;
    this.options.problems?.push({ severity: "warning", path: this.#path.join("."), message });
  }

  #found(wanted: string, at = this.#at): SvcError {
    WORD.lastIndex = at;
    const word = WORD.exec(this.source)?.[0] ?? this.source.slice(at, at + 1);
    const found = at >= this.source.length ? "the end of the file" : quoted(word);
    return this.#fail(`found ${found}, wanted ${wanted}`, at);
  }

  #unclosed(close: string, open: number): SvcError {
    const opened = `for the "${this.source[open]}" at ${this.#where(open)}`;
    return this.#found(`a closing "${close}" ${opened}`);
  }

  #fail(message: string, at = this.#at): SvcError {
    return new SvcError(
      "invalid_argument",
      `${this.options.file}:${this.#where(at)}: ${escapedBlanks(message)}`,
    );
  }

  /** `line:column`, both from 1. */
  #where(at: number): string {
    const before = this.source.slice(0, at);
    const line = before.split("\n").length;
    return `${line}:${at - before.lastIndexOf("\n")}`;
  }
}

/** As in a shell: the fallback after "-" replaces an unset variable, after ":-" an empty one too. */
function valueOf(
  variable: (name: string) => string | undefined,
  name: string,
  kind?: string,
  fallback?: string,
) {
  const value = variable(name);
  return kind === ":-" ? value || fallback : value ?? fallback;
}

const LONGEST_SHOWN = 24;

function quoted(text: string): string {
  if (text === "\0") return "a NUL character";
  const shown = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  return shown === '"' || shown === "'" ? `a ${shown}` : JSON.stringify(shown);
}
