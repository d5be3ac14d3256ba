/**
 * The names of classes in a `data.yaml`: a list or a map under the key `names`, in the usual forms of such files. The
 * rest of the file is skipped. Pure.
 */

import { SvcError } from "../../../lib/base/error.ts";

const CLASSES_MAX = 10_000;

/** Names by the number of their class. Throws `invalid_argument` if there are none. */
export function namesIn(yaml: string): string[] {
  const lines = yaml.split(/\r?\n/);
  const at = lines.findIndex((line) => /^names\s*:/.test(line));
  if (at < 0) throw unreadable('it has no "names"');
  const rest = withoutComment(lines[at].replace(/^names\s*:/, "")).trim();
  if (rest !== "") return listed(flow([rest, ...lines.slice(at + 1)]));
  const block: string[] = [];
  for (const line of lines.slice(at + 1)) {
    const plain = withoutComment(line).trimEnd();
    if (plain.trim() === "") continue;
    if (!/^(\s|-)/.test(plain)) break;
    block.push(plain.trim());
  }
  if (block.length === 1 && /^[[{]/.test(block[0]) || /^[[{]$/.test(block[0] ?? "")) {
    return listed(flow(block));
  }
  return listed(block.map((line) => line.startsWith("-") ? { name: line.slice(1) } : pair(line)));
}

interface Entry {
  /** The class's number, if written. */
  readonly key?: string;
  readonly name: string;
}

/** `[a, b]` or `{0: a, 1: b}`, over one line or several. */
function flow(lines: readonly string[]): Entry[] {
  const close = { "[": "]", "{": "}" }[lines[0][0]];
  if (close === undefined) throw unreadable(`found "names: ${lines[0].slice(0, 40)}"`);
  const entries: Entry[] = [];
  let [part, quote] = ["", ""];
  const text = lines.map((line) => withoutComment(line)).join(" ").slice(1);
  for (const letter of text) {
    if (quote === "" && (letter === "," || letter === close)) {
      if (part.trim() !== "") entries.push(close === "}" ? pair(part) : { name: part });
      else if (letter === ",") throw unreadable("a name is empty");
      if (letter === close) return entries;
      part = "";
      continue;
    }
    if (quote !== "" ? letter === quote : /["']/.test(letter) && /^$|[:]$/.test(part.trim())) {
      quote = quote === "" ? letter : "";
    }
    part += letter;
  }
  throw unreadable(`there is no "${close}" behind the names`);
}

function pair(text: string): Entry {
  const [, key, name] = /^\s*(["']?\d{1,9}["']?)\s*:\s*(.*)$/.exec(text) ?? [];
  if (key === undefined) throw unreadable(`found "${text.trim().slice(0, 40)}"`);
  return { key: key.replaceAll(/["']/g, ""), name };
}

function listed(entries: readonly Entry[]): string[] {
  if (entries.length === 0) throw unreadable('there is nothing under "names"');
  const names: string[] = [];
  for (const [at, { key, name }] of entries.entries()) {
    const number = key === undefined ? at : Number(key);
    if (number >= CLASSES_MAX) {
      throw unreadable(`class ${number} is one too many, wanted fewer than ${CLASSES_MAX}`);
    }
    if (names[number] !== undefined) throw unreadable(`class ${number} is there twice`);
    names[number] = scalar(name.trim());
  }
  return Array.from(names, (name) => name ?? "");
}

function scalar(written: string): string {
  const [, double] = /^"((?:[^"\\]|\\.)*)"$/.exec(written) ?? [];
  if (double !== undefined) return double.replaceAll(/\\(.)/g, "$1");
  const [, single] = /^'((?:[^']|'')*)'$/.exec(written) ?? [];
  if (single !== undefined) return single.replaceAll("''", "'");
  if (written === "" || /^[&*!|>%@`"'[{]/.test(written)) throw unreadable(`found "${written.slice(0, 40)}"`);
  return written;
}

/** A comment begins with a `#` at the start or after a space, outside quotes. */
function withoutComment(line: string): string {
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const letter = line[at];
    if (quote !== "") {
      if (letter === quote) quote = "";
    } else if (/["']/.test(letter) && (at === 0 || /[\s,[{:-]/.test(line[at - 1]))) quote = letter;
    else if (letter === "#" && (at === 0 || /\s/.test(line[at - 1]))) return line.slice(0, at);
  }
  return line;
}

function unreadable(found: string): SvcError {
  const wanted =
    'wanted the classes as "names: [cat, dog]", or under "names:" a line "- cat" or "0: cat" for each';
  return new SvcError("invalid_argument", `${found}, ${wanted}`);
}
