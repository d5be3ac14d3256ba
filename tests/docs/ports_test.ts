/** docs/ports.md names a test for each rule: it exists. */

import { assert, assertEquals } from "@std/assert";
import { ROOT } from "./pages.ts";

Deno.test("docs/ports.md: each rule names a test that exists, or says that there is none", async () => {
  const page = await Deno.readTextFile(`${ROOT}docs/ports.md`);
  const rows = page.split("\n").filter((line) => line.startsWith("|") && !/^\| (?:Rule|Port|-)/.test(line));
  assert(rows.length > 30);
  const missing: string[] = [];
  for (const row of rows) {
    const [, , test] = row.split("|").map((cell) => cell.trim());
    const [, file, name] = /^`(\S+_test\.ts)`: (.+)$/.exec(test) ?? [];
    if (file === undefined ? test.startsWith("none: ") : (await textOf(file)).includes(name)) continue;
    missing.push(test);
  }
  assertEquals(missing, []);
});

function textOf(file: string): Promise<string> {
  return Deno.readTextFile(ROOT + file).catch(() => "");
}
