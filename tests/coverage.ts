/**
 * Runs the tests, or those of the files and folders that the arguments name, and prints the share of lines and branches
 * that they run, by room. Programs that tests start count too, as far as they end in good order.
 *
 *     deno task coverage [FILE|FOLDER …]
 */

import { roomOf } from "./support/rooms.ts";
import { sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url).pathname;
const FOLDERS = ["cli/", "drivers/", "lib/"];

interface Covered {
  lines: number;
  linesRun: number;
  branches: number;
  branchesRun: number;
}

/** Sums of an LCOV report by room; files outside `files` do not count. */
function coverageOf(lcov: string, files: ReadonlySet<string>): Map<string, Covered> {
  const rooms = new Map<string, Covered>();
  let room: Covered | undefined;
  for (const line of lcov.split("\n")) {
    const [, word, value] = /^(SF|LF|LH|BRF|BRH):(.*)$/.exec(line) ?? [];
    if (word === "SF") {
      const path = value.replace(ROOT, "");
      room = undefined;
      if (!files.has(path)) continue;
      const name = roomOf(path);
      room = rooms.get(name) ?? { lines: 0, linesRun: 0, branches: 0, branchesRun: 0 };
      rooms.set(name, room);
    }
    if (!room) continue;
    if (word === "LF") room.lines += Number(value);
    if (word === "LH") room.linesRun += Number(value);
    if (word === "BRF") room.branches += Number(value);
    if (word === "BRH") room.branchesRun += Number(value);
  }
  return rooms;
}

async function deno(
  args: string[],
  env: Record<string, string> = {},
  stdout: "inherit" | "piped" = "inherit",
) {
  const command = new Deno.Command(Deno.execPath(), { args, env, cwd: ROOT, stdout, stderr: "inherit" });
  const child = command.spawn();
  if (stdout === "inherit") return { code: (await child.status).code, text: "" };
  const output = await child.output();
  return { code: output.code, text: new TextDecoder().decode(output.stdout) };
}

function row(name: string, { lines, linesRun, branches, branchesRun }: Covered): string {
  const share = (run: number, all: number) => all === 0 ? "" : `${(100 * run / all).toFixed(1)} %`;
  return `${name.padEnd(24)} ${String(lines).padStart(7)} ${share(linesRun, lines).padStart(8)} ${
    share(branchesRun, branches).padStart(9)
  }`;
}

async function main(words: string[]): Promise<number> {
  const folder = await Deno.makeTempDir({ prefix: "svc-coverage-" });
  try {
    const { code } = await deno(["run", "-A", "tests/run.ts", ...words], { DENO_COVERAGE_DIR: folder });
    const report = await deno(["coverage", "--lcov", folder], {}, "piped");
    if (report.code !== 0) return report.code;

    const files = new Set(
      (await sourceFiles(FOLDERS)).map(({ path }) => path).filter((path) => !path.endsWith("_test.ts")),
    );
    const rooms = coverageOf(report.text, files);
    const total = { lines: 0, linesRun: 0, branches: 0, branchesRun: 0 };
    console.log(
      `\n${"room".padEnd(24)} ${"lines".padStart(7)} ${"run".padStart(8)} ${"branches".padStart(9)}`,
    );
    for (const [name, room] of [...rooms].sort(([one], [other]) => one < other ? -1 : 1)) {
      console.log(row(name, room));
      for (const key of Object.keys(total) as (keyof Covered)[]) total[key] += room[key];
    }
    console.log(row("all", total));
    const left = [...files].filter((path) => !report.text.includes(`SF:${ROOT}${path}\n`));
    console.log(`${left.length} of ${files.size} files are loaded by no test of these`);
    return code;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
