/**
 * `docs/words.md` against the source: a word that stands there is declared by one file alone.
 */

import { assertEquals, assertGreater } from "@std/assert";
import { sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url);

Deno.test("a word in docs/words.md is declared in the file that stands beside it, and nowhere else", async () => {
  const page = await Deno.readTextFile(new URL("docs/words.md", ROOT));
  const words = [...page.matchAll(/^\| `(\w+)` +\|.*\| `([\w/.]+)` +\|$/gm)].map((match) => match.slice(1));
  assertGreater(words.length, 5);
  const declared = await declarations();
  for (const [word, file] of words) assertEquals(declared.get(word), [file], word);
});

/** The files that declare each name on the outermost level. */
async function declarations(): Promise<ReadonlyMap<string, string[]>> {
  const found = new Map<string, string[]>();
  const files = await sourceFiles(["cli/", "drivers/", "lib/", "tests/support/"]);
  for (const { path, text } of files.filter(({ path }) => !path.endsWith("_test.ts"))) {
    const names = text.matchAll(
      /^(?:export )?(?:abstract )?(?:async )?(?:class|interface|type|function|const) (\w+)/gm,
    );
    for (const [, one] of names) found.set(one, [...found.get(one) ?? [], path]);
  }
  return found;
}
