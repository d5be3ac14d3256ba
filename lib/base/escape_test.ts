import { assertEquals } from "@std/assert";
import { escaped, escapedBlanks, escapedLine, hasHidden, shellWord, withoutEnd } from "./escape.ts";
import { formatLine } from "./log/line.ts";

const HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\r\u202Egnp.exe\u2066\u2028\0\ufeff\x7f";

Deno.test("escaped: writes control and invisible characters as escapes and keeps other text", () => {
  assertEquals(
    escaped(`a\tb\n${HOSTILE}`),
    "a\tb\n\\u001b]0;owned\\u0007\\u001b[31mred\\u009b2J\\u000d\\u202egnp.exe\\u2066\\u2028\\u0000\\ufeff\\u007f",
  );
  assertEquals(escapedLine("a\tb\nc"), "a\\tb\\nc");
  assertEquals([hasHidden(HOSTILE), hasHidden("a\nb"), hasHidden("Größe 測試 🙂")], [true, true, false]);
  assertEquals(escaped("Größe 測試 🙂 é"), "Größe 測試 🙂 é");
});

Deno.test("escaped: JSON text keeps its value", () => {
  const value = { [HOSTILE]: [HOSTILE, "\u2029\x85"] };
  const text = escaped(JSON.stringify(value));
  assertEquals([hasHidden(text), JSON.parse(text)], [false, value]);
});

Deno.test("formatLine: escapes control characters in every part of a record", () => {
  const record = {
    timeMs: 0,
    level: "info",
    logger: HOSTILE,
    message: HOSTILE,
    fields: { [HOSTILE]: HOSTILE },
  } as const;
  const line = formatLine(record);
  assertEquals(hasHidden(line.replaceAll("\t", "")), false);
  assertEquals(
    formatLine(record, true).startsWith("1970-01-01T00:00:00.000Z\t\x1b[34mINFO\x1b[0m\t\\u001b]0;"),
    true,
  );
});

Deno.test("shellWord: a shell reads any text as a single word, and plain ones stay readable", async () => {
  const hostile = [
    "a",
    "",
    "it's",
    "$(id)`id`",
    "'; id; '",
    "a\nb",
    '"',
    "\\",
    "''",
    "~",
    "=ls",
    "a b",
    "*",
    "#x",
  ];
  for (const text of [...hostile, "é", "-n", "A=b", "x\n"]) {
    const script = `set -- ${shellWord(text)} && printf %s "$#:$1"`;
    const { stdout } = await new Deno.Command("sh", { args: ["-c", script] }).output();
    assertEquals(new TextDecoder().decode(stdout), `1:${text}`);
  }
  for (const text of ["https://cloud.example:443/a", "rdk:module", "a-b_c/1.2+x,y", "KEY=abc=="]) {
    assertEquals(shellWord(text), text);
  }
});

Deno.test("withoutEnd: takes away the characters at the end, and no others", () => {
  const cases: readonly [text: string, letters: string, left: string][] = [
    ["a//", "/", "a"],
    ["//a/b", "/", "//a/b"],
    ["x1.):", "),.;:]", "x1"],
    ["///", "/", ""],
    ["", "/", ""],
    [`${"/".repeat(1_000_000)}x`, "/", `${"/".repeat(1_000_000)}x`],
  ];
  for (const [text, letters, left] of cases) assertEquals(withoutEnd(text, letters), left);
});

Deno.test("escapedBlanks: what looks like a blank or like nothing is shown, and other text stays", () => {
  const cases: readonly [text: string, shown: string][] = [
    ["mo\u00a0tor", "mo\\u00a0tor"],
    ["\u200bzero\u2060", "\\u200bzero\\u2060"],
    ["wide\u3000blank\u3164", "wide\\u3000blank\\u3164"],
    ["soft\u00adhyphen \ufe0f", "soft\\u00adhyphen \\ufe0f"],
    ["a usual blank, \ttab, é, 日本, 😀", "a usual blank, \ttab, é, 日本, 😀"],
  ];
  for (const [text, shown] of cases) assertEquals(escapedBlanks(text), shown);
});
