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

Deno.test("identifiers use the field's word where there is one", async () => {
  const found = new Set<string>();
  for (const { path, text } of await sourceFiles(["cli/", "drivers/", "lib/", "tests/"])) {
    if (path === "tests/words_test.ts") continue;
    // A line of code without its texts and comments.
    const code = text.replace(/\/\*[\s\S]*?\*\//g, "")
      .replace(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|(?<=^|\s)\/\/.*$/gm, "");
    for (const [identifier] of code.matchAll(/(?<![\w`'-])#?[A-Za-z_]\w*(?![\w-])/g)) {
      for (const part of identifier.split(/(?=[A-Z])|_|#/)) {
        const instead = REFUSED[part.toLowerCase()];
        if (instead) found.add(`${path}: ${identifier} (${instead})`);
      }
    }
  }
  assertEquals([...found], []);
});

/** Private words that once stood for something with a name in the field, and that name. */
const REFUSED: { readonly [word: string]: string } = Object.assign(Object.create(null), {
  aim: "target",
  beat: "tick, heartbeat",
  blame: "abuse limit",
  closeness: "access level",
  desk: "command context",
  earn: "refund, acknowledge",
  farewell: "GOAWAY",
  hearing: "listening",
  insider: "access level",
  intake: "submission",
  letterbox: "characteristic",
  linger: "drain",
  said: "output, logged",
  spared: "grace period",
  told: "logged, reported",
  uplink: "uploader",
  wish: "target, request",
  workshop: "context",
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
