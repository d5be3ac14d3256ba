/**
 * One word, one meaning: names that files export, and the words of `docs/words.md`, are declared by one file alone.
 */

import { assertEquals, assertGreater } from "@std/assert";
import { sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url);

Deno.test("each word of docs/words.md is declared only in the file beside it", async () => {
  const page = await Deno.readTextFile(new URL("docs/words.md", ROOT));
  const words = [...page.matchAll(/^\| `(\w+)` +\|.*\| `([\w/.]+)` +\|$/gm)].map((match) => match.slice(1));
  assertGreater(words.length, 5);
  const declared = await declarations(["cli/", "drivers/", "lib/", "tests/support/"], "");
  for (const [word, file] of words) assertEquals(declared.get(word), [file], word);
});

Deno.test("no two files export the same name", async () => {
  const declared = await declarations(["cli/", "drivers/", "lib/"], "export ");
  const twice = [...declared].filter(([name, files]) => new Set(files).size > 1 && !(name in SHARED));
  assertEquals(twice, []);
  for (const name of Object.keys(SHARED)) assertGreater(declared.get(name)?.length, 1, name);
});

/** Names with the same meaning in files that no program brings together. */
const SHARED: { readonly [name: string]: string } = {
  main: "the entry of each program",
  run: "the work of each program after its command line",
  model: "makes a model: of the machine, and in the library for modules, which publishes the name",
};

/** The files that declare each name on the outermost level, in lines that begin with `start`. */
async function declarations(
  folders: readonly string[],
  start: "" | "export ",
): Promise<ReadonlyMap<string, string[]>> {
  const found = new Map<string, string[]>();
  const declaration = new RegExp(
    `^(?:export )${start === "" ? "?" : ""}(?:declare )?(?:abstract )?(?:async )?` +
      "(?:class|interface|type|function\\*?|const|enum) (\\w+)",
    "gm",
  );
  for (const { path, text } of await sourceFiles(folders)) {
    if (path.endsWith("_test.ts")) continue;
    for (const [, one] of text.matchAll(declaration)) found.set(one, [...found.get(one) ?? [], path]);
  }
  return found;
}
