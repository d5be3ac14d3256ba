import { assertEquals } from "@std/assert";
import { csvText } from "./csv.ts";

Deno.test("a text that a spreadsheet would run as a formula is marked, whatever hides its beginning", () => {
  const formulas = [
    "=1",
    "+1",
    "-1",
    "@A1",
    "\t=1",
    "\r1",
    " =1",
    "\n=1",
    "\ufeff=1",
    "\u200b\u00a0=1",
    "\0-1",
    "\uff1d1",
  ];
  for (const text of formulas) assertEquals(csvText(text).replace(/^"/, "")[0], "'", JSON.stringify(text));
  for (const text of ["", "a=1", "1-2", "a\u200b=1", "😀", "'=1", "  a"]) assertEquals(csvText(text), text);
});

Deno.test("separators, quotes and line breaks are quoted", () => {
  assertEquals(["a,b", 'say "hi"', "a\nb", "a\rb", '="x"'].map(csvText), [
    '"a,b"',
    '"say ""hi"""',
    '"a\nb"',
    '"a\rb"',
    `"'=""x"""`,
  ]);
});
