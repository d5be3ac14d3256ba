/**
 * The table from which `svc-server module new --language python` writes stubs, held against the published library.
 */

import { assertEquals } from "@std/assert";
import { PYTHON_CLASSES } from "../../cli/server/module/python_classes.ts";
import { needingTest } from "../support/needing.ts";
import { pythonProgram, run } from "./programs.ts";

const TABLE = new URL("../../cli/server/module/python_classes.ts", import.meta.url);
const SCRIPT = new URL("python_classes.py", import.meta.url).pathname;
const UPDATE = Deno.args.includes("--update");
/** Only an installation with numpy has this type. */
const NEEDS_NUMPY = "rdk:service:mlmodel";

needingTest(
  "the stubs in Python are those of the published library's types",
  await pythonProgram(),
  async (python) => {
    const { code, stdout, stderr } = await run([python, "-W", "ignore", SCRIPT]);
    assertEquals(code, 0, stderr);
    const found = blocksOf(stdout);
    const table = blocksOf(PYTHON_CLASSES);
    if (!found.has(NEEDS_NUMPY)) found.set(NEEDS_NUMPY, table.get(NEEDS_NUMPY) ?? "");
    if (UPDATE) {
      const text = await Deno.readTextFile(TABLE);
      const blocks = [...found.values()].sort().join("\n\n");
      await Deno.writeTextFile(TABLE, text.replace(/`\n.*`;/s, () => `\`\n${blocks}\n\n\`;`));
      return;
    }
    assertEquals(new Map([...found].sort()), new Map([...table].sort()));
  },
);

function blocksOf(text: string): Map<string, string> {
  const blocks = text.trim().split("\n\n");
  return new Map(blocks.map((block) => [block.split(" ", 1)[0], block]));
}
