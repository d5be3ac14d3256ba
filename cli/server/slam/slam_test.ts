import { assertEquals, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";
import { mapFile } from "../../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../../../tests/support/map_states.ts";
import { main } from "../main.ts";

/** What `svc-server slam` prints, and its exit code. */
async function slam(...args: readonly string[]) {
  const host = new DenoHost();
  const printed = { code: 0, output: "", errors: "" };
  host.write = (text) => void (printed.output += text);
  host.writeError = (text) => void (printed.errors += text);
  printed.code = await main(["slam", ...args], host);
  return printed;
}

/** Runs `work` with the path of a map file in a folder of its own. */
async function withMap(work: (path: string, folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/map.pbstream`;
    await new DenoHost().writePieces(path, mapFile(sampleMap(), MAPPER_DEFAULTS));
    await work(path, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("slam pbstream info: what is in a map, for people and as JSON", async () => {
  await withMap(async (path) => {
    const { code, output } = await slam("pbstream", "info", path);
    assertEquals(code, 0);
    assertStringIncludes(output, "constraints     3 within submaps, 1 loop closures\n");
    assertStringIncludes(
      output,
      "trajectory 2\n  sensors       range (range)\n  submaps       1, 1 of them unfinished\n",
    );
    const json = JSON.parse((await slam("pbstream", "info", path, "--json")).output);
    assertEquals([json.formatVersion, json.trajectories[0].nodes, json.trajectories[0].imu], [2, 3, 2]);
  });
});

Deno.test("slam pbstream info: a file that is no map, and none at all", async () => {
  await withMap(async (_, folder) => {
    await Deno.writeTextFile(`${folder}/no.pbstream`, "something else");
    const wrong = await slam("pbstream", "info", `${folder}/no.pbstream`);
    assertEquals(wrong.code, 1);
    assertStringIncludes(wrong.errors, "map file: found another beginning than that of a .pbstream file");
    assertEquals((await slam("pbstream", "info", `${folder}/none.pbstream`)).code, 1);
    assertEquals((await slam("pbstream")).code, 2);
  });
});
