/**
 * The grammar of JSONC is that of `@std/jsonc`: over generated and damaged texts, both readers accept the same ones and
 * read the same values.
 */

import { assertEquals } from "@std/assert";
import { parse as parseStandard } from "@std/jsonc";
import { randomFrom } from "../../geometry/random.ts";
import { SvcError } from "../error.ts";
import { parseJsonc } from "./jsonc.ts";

const SEED = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);
const TEXTS = 20_000;

const SCALARS = [
  ..."0 -0 1 -1 12 1.5 1e3 -2.5E-3 true false null".split(" "),
  ...'"" "a" "é😀" "\\n\\t\\"" "\\u0041" "//" "/*" "a,b" "__proto__"'.split(" "),
];
/** Pieces that damage a text when they are inserted. */
const CRUMBS = [
  ..."{}[]:,\"'\\/* \n\t\r0123456789-+.eEtrufalsn",
  "//",
  "/*",
  "*/",
  "\u2028",
  "\uFEFF",
  "\u00a0",
  "\0",
];
const BLANKS = ["", "", "", " ", "\n", "\t", "\r\n", "// one\n", "/* two */", "/*//*/", " /***/ "];

Deno.test(`parseJsonc: accepts and reads the same texts as @std/jsonc (seed ${SEED})`, () => {
  const fraction = randomFrom(SEED);
  const random = (below: number) => Math.floor(fraction() * below);
  for (let at = 0; at < TEXTS; at++) {
    const whole = valueText(random, 0);
    const text = (at % 3 === 0 ? whole : damaged(whole, random)).toWellFormed();
    assertEquals(ours(text), standard(text), JSON.stringify(text));
  }
});

/** The value as JSON, or `refused`. */
function ours(text: string): string {
  try {
    return JSON.stringify(parseJsonc(new TextEncoder().encode(text), { file: "f" }));
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return "refused";
  }
}

function standard(text: string): string {
  try {
    // A byte order mark at the beginning is the file's, not the text's.
    return JSON.stringify(parseStandard(text.replace(/^\uFEFF/, "")), (_key, value) => {
      // Ours refuses numbers that are too large.
      if (Math.abs(value) === Infinity) throw new Error("too large");
      return value;
    });
  } catch {
    return "refused";
  }
}

type Random = (below: number) => number;

function valueText(random: Random, depth: number): string {
  const blank = () => BLANKS[random(BLANKS.length)];
  const kind = depth > 4 ? 0 : random(4);
  if (kind < 2) return blank() + SCALARS[random(SCALARS.length)] + blank();
  const items = Array.from({ length: random(4) }, () => {
    const value = valueText(random, depth + 1);
    return kind === 2 ? value : `${blank()}"${"abc"[random(3)]}"${blank()}:${value}`;
  });
  const trailing = items.length > 0 && random(3) === 0 ? `,${blank()}` : "";
  const [open, close] = kind === 2 ? "[]" : "{}";
  return `${blank()}${open}${items.join(",")}${items.length === 0 ? blank() : trailing}${close}${blank()}`;
}

function damaged(text: string, random: Random): string {
  let result = text;
  for (let times = 1 + random(3); times > 0; times--) {
    const at = random(result.length + 1);
    const crumb = random(2) === 0 ? CRUMBS[random(CRUMBS.length)] : "";
    result = result.slice(0, at) + crumb + result.slice(at + random(3));
  }
  return result;
}
