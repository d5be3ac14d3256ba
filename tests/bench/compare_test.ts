/** The table of `deno task compare`, and its columns of peers, which are programs given by path. */

import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { V8_FLAGS } from "../../cli/v8_flags.ts";
import { headOf, lineOf, withTable } from "./compare/table.ts";
import { contestantOf } from "./compare/contestant.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const DECODER = new TextDecoder();

Deno.test("a row has the median, the least and the most, and how much ours is better", () => {
  assertEquals(headOf(["ours", "other"]), "|  | ours | other | better by |\n| --- | --- | --- | --- |\n");
  assertEquals(
    lineOf("listening, ms", [[30, 10, 20], [40, 50, 30]]),
    "| listening, ms | 20.0 (10.0–30.0) | 40.0 (30.0–50.0) | 2.00 × |\n",
  );
  assertEquals(
    lineOf("calls, a second", [[100, 300, 200], [400, 400, 400]]),
    "| calls, a second | 200 (100–300) | 400 (400–400) | 0.50 × |\n",
  );
  for (const unit of ["µs", "s", "MB", "kB", "cm", "%"]) {
    assertMatch(lineOf(`cost, ${unit}`, [[1], [4]]), / 4\.00 × \|$/m);
  }
});

Deno.test("a contestant without figures has dashes and no ratio", () => {
  assertEquals(lineOf("calls, a second", [[5], []]), "| calls, a second | 5.0 (5.0–5.0) | – | – |\n");
  assertEquals(lineOf("calls, a second", [[], [5]]), "| calls, a second | – | 5.0 (5.0–5.0) | – |\n");
  assertEquals(
    lineOf("traffic, kB", [[0], [0]]),
    "| traffic, kB | 0.0 (0.0–0.0) | 0.0 (0.0–0.0) | – |\n",
  );
});

Deno.test("the table gets a section of README.md, is replaced by the next, and nothing else changes", async () => {
  const [before, after] = ["# project\n\nIts first words.\n\n", "## Where to read on\n\nIts last words.\n"];
  const once = withTable(before + after, "| one |\n");
  assert(once.startsWith(`${before}## Figures\n`) && once.includes("\n| one |\n") && once.endsWith(after));
  assertEquals(withTable(once, "| two |\n"), once.replace("| one |", "| two |"));
  assertThrows(() => withTable("# no place", "| one |\n"), Error, "README.md lacks the section");

  const readme = await Deno.readTextFile(`${ROOT}README.md`);
  const [begin, end] = ["<!-- The table of", "<!-- end -->"].map((mark) => readme.indexOf(mark));
  const replaced = withTable(readme, "| three |\n");
  assert(begin! > 0 && end! > begin! && replaced.includes("\n| three |\n"));
  assert(replaced.startsWith(readme.slice(0, begin)) && replaced.endsWith(readme.slice(end)));
});

Deno.test("the agent and the control plane of a contestant lie beside its server", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-compare-test-" });
  try {
    for (const name of ["svc-server", "svc-cloud"]) await Deno.writeTextFile(`${folder}/${name}`, "");
    assertEquals(contestantOf("built", `${folder}/svc-server`).programs, {
      server: [`${folder}/svc-server`],
      cloud: [`${folder}/svc-cloud`],
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  const { server, agent, cloud, mapper } = contestantOf("tree", `${ROOT}cli/server/main.ts`).programs;
  assertEquals([server, agent, cloud, mapper].map((command) => command?.at(-1)?.slice(ROOT.length)), [
    "cli/server/main.ts",
    "cli/agent/main.ts",
    "cli/cloud/main.ts",
    "tests/bench/compare/map_recording.ts",
  ]);
});

Deno.test("peers have columns: a program that serves, and one that ends at once", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-compare-test-" });
  try {
    const good = await script(
      `${folder}/good`,
      `exec '${Deno.execPath()}' run -A '${V8_FLAGS}' '${ROOT}cli/server/main.ts' "$@"`,
    );
    const bad = await script(`${folder}/bad`, "exit 3");
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", `${ROOT}tests/bench/compare.ts`, "configuration", "--rounds", "1", "--source"]
        .concat(["--peer", good, "--peer", bad]),
    }).output();
    const lines = DECODER.decode(stdout).trim().split("\n");
    assertEquals(lines[0], `|  | ours (cli/server/main.ts) | ${good} | better by | ${bad} | better by |`);
    const figure = String.raw`[\d.]+ \([\d.]+–[\d.]+\)`;
    const row = new RegExp(
      String.raw`^\| configuration saved to applied, ms \| ${figure} \| ${figure} \| [\d.]+ × \| – \| – \|$`,
    );
    assertMatch(lines[2]!, row);
    assertEquals(lines.length, 3);
    assertEquals(
      DECODER.decode(stderr),
      `compare configuration: ${bad}: ${bad} ended with code 3 before it listened\n`,
    );
    assertEquals(code, 1);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function script(path: string, line: string): Promise<string> {
  await Deno.writeTextFile(path, `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  return path;
}
