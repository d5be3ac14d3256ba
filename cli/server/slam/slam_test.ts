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

Deno.test("slam pbstream info prints a map's contents as text and as JSON", async () => {
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

Deno.test("slam pbstream info refuses a file that is not a map and a missing file", async () => {
  await withMap(async (_, folder) => {
    await Deno.writeTextFile(`${folder}/no.pbstream`, "something else");
    const wrong = await slam("pbstream", "info", `${folder}/no.pbstream`);
    assertEquals(wrong.code, 1);
    assertStringIncludes(wrong.errors, "map file: found another beginning than that of a .pbstream file");
    assertEquals((await slam("pbstream", "info", `${folder}/none.pbstream`)).code, 1);
    assertEquals((await slam("pbstream")).code, 2);
  });
});

Deno.test("slam map export writes PNG, PCD, and PGM with its YAML", async () => {
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

Deno.test("slam map export writes the pose graph as g2o", async () => {
  await withMap(async (path, folder) => {
    assertEquals((await slam("map", "export", path, `${folder}/map.g2o`)).code, 0);
    const lines = (await Deno.readTextFile(`${folder}/map.g2o`)).trimEnd().split("\n");
    const { submaps, nodes, constraints } = sampleMap();
    const of = (kind: string) =>
      lines.filter((line) => line.startsWith(`${kind} `)).map((line) => line.split(" "));
    assertEquals(of("VERTEX_SE2").length, submaps.length + nodes.length);
    assertEquals([of("EDGE_SE2").length, of("FIX")], [constraints.length, [["FIX", "0"]]]);
    for (const edge of of("EDGE_SE2")) {
      assertEquals(edge.length, 12);
      assert(edge.slice(1).every((one) => Number.isFinite(Number(one))));
    }
    const [intra] = of("EDGE_SE2");
    assertEquals(intra.slice(6), ["250000", "0", "0", "250000", "0", "2560000"]);
  });
});

Deno.test("slam merge puts a map onto another, and refuses maps that share nothing", async () => {
  await withMap(async (path, folder) => {
    const [map, merged] = [`${folder}/turn.pbstream`, `${folder}/merged.pbstream`];
    assertEquals((await slam("run", "tests/data/slam/turn", "--map", map)).code, 0);
    const { code, output, errors } = await slam("merge", map, map, merged, "--json");
    assertEquals(code, 0, errors);
    const { place, nodes, fit } = JSON.parse(output);
    assert(Math.hypot(place.x, place.y) < 0.1 && Math.abs(place.yawDeg) < 2, output);
    assert(fit > 0.9, output);
    assertEquals(
      JSON.parse((await slam("pbstream", "info", merged, "--json")).output).trajectories.length,
      2,
    );
    assert(nodes > 60);
    const none = await slam("merge", map, path, merged);
    assertEquals(none.code, 1);
    assertStringIncludes(none.errors, "the two maps share no place that can be recognized");
    assertEquals((await slam("merge", map, map, `${folder}/merged.pcd`)).code, 2);
    assertEquals((await slam("merge", map, map, `${folder}/none/merged.pbstream`)).code, 1);
  });
});

Deno.test("slam map picture draws a PNG, and unknown file types are refused", async () => {
  await withMap(async (path, folder) => {
    assertEquals((await slam("map", "picture", path, `${folder}/drawn.png`)).code, 0);
    assertEquals(mimeTypeOf(await Deno.readFile(`${folder}/drawn.png`)), "image/png");
    const wrong = await slam("map", "export", `${folder}/none`, `${folder}/map.svg`);
    assertStringIncludes(wrong.errors, "is a file of an unknown kind, wanted .png, .pcd, .pgm, .g2o");
    assertEquals((await slam("map", "picture", path, `${folder}/map.pcd`)).code, 2);
  });
});

Deno.test("slam run maps a recording and scores it, and slam evaluate scores the saved map", async () => {
  await withMap(async (_, folder) => {
    const [map, relations] = [`${folder}/office.pbstream`, `${folder}/office.relations`];
    // The robot goes straight for its first five seconds, as its odometry says.
    await Deno.writeTextFile(
      relations,
      "# t1 t2 x y z roll pitch yaw\n1000000001.01 1000000006.01 2.5 0 0 0 0 0\n",
    );
    const flags = ["--map", map, "--relations", relations];
    const run = await slam("run", "tests/data/slam/office.clf", ...flags, "--json");
    assertEquals(run.code, 0, run.errors);
    assertStringIncludes(run.errors, "all scans are in the map; optimizing it");
    const made = JSON.parse(run.output);
    assertEquals([made.scans, made.score.used, made.score.overMetre], [60, 1, 0]);
    const score = JSON.parse((await slam("evaluate", map, relations, "--json")).output);
    assertEquals(score.used, 1);
    assert(Math.abs(score.translationM.mean - made.score.translationM.mean) < 0.2);
    assertStringIncludes((await slam("evaluate", map, relations)).output, "over 1 m     0\n");
    assertStringIncludes(
      (await slam("run", "tests/data/slam/office.clf", "--no-odometry", "--lidar-pose", "0.1,0,0")).output,
      "scans          60\n",
    );
  });
});

Deno.test("slam run maps a recording of ROS, and says what it assumes and what looks wrong", async () => {
  const { code, output, errors } = await slam("run", "tests/data/slam/turn", "--json");
  assertEquals([code, JSON.parse(output).scans, JSON.parse(output).isMirrored], [0, 59, false], errors);
  assertStringIncludes(errors, "the lidar laser hangs upside down, as its transform says");
  const facts = await Deno.makeTempFile({ suffix: ".json" });
  await Deno.writeTextFile(facts, '{"upside_down": false}');
  const mirrored = await slam("run", "tests/data/slam/turn", "--sensor", facts, "--json");
  await Deno.remove(facts);
  assertEquals(JSON.parse(mirrored.output).isMirrored, true);
  assertStringIncludes(mirrored.errors, "the map is probably mirrored");
  const wrong = await slam("run", "tests/data/slam/office.clf", "--topic", "/scan");
  assertEquals(wrong.code, 2);
  assertStringIncludes(wrong.errors, "is no recording of ROS");
  const none = await slam("run", "tests/data/slam/turn_bz2.bag", "--topic", "/none");
  assertEquals(none.code, 1);
  assertStringIncludes(none.errors, "has no scans on the topic /none");
  assertEquals((await slam("run", "tests/data/none.mcap")).code, 1);
  assertStringIncludes((await slam("run", "tests/data")).errors, "has 0 recordings");
});

Deno.test("slam run and slam evaluate refuse bad logs and relations with path and line", async () => {
  await withMap(async (path, folder) => {
    await Deno.writeTextFile(`${folder}/bad.relations`, "1 2 three\n");
    await Deno.writeTextFile(`${folder}/far.relations`, "1 2 0 0 0 0 0 0\n");
    await Deno.writeTextFile(`${folder}/bad.clf`, "FLASER 3 1 2\n");
    const refused: readonly [args: string[], wanted: string, code?: number][] = [
      [["run", "deno.json"], 'the log "deno.json" has no scans (FLASER, RLASER, ROBOTLASER1)'],
      [
        ["run", "tests/data/slam/office.clf", "--lidar-pose", "1,2"],
        '--lidar-pose: found "1,2", wanted X,Y,YAW_DEG',
        2,
      ],
      [["run", "tests/data/slam/office.clf", "--sensor", "deno.json"], '"deno.json" cannot be read: '],
      [["run", `${folder}/bad.clf`], "line 1: FLASER of 3 ranges"],
      [["run", "tests/data/slam/office.clf", "--map", "map.pcd"], "wanted a .pbstream file", 2],
      [["run", "tests/data/slam/office.clf", "--map", `${folder}/none/m.pbstream`], "there is no folder"],
      [["pbstream", "info", "deno.json"], 'the map "deno.json" cannot be read: map file: found another'],
      [["map", "picture", "deno.json", "x.png"], 'the map "deno.json" cannot be read: '],
      [["map", "picture", path, `${folder}/none/x.png`], `none/x.png": its folder does not exist`],
      [["map", "export", path, "x.foo"], '"x.foo" is a file of an unknown kind, wanted .png', 2],
      [["evaluate", path, `${folder}/bad.relations`], "line 1: no relation"],
      [["evaluate", path, `${folder}/far.relations`], "is of the times of the map"],
    ];
    for (const [args, wanted, expected = 1] of refused) {
      const { code, errors } = await slam(...args);
      assertEquals(code, expected);
      assertStringIncludes(errors, wanted);
    }
  });
});
