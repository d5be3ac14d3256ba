/** The faults of `deno task mutate`: which ones it puts in, where, and which of them the type check refuses. */

import { assertEquals } from "@std/assert";
import { COMPILER_OPTIONS, denoTypes } from "./floating_promises.ts";
import { linesOf } from "./mutation/coverage_map.ts";
import { mutantsOf, withFault } from "./mutation/operators.ts";
import { Reach } from "./mutation/reach.ts";
import { changedLines, sampleOf } from "./mutation/sample.ts";
import { messagePaths, TypeCheck } from "./mutation/type_check.ts";

const TEXT = `
type Kind = "a" | "b";
declare function read(count: number): Promise<string>;
export async function work(limit: number, items: string[]): Promise<string[]> {
  if (limit < 3 && items.length > 0) return [];
  items.push("a" + "b");
  await read(limit + 1);
  throw new Error("not_found", { cause: true });
}
`;

const edits = () => mutantsOf("lib/x/work.ts", TEXT).map(({ line, edit }) => `${line}: ${edit}`);

Deno.test("mutants: conditions, operators, numbers, booleans, codes, calls and awaits, but no types and no texts", () => {
  assertEquals(edits(), [
    "5: limit < 3 && items.length > 0 → false",
    "5: limit < 3 && items.length > 0 → true",
    "5: && → ||",
    "5: < → <=",
    "5: 3 → (3 + 1)",
    "5: > → >=",
    "5: 0 → (0 + 1)",
    '6: items.push("a" + "b"); → ;',
    "7: await read(limit + 1); → ;",
    "7: await read(limit + 1) → (read(limit + 1))",
    "7: + → -",
    "7: 1 → (1 + 1)",
    '8: "not_found" → "internal"',
    "8: true → false",
  ]);
});

Deno.test("mutants: where the block of each begins", () => {
  const text = `let count = 0;
export function more(): number {
  if (count > 1) return 1;

  for (;;) {
    count++;
  }
}
`;
  const found = mutantsOf("lib/x/more.ts", text).map(({ line, blockLine }) => `${blockLine} to ${line}`);
  assertEquals([...new Set(found)], ["1 to 1", "2 to 3", "5 to 6"]);
});

Deno.test("mutants: a fault changes its own place alone", () => {
  const [, , , less] = mutantsOf("lib/x/work.ts", TEXT);
  assertEquals(withFault(TEXT, less), TEXT.replace("limit < 3", "limit <= 3"));
});

Deno.test("mutants: the sample depends on the seed, the room and the changed lines alone", () => {
  const files = ["lib/x/work.ts", "lib/y/work.ts", "tests/work.ts", "lib/x/work_test.ts"]
    .map((path) => ({ path, text: TEXT }));
  const sample = (room: string, seed: number, changed?: Map<string, Set<number>>) =>
    sampleOf(files, { room, seed, changed }).map(({ file, start }) => `${file} ${start}`);
  assertEquals(sample("", 1), sample("", 1));
  assertEquals(sample("", 1).toSorted(), sample("", 2).toSorted());
  assertEquals(sample("", 1).join() === sample("", 2).join(), false);
  assertEquals(sample("lib/x", 1).every((one) => one.startsWith("lib/x/")), true);
  assertEquals(sample("lib/x", 1), sample("", 1).filter((one) => one.startsWith("lib/x/")));
  const diff = "--- a/lib/y/work.ts\n+++ b/lib/y/work.ts\n@@ -6,0 +6,2 @@ f\n+\n+\n@@ -9 +10 @@\n+\n";
  assertEquals([...changedLines(diff)], [["lib/y/work.ts", new Set([6, 7, 10])]]);
  assertEquals(sample("", 1, changedLines(diff)).length, 5);
});

Deno.test("mutants: the same edits of a line are not tried one after the other", () => {
  const text = "export const isAny = (a: string) => a === b || a === c || a === d || a === e || a === f;";
  const edits = sampleOf([{ path: "lib/x/any.ts", text }], { room: "", seed: 1 }).map(({ edit }) => edit);
  const comparisons = edits.flatMap((edit, at) => edit === "=== → !==" ? [at] : []);
  assertEquals(comparisons.length, 5);
  assertEquals(comparisons[4] - comparisons[0] > 4, true, edits.join());
});

Deno.test("mutants: tests that reach a file, beside it first, then its room's, then its namesakes elsewhere", () => {
  const reach = new Reach([
    { path: "lib/x/deep/work.ts", text: "" },
    { path: "lib/x/deep/work_test.ts", text: 'import "./work.ts"' },
    { path: "lib/x/deep/all_test.ts", text: 'import "./work.ts"' },
    { path: "lib/x/deep/other_test.ts", text: "" },
    { path: "lib/x/x.ts", text: 'import "./deep/work.ts"' },
    { path: "lib/x/x_test.ts", text: 'import "./x.ts"' },
    { path: "lib/y/types.ts", text: 'import type {\n  Work,\n} from "../x/deep/work.ts";\n' },
    { path: "lib/y/types_test.ts", text: 'import "./types.ts";' },
    { path: "tests/a_test.ts", text: 'import "../lib/x/x.ts"' },
    { path: "tests/b_test.ts", text: "start(`lib/x/x.ts`)" },
    { path: "tests/c_test.ts", text: 'import "../lib/x/deep/work.ts"' },
    { path: "tests/work_test.ts", text: 'import "../lib/x/x.ts"' },
  ]);
  assertEquals(reach.nearest("lib/x/deep/work.ts"), ["lib/x/deep/work_test.ts", "lib/x/deep/all_test.ts"]);
  assertEquals(reach.room("lib/x/deep/work.ts"), ["lib/x/x_test.ts"]);
  assertEquals(reach.elsewhere("lib/x/deep/work.ts"), [
    "tests/c_test.ts",
    "tests/work_test.ts",
    "tests/a_test.ts",
    "tests/b_test.ts",
  ]);
});

Deno.test("mutants: the lines that a report of coverage counts above 0", () => {
  assertEquals(linesOf("SF:/copy/lib/x/a.ts\nDA:1,2\nDA:2,0\nDA:3,1\nend_of_record\n", "/copy"), {
    "lib/x/a.ts": [1, 3],
  });
});

Deno.test("mutants: the type check refuses a removed await and a wrong type, and forgets them", async () => {
  const types = await denoTypes();
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    const text = TEXT.replace('throw new Error("not_found", { cause: true });', "return items;");
    await Deno.writeTextFile(file, text);
    const check = new TypeCheck([file], COMPILER_OPTIONS, types);
    const refused = mutantsOf(file, text).filter((one) => check.refuses(file, text, withFault(text, one)));
    assertEquals(refused.map(({ kind }) => kind), ["removed await"]);
    assertEquals(check.refuses(file, text, text.replace("limit < 3", "limit.x < 3")), true);
    assertEquals(check.refuses(file, text, text), false);
  } finally {
    await Deno.remove(types);
    await Deno.remove(file);
  }
});

Deno.test("mutants: the type check knows the types of messages", async () => {
  const [types, paths] = [await denoTypes(), await messagePaths()];
  const file = new URL("../lib/api/actuators/board.ts", import.meta.url).pathname;
  try {
    const check = new TypeCheck([file], { ...COMPILER_OPTIONS, paths }, types);
    const text = await Deno.readTextFile(file);
    const inside = text.replace("await this.rpc.pWMFrequency(", "this.rpc.pWMFrequency(");
    assertEquals([inside === text, check.refuses(file, text, inside)], [false, true]);
  } finally {
    await Deno.remove(types);
  }
});
