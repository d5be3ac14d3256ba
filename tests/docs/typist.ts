/**
 * A typist: types the commands of README and docs in their order, in a clean folder with a clean home, and keeps the
 * screens, as a terminal of 80 columns shows them.
 *
 * Whatever differs from run to run (ids, keys, times, ports, folders) is written as signs of the same width, so that
 * screens can be compared.
 */

import { keptCode, makePrograms } from "../support/from_source.ts";
import { type Block, blockWith, commandsOf, ROOT } from "./pages.ts";

export const SCREEN_COLUMNS = 80;
/** Nothing that is typed takes longer. */
const LIMIT_MS = 240_000;

/** What the typist does with a command of a block. */
export interface Typing {
  /** Typed in its place: with the names of this day in place of the page's placeholders. */
  readonly as?: string;
  /** The command goes on: it is interrupted (Ctrl-C) when its output has this text. */
  readonly until?: string;
  /** The command goes on while the day lasts: the screen shows it up to this text. */
  readonly stays?: string;
  /** Why it is not typed. */
  readonly skip?: string;
  /** Why its output is not kept. */
  readonly quiet?: string;
}

/** How to type commands, by their beginnings; the first that fits counts. Others are typed as they stand. */
export type Typings = Readonly<Record<string, Typing>>;

export class Typist {
  readonly #running: Deno.ChildProcess[] = [];
  readonly #reading: Promise<void>[] = [];
  readonly #masks: Array<readonly [text: string, mask: string]> = [];
  readonly #env: Record<string, string>;
  #screen = "";
  #place = "";

  private constructor(readonly folder: string, readonly outside: string, env: Record<string, string>) {
    this.#env = env;
  }

  /** Gives a typist a folder and a home that are empty; returns the screens of what `types` does. */
  static async day(types: (typist: Typist) => Promise<void>): Promise<string> {
    // The folder's path has the same width in every run, so that no table is cut elsewhere.
    const outside = await Deno.makeTempDir({ prefix: "svc-day-" });
    const [folder, home, bin] = ["work", "home", "bin"].map((name) => `${outside}/${name}`);
    for (const one of [folder, home]) await Deno.mkdir(one);
    await makePrograms(bin);
    const typist = new Typist(folder, outside, {
      PATH: `${bin}:${Deno.env.get("PATH")}`,
      HOME: home,
      USER: "ann",
      ...keptCode(),
      DENO_TLS_CA_STORE: Deno.env.get("DENO_TLS_CA_STORE") ?? "mozilla",
      NO_COLOR: "1",
      COLUMNS: String(SCREEN_COLUMNS),
    });
    try {
      await types(typist);
    } catch (error) {
      throw new Error(`${error instanceof Error ? error.message : error}\n${typist.screens}`, {
        cause: error,
      });
    } finally {
      await typist.#end();
      await Deno.remove(outside, { recursive: true });
    }
    return typist.screens;
  }

  /** Everything that the terminal has shown so far. */
  get screens(): string {
    return this.#screen;
  }

  /** The folder in which commands run. */
  get place(): string {
    return `${this.folder}/${this.#place}`;
  }

  variable(name: string): string {
    return this.#env[name];
  }

  /** Runs a program that a page has told to save. */
  async runs(command: string): Promise<string> {
    return await this.#type(command, {}, "README.md");
  }

  /** Sets a variable, as `export` does. */
  export(name: string, value: string): void {
    this.#env[name] = value;
  }

  /** Goes on in a folder of the day's, or in `..`, which is the day's own. */
  enter(folder: string): void {
    this.#place = folder === ".." ? "" : folder;
    this.#screen += `$ cd ${folder}\n\n`;
  }

  /** The output of a program that a test has run in another way. */
  shows(command: string, output: string): void {
    this.#screen += `$ ${command}\n${this.#shown(output)}\n`;
  }

  /** Text that differs from run to run. */
  mask(text: string, sign = "x"): void {
    this.#masks.push([text, sign.repeat(text.length)]);
  }

  /** Saves the block of a page with `words` as a file. */
  async saves(page: string, words: string, file: string, change = (text: string) => text): Promise<void> {
    const { text } = await blockWith(page, words);
    await Deno.writeTextFile(`${this.folder}/${file}`, change(text));
    this.#screen += `# ${file}: as ${page} has it\n\n`;
  }

  /** Types the shell block of a page with `words`. */
  async types(page: string, words: string, typings: Typings = {}): Promise<string> {
    const block = await blockWith(page, words);
    const commands = commandsOf(block);
    for (const begin of Object.keys(typings)) {
      if (!commands.some((command) => command.startsWith(begin))) {
        throw new Error(`${placeOf(block)} has no command "${begin}"`);
      }
    }
    let all = "";
    for (const command of commands) {
      const [, typing] = Object.entries(typings).find(([begin]) => command.startsWith(begin)) ?? [, {}];
      if (typing.skip === undefined) all += await this.#type(command, typing, placeOf(block));
    }
    return all;
  }

  /** Types a command that stands within the text of a page. */
  async typesWithin(page: string, command: string, typing: Typing = {}): Promise<string> {
    const text = (await Deno.readTextFile(ROOT + page)).replace(/\s+/g, " ");
    if (!text.includes(`\`${command}\``)) throw new Error(`${page} has no \`${command}\``);
    return await this.#type(command, typing, page);
  }

