/**
 * `deno run -A tests/strict_rooms.ts`: checks the types of the product more strictly than those of its tests: an element
 * of an array, and a member of a record, may be missing (`noUncheckedIndexedAccess`). `lib/web` has the same option in
 * its own configuration.
 *
 * A new room is added to the list, and none is taken off. Loops over entries, destructuring with defaults and `at` need
 * no mark that something is there. Problems outside the listed rooms are left out.
 */

import { fileURLToPath } from "node:url";
import { sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url);
const ROOMS = [
  "lib/base/",
  "lib/device/",
  "lib/wire/",
  "lib/geometry/",
  "lib/learn/",
  "lib/resource/",
  "lib/slam/",
  "lib/api/",
  "drivers/",
  "lib/cloud_client/",
  "lib/module/",
  "lib/machine/",
  "lib/agent/",
  "lib/cloud/",
  "cli/",
  "examples/",
];

/** The settings of the tree with the stricter check, in a folder of their own. */
async function writeConfig(folder: string): Promise<string> {
  const { imports: named, compilerOptions } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const imports = Object.fromEntries(
    Object.entries<string>(named).map(([name, target]) =>
      target.startsWith("./") ? [name, new URL(target, ROOT).href] : [name, target]
    ),
  );
  const types = compilerOptions.types.map((path: string) => fileURLToPath(new URL(path, ROOT)));
  const strict = { ...compilerOptions, types, noUncheckedIndexedAccess: true };
  const path = `${folder}/deno.json`;
  await Deno.writeTextFile(
    path,
    JSON.stringify({ imports, compilerOptions: strict, nodeModulesDir: "none" }),
  );
  return path;
}

/** What Deno reports, without the problems of other rooms. The first place that a problem names is its own. */
function problemsInRooms(report: string): string[] {
  const parts = report.split(/^(?=TS\d+ \[ERROR\])/m).map((part) => part.trim());
  return parts.filter((part) => {
    // A line of code may begin with `at` as well.
    const [, place] = /^ +at (\w+:\/\/.*)$/m.exec(part) ?? [];
    return part !== "" && (place === undefined || ROOMS.some((room) => place.startsWith(ROOT.href + room)));
  });
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "svc-strict-" });
  try {
    const config = await writeConfig(folder);
    const files = (await sourceFiles(ROOMS)).map(({ path }) => path).filter((path) =>
      !path.endsWith("_test.ts")
    );
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--no-lock", "--config", config, ...files],
      cwd: fileURLToPath(ROOT),
      env: { NO_COLOR: "1" },
      stdout: "inherit",
      stderr: "piped",
    }).output();
    const report = new TextDecoder().decode(stderr);
    // Anything but a problem of types is no reason to pass.
    const found = code === 0 || /^TS\d+ \[ERROR\]/m.test(report) ? problemsInRooms(report) : [report];
    if (found.length > 0) {
      console.error(found.join("\n\n"));
      Deno.exitCode = 1;
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
