/** Values of svc-ml's flags. */

import { assertEquals, assertThrows } from "@std/assert";
import { commaWords } from "./command.ts";

Deno.test("commaWords: commas separate labels, and a backslash keeps one in a label", () => {
  assertEquals(commaWords(["cat, dog", "cat"], ["bird"]), ["cat", "dog", "bird"]);
  assertEquals(commaWords(["red\\, round,blue\\,"], ["a\\b"]), ["red, round", "blue,", "a\\b"]);
  assertThrows(() => commaWords([" , "]), Error, "found no label");
});