  async #type(command: string, typing: Typing, place: string): Promise<string> {
    const typed = typing.as ?? command;
    this.#screen += `$ ${typed}\n`;
    const [, variable, inner = typed] = CAPTURE.exec(typed) ?? [];
    const wanted = typing.until ?? typing.stays;
    const { output, code, isShown } = await this.#run(inner, typing, variable !== undefined);
    const isWell = wanted === undefined ? code === 0 : isShown;
    if (!isWell) throw new Error(`${place}: ${typed} ended with ${code}:\n${output}`);
    if (variable !== undefined) this.export(variable, output.trim());
    const isKept = variable === undefined && typing.quiet === undefined;
    this.#screen += isKept ? `${this.#shown(wanted === undefined ? output : upTo(output, wanted))}\n` : "\n";
    return output;
  }

  /** Runs a command until it ends, or shows the text that is wanted. Remarks are left out of captured output. */
  async #run(command: string, { until, stays }: Typing, isCaptured: boolean) {
    const wanted = until ?? stays;
    const errors = isCaptured ? "/dev/null" : "&1";
    const child = new Deno.Command("bash", {
      args: ["-uo", "pipefail", "-c", `exec 2>${errors}; ${wanted === undefined ? "" : "exec "}${command}`],
      cwd: this.place,
      env: this.#env,
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
    }).spawn();
    const shown = Promise.withResolvers<boolean>();
    let output = "";
    const reading = (async () => {
      for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
        output += piece;
        if (wanted !== undefined && output.includes(wanted)) shown.resolve(true);
      }
      shown.resolve(false);
    })();
    const late = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
    const isShown = await shown.promise;
    clearTimeout(late);
    if (isShown && stays !== undefined) {
      this.#running.push(child);
      this.#reading.push(reading);
      return { output, code: 0, isShown };
    }
    if (isShown) child.kill("SIGINT");
    await reading;
    const { code } = await child.status;
    return { output, code, isShown };
  }

  #shown(output: string): string {
    for (const [, id, key] of output.matchAll(LEARNT)) this.mask(id ?? key);
    const own = this.#masks.reduce((text, [from, to]) => text.replaceAll(from, to), output);
    const masked = MASKS.reduce(
      (text, [pattern, mask]) => text.replaceAll(pattern, mask as (text: string) => string),
      own.replaceAll(this.folder, "~").replaceAll(`${this.outside}/home`, "/home/ann"),
    );
    const lines = masked.split("\n").filter((line) => !CHANCE.some((pattern) => pattern.test(line)));
    return lines.join("\n").trimEnd() + "\n";
  }

  async #end(): Promise<void> {
    for (const child of this.#running.toReversed()) {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended.
      }
      await child.status;
    }
    await Promise.all(this.#reading);
  }
}

/** Ids of locations and keys, where they are shown first. */
const LEARNT = /^(?:location +)?([a-z0-9]{10})$|SVC_API_KEY=(\S+)/gm;
/** `id=$(svc-ml submit …)` */
const CAPTURE = /^(\w+)=\$\((.*)\)$/;

const zeros = (text: string) => text.replaceAll(/\d/g, "0");
const signs = (text: string) => text.replaceAll(/[0-9a-zA-Z_]/g, "x");
const hidden = (text: string) => "x".repeat(text.length);

/** What differs from run to run, wherever it is. */
const MASKS: readonly (readonly [RegExp, (text: string) => string])[] = [
  [/\b[0-9a-f]{64}\b/g, signs],
  [/\b[0-9a-f]{8}-[0-9a-f]{1,4}(?:-[0-9a-f]{1,12}){0,3}(?![0-9a-z])/g, signs],
  [/\b(?=[a-f]*\d)[0-9a-f]{8}(?=…|\b)/g, signs],
  [/(?<="key": ")[\w-]{32}(?=")/g, hidden],
  [/(?<=\bkey:? +)[\w-]{32}$/gm, hidden],
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{3}Z)?/g, zeros],
  [/(?<=\b(?:127\.0\.0\.1|localhost):)\d+/g, () => "PORT"],
  [/\b(?=[a-f]*\d)[0-9a-f]{12}\b/g, signs],
  [/(?<="pid":)\d+/g, () => "0"],
  [/\b\d\d:\d\d:\d\d\b/g, zeros],
  [/\b\d+\.\d ?s\b/g, zeros],
  [/(?<="position":)[\d.]+/g, () => "0"],
  [/\b\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z/g, zeros],
  [/\b\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}-[0-9a-f]{4}\b/g, signs],
  [/\b[\d.]+ [kMGT]?B\b/g, zeros],
];

/** Lines that are there in some runs only: progress, how busy the computer is, what its network can, Deno's own. */
const CHANCE: readonly RegExp[] = [
  /^\d+ of \d+ /,
  /svc-cloud answered nobody for a while/,
  /network checks: /,
  /creating an example: /,
  /models and pictures (are|cannot)/,
  / …$/,
  /\tviam\.rpc\.server /,
  /^[╭│╰]/,
  /^Download /,
];

function upTo(output: string, words: string): string {
  const end = output.indexOf("\n", output.indexOf(words));
  return output.slice(0, end < 0 ? undefined : end);
}

function placeOf({ page, line }: Block): string {
  return `${page}:${line}`;
}
