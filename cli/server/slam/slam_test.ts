import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { readPcd } from "../../../lib/geometry/cloud/pcd.ts";
import { mimeTypeOf } from "../../../lib/geometry/image/image.ts";
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

Deno.test("slam map export: a picture, a point cloud, and the map of ROS with its description", async () => {
  await withMap(async (path, folder) => {
    const [png, pcd, pgm] = ["map.png", "map.pcd", "map.pgm"].map((name) => `${folder}/${name}`);
    const { code, output } = await slam("map", "export", path, png, pcd, pgm);
    assertEquals([code, output.split("\n").length], [0, 5]);
    assertEquals(mimeTypeOf(await Deno.readFile(png)), "image/png");
    assert(readPcd(await Deno.readFile(pcd)).x.length > 0);
    const yaml = await Deno.readTextFile(`${folder}/map.yaml`);
    const [, x, y] = /^origin: \[(-?[\d.]+), (-?[\d.]+), 0\]$/m.exec(yaml)!;
    assertStringIncludes(yaml, 'image: "map.pgm"\nresolution: 0.05\n');
    // Each point of the cloud lies in the image of ROS, in a pixel that is not unknown.
    const image = await Deno.readFile(pgm);
    const [head, width, height] = /^P5\n(\d+) (\d+)\n255\n/.exec(
      new TextDecoder("latin1").decode(image.subarray(0, 30)),
    )!;
    const cloud = readPcd(await Deno.readFile(pcd));
    for (const [n, cloudX] of cloud.x.entries()) {
      const column = Math.floor((cloudX - Number(x)) / 0.05);
      const row = Number(height) - 1 - Math.floor((cloud.y[n] - Number(y)) / 0.05);
      assert(image[head.length + row * Number(width) + column] !== 205);
    }
  });
});

Deno.test("slam map picture: a drawing; files of other kinds are refused before anything is read", async () => {
  await withMap(async (path, folder) => {
    assertEquals((await slam("map", "picture", path, `${folder}/drawn.png`)).code, 0);
    assertEquals(mimeTypeOf(await Deno.readFile(`${folder}/drawn.png`)), "image/png");
    const wrong = await slam("map", "export", `${folder}/none`, `${folder}/map.svg`);
    assertStringIncludes(wrong.errors, "is a file of an unknown kind, wanted .png, .pcd, .pgm");
    assertEquals((await slam("map", "picture", path, `${folder}/map.pcd`)).code, 1);
  });
});
