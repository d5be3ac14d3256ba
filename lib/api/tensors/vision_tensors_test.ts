import { assertEquals } from "@std/assert";
import { labelLines } from "./vision_tensors.ts";

Deno.test("labelLines: each line names a class, an empty one keeps its place but at the end", () => {
  const cases: [text: string, labels: string[]][] = [
    ["apple\npear", ["apple", "pear"]],
    ["apple\npear\n", ["apple", "pear"]],
    ["\ufeffapple\r\n\r\n pear \r\n\r\n\n", ["apple", "", "pear"]],
    ["", []],
    ["\n\n", []],
  ];
  for (const [text, labels] of cases) assertEquals(labelLines(text), labels, JSON.stringify(text));
});
