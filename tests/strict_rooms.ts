/**
 * `deno run -A tests/strict_rooms.ts`: checks the types of some rooms more strictly than those of the rest: an element of
 * an array, and a member of a record, may be missing there (`noUncheckedIndexedAccess`).
 *
 * A room that passes is added to the list, and none is taken off. Loops over entries, destructuring with defaults and
 * `at` need no mark that something is there.
 */

import { fileURLToPath } from "node:url";
import { sourceFiles } from "./support/sources.ts";

const ROOT = new URL("../", import.meta.url);
/** A room imports only from rooms before it: the check of one covers what it imports. */
const ROOMS = ["lib/base/", "lib/device/", "lib/wire/"];

/** The settings of the tree with the stricter check, in a folder of their own. */
async function writeConfig(folder: string): Promise<string> {
  const { imports, compilerOptions } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const types = compilerOptions.types.map((path: string) => fileURLToPath(new URL(path, ROOT)));
  const strict = { ...compilerOptions, types, noUncheckedIndexedAccess: true };
  const path = `${folder}/deno.json`;
  await Deno.writeTextFile(
    path,
    JSON.stringify({ imports, compilerOptions: strict, nodeModulesDir: "none" }),
  );
  return path;
}

if (import.meta.main) {
  const folder = await Deno.makeTempDir({ prefix: "svc-strict-" });
  try {
    const config = await writeConfig(folder);
    const files = (await sourceFiles(ROOMS)).map(({ path }) => path).filter((path) =>
      !path.endsWith("_test.ts")
    );
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--no-lock", "--config", config, ...files],
      cwd: fileURLToPath(ROOT),
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    Deno.exitCode = code;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
