/**
 * JSONC: accepted texts, and the place and form of errors in others.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../error.ts";
import { JSON_DEPTH_MAX, JSON_VALUES_MAX, parseJsonc } from "./jsonc.ts";
import type { Problem } from "./schema.ts";

const VARIABLES: Record<string, string> = { PORT: "8080", NAME: "Bo", EMPTY: "", QUOTE: '"', DEEP: "[1]" };

function parse(source: string | Uint8Array, problems: Problem[] = []) {
  const bytes = typeof source === "string" ? new TextEncoder().encode(source) : source;
  return parseJsonc(bytes, { file: "f", variable: (name) => VARIABLES[name], problems });
}

const GOOD: readonly [source: string, value: unknown][] = [
  ["{}", {}],
  [" [1, -2.5e3, 0, true, false, null] ", [1, -2500, 0, true, false, null]],
  ['{"a": {"b": [[], {}]}}', { a: { b: [[], {}] } }],
  ['{"a": 1, /* one */ "b": 2, // two\n}', { a: 1, b: 2 }],
  ["[1,2,]", [1, 2]],
  ["// only\n/* comments */ 3", 3],
  [String.raw`"\"\\\/\b\f\n\r\t\u0041é😀"`, '"\\/\b\f\n\r\tAé😀'],
  ['"https://x/*y*/"', "https://x/*y*/"],
  ["\uFEFF{}", {}],
  ['"$NAME ${NAME} ${NOPE:-Al} ${EMPTY:-Cy}$EMPTY"', "Bo Bo Al Cy"],
  ['"${NAME-Al} ${NOPE-Al} ${NOPE-}<${EMPTY-Cy}>"', "Bo Al <>"],
  ['"${QUOTE}"', '"'],
  ['{"$NAME": "$NAME"}', { $NAME: "Bo" }],
  ["[$PORT, ${PORT}, ${NOPE:-1.5}, ${NOPE:-true}]", [8080, 8080, 1.5, true]],
  ['"$NOPE $ $1 a$"', "$NOPE $ $1 a$"],
  ['"${environment.HOME} ${packages.a.b}"', "${environment.HOME} ${packages.a.b}"],
];

Deno.test("parseJsonc: reads JSON, comments, trailing commas and variables", () => {
  for (const [source, value] of GOOD) assertEquals(parse(source), value, source);
});

const BAD: readonly [source: string | Uint8Array, message: string][] = [
  ["", "f: the file is empty, wanted JSON"],
  ["\n // nothing\n", "f: the file is empty, wanted JSON"],
  ["nonsense", 'f:1:1: found "nonsense", wanted a value'],
  ['{\n  "a": 1\n  "b": 2\n}', 'f:3:3: found a ", wanted "," or "}"'],
  ["{'a': 1}", `f:1:2: found a ', wanted a key in double quotes or "}"`],
  ["{a: 1}", 'f:1:2: found "a", wanted a key in double quotes or "}"'],
  ['{"a" 1}', 'f:1:6: found "1", wanted ":" after the key'],
  ['{"a": }', 'f:1:7: found "}", wanted a value'],
  ['{"a": True}', 'f:1:7: found "True", wanted a value; did you mean true?'],
  ["[01]", 'f:1:2: found "01", wanted a value'],
  ["[1e999]", 'f:1:2: found "1e999", wanted a number up to 1.8e308'],
  ["[1,,2]", 'f:1:4: found ",", wanted a value'],
  ["{", 'f:1:2: found the end of the file, wanted a closing "}" for the "{" at 1:1'],
  ["[\n[1]", 'f:2:4: found the end of the file, wanted a closing "]" for the "[" at 1:1'],
  ["[1}", 'f:1:3: found "}", wanted "," or "]"'],
  ["{} {}", 'f:1:4: found "{", wanted the end of the file'],
  ['["a\n"]', 'f:1:2: found the end of the line in a text, wanted a closing "'],
  ['"abc', 'f:1:1: found the end of the line in a text, wanted a closing "'],
  ['"a\tb"', 'f:1:3: found "\\t", wanted it written with a backslash'],
  ['"C:\\dir"', 'f:1:4: found "\\\\d", wanted \\\\ for a backslash'],
  ["/* open", 'f:1:1: found a comment without its closing "*/"'],
  ["[\u00a01]", 'f:1:2: found "\\u00a0", wanted a value'],
  ['{"a": 1\u200b}', 'f:1:8: found "\\u200b", wanted "," or "}"'],
  ["[\0]", "f:1:2: found a NUL character, wanted a value"],
  ["\0\0\0", "f:1:1: found a NUL character, wanted a value"],
  ["{\0}\0", "f: found UTF-16 text, wanted UTF-8"],
  [new Uint8Array([0xff, 0xfe, 0x7b, 0]), "f: found UTF-16 text, wanted UTF-8"],
  [
    new Uint8Array([0x7b, 0x0a, 0x22, 0xc3, 0x28]),
    "f: found bytes that are not UTF-8 text in line 2, wanted UTF-8",
  ],
  ["[$NOPE]", "f:1:2: environment variable NOPE is not set"],
  ["[$NAME]", 'f:1:2: $NAME is not a number, true, false or null; a text needs quotes: "$NAME"'],
  ["[$DEEP]", 'f:1:2: $DEEP is not a number, true, false or null; a text needs quotes: "$DEEP"'],
  ["[${environment.A}]", 'f:1:2: found "$", wanted a value; a placeholder needs quotes'],
  ["[".repeat(200_000), `f:1:101: nested deeper than ${JSON_DEPTH_MAX} levels`],
  [`[${"0,".repeat(JSON_VALUES_MAX)}]`, `f:1:1000000: more than ${JSON_VALUES_MAX} values`],
];

Deno.test("parseJsonc: errors contain the position, the text found and the text wanted", () => {
  for (const [source, message] of BAD) {
    const { code, message: found } = assertThrows(() => parse(source), SvcError);
    assertEquals([code, found], ["invalid_argument", message]);
  }
});

Deno.test("parseJsonc: reports duplicate keys and unset variables as warnings", () => {
  const problems: Problem[] = [];
  assertEquals(parse('{"a": [{"b": 1, "b": 2}], "c": "${NOPE}"}', problems), { a: [{ b: 2 }], c: "${NOPE}" });
  assertEquals(problems, [
    { severity: "warning", path: "a.0.b", message: "written more than once, the last one counts" },
    {
      severity: "warning",
      path: "c",
      message: "environment variable NOPE is not set, ${NOPE} is left as it is",
    },
  ]);
});

Deno.test("parseJsonc: without variables, keeps dollar signs", () => {
  const bytes = new TextEncoder().encode('{"a": "$NAME"}');
  assertEquals(parseJsonc(bytes, { file: "f" }), { a: "$NAME" });
});

Deno.test("parseJsonc: treats __proto__ as an ordinary key", () => {
  assertEquals(Object.keys(parse('{"__proto__": {"x": 1}}') as object), ["__proto__"]);
  assertEquals(({} as { x?: number }).x, undefined);
  const problems: Problem[] = [];
  assertEquals(JSON.stringify(parse('{"__proto__": 1, "__proto__": 2}', problems)), '{"__proto__":2}');
  assertEquals(problems.map(({ path }) => path), ["__proto__"]);
});

Deno.test("parseJsonc: reads the output of JSON.stringify", () => {
  const seed = 7;
  let state = seed;
  const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
  const value = (depth: number): unknown => {
    switch (random(depth > 4 ? 4 : 6)) {
      case 0:
        return random(2) === 0;
      case 1:
        return (random(1e6) - 5e5) / 10 ** random(8);
      case 2:
        return String.fromCharCode(...Array.from({ length: random(8) }, () => random(0x3000)));
      case 3:
        return null;
      case 4:
        return Array.from({ length: random(5) }, () => value(depth + 1));
    }
    return Object.fromEntries(
      Array.from({ length: random(5) }, (_, index) => [`k${index}`, value(depth + 1)]),
    );
  };
  for (let round = 0; round < 300; round++) {
    const written = JSON.stringify(value(0), null, random(3));
    const bytes = new TextEncoder().encode(written);
    assertEquals(parseJsonc(bytes, { file: "f" }), JSON.parse(written), `seed ${seed}, round ${round}`);
  }
});
