import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { isDeepStrictEqual } from "node:util";
import { gzipSync } from "node:zlib";
import { SvcError } from "../../base/error.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import { bytesIn, pieces } from "../../../tests/support/pieces.ts";
import { sampleMap } from "../../../tests/support/map_states.ts";
import { type Needed, needingTest } from "../../../tests/support/needing.ts";
import { RECORDINGS } from "../../../tests/support/recordings.ts";
import type { MapState } from "../map_state.ts";
import { MAPPER_DEFAULTS } from "../mapping.ts";
import { between2d } from "../pose2d.ts";
import { packCloud, unpackCloud } from "./cloud.ts";
import { mapFile, readMap } from "./map_file.ts";
import type { MapItem } from "./messages.ts";
import { MAGIC, openPbstream, writePbstream } from "./pbstream.ts";

async function itemsIn(file: Uint8Array, size?: number): Promise<MapItem[]> {
  return await Array.fromAsync((await openPbstream(pieces(file, size))).items);
}

/** A file of messages, each as its bytes before they are packed. */
function fileOf(...messages: readonly (readonly number[])[]): Uint8Array {
  const parts = messages.flatMap((message) => {
    const packed = gzipSync(Uint8Array.from(message));
    return [...lengthOf(BigInt(packed.length)), ...packed];
  });
  return Uint8Array.from([...MAGIC, ...parts]);
}

function lengthOf(bytes: bigint): Uint8Array {
  const head = new Uint8Array(8);
  new DataView(head.buffer).setBigUint64(0, bytes, true);
  return head;
}

/** The paths of the sample maps. */
function samples(): Needed<readonly string[]> {
  const folder = new URL("pbstream/", RECORDINGS).pathname;
  try {
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    return { found: names.filter((name) => name.endsWith(".pbstream")).map((name) => `${folder}${name}`) };
  } catch {
    return { missing: `no maps in ${folder}` };
  }
}

const HEADER = [0x08, 0x02];
const EMPTY_GRAPH = [0x0a, 0x00];
const NO_OPTIONS = [0x12, 0x00];

/** Poses go through a quaternion and back: equal but for the last bits. */
function assertSame(found: unknown, wanted: unknown, path = "map"): void {
  if (typeof wanted === "number") return assertAlmostEquals(found as number, wanted, 1e-9, path);
  if (ArrayBuffer.isView(wanted)) return assert(isDeepStrictEqual(found, wanted), path);
  if (typeof wanted !== "object" || wanted === null) return assertEquals(found, wanted, path);
  assertEquals(Object.keys(found as object), Object.keys(wanted), path);
  for (const [key, one] of Object.entries(wanted)) {
    assertSame((found as Record<string, unknown>)[key], one, `${path}.${key}`);
  }
}

Deno.test("a map is the same after writing and reading: gaps, unfinished submaps, several trajectories, tilt", async () => {
  const map = sampleMap();
  const file = await bytesIn(mapFile(map, MAPPER_DEFAULTS));
  assertSame(await readMap(pieces(file)), map);
  assertEquals(await bytesIn(mapFile(map, MAPPER_DEFAULTS)), file);
});

Deno.test("openPbstream: reads a file in any chunk size and in both format versions", async () => {
  const items = await itemsIn(await bytesIn(mapFile(sampleMap(), MAPPER_DEFAULTS)));
  for (const version of [1, 2] as const) {
    const file = await bytesIn(writePbstream(items, version));
    assertEquals((await openPbstream(pieces(file))).formatVersion, version);
    for (const size of [1, 7, 1 << 20]) assert(isDeepStrictEqual(await itemsIn(file, size), items));
  }
});

needingTest("sample maps: reading, writing and reading again gives equal maps", samples(), async (paths) => {
  assert(paths.length > 0);
  for (const path of paths) {
    const { formatVersion, items } = await openPbstream(new SystemFiles().readPieces(path));
    const all = await Array.fromAsync(items);
    const file = await bytesIn(writePbstream(all, formatVersion as 1 | 2));
    assert(isDeepStrictEqual(await itemsIn(file), all), path);
    const map = await readMap(pieces(file));
    assertSame(await readMap(mapFile(map, MAPPER_DEFAULTS)), map);
  }
});

needingTest("sample maps: poses agree with their intra-submap constraints", samples(), async (paths) => {
  const path = paths.find((one) => one.includes("ref-mit-csail"))!;
  const map = await readMap(new SystemFiles().readPieces(path));
  const submaps = new Map(map.submaps.map((one) => [one.index, one]));
  const nodes = new Map(map.nodes.map((one) => [one.index, one]));
  for (const { submap, node, pose, kind } of map.constraints) {
    if (kind !== "intra") continue;
    const found = between2d(submaps.get(submap.index)!.localPose, nodes.get(node.index)!.localPose);
    assertAlmostEquals(Math.hypot(found.x - pose.x, found.y - pose.y), 0, 1e-6);
    assertAlmostEquals(Math.sin(found.yaw - pose.yaw), 0, 1e-6);
  }
});

Deno.test("openPbstream: reads unpacked lists and skips unknown messages with a warning", async () => {
  // A submap of one by two cells whose values 5 and 300 stand one by one.
  const cells = [0x10, 0x05, 0x10, 0xac, 0x02];
  const rigid = [0x0a, 0x00, 0x12, 0x09, 0x21, ...f64(1)];
  const limits = [0x09, ...f64(0.05), 0x12, 0x00, 0x1a, 0x04, 0x08, 0x01, 0x10, 0x02];
  const grid = [...field(1, limits), ...cells, ...field(4, [])];
  const submap = [...field(1, []), ...field(2, [...field(1, rigid), ...field(4, grid)])];
  const graph = field(4, field(2, field(1, rigid)));
  const file = fileOf(HEADER, field(1, graph), field(2, field(1, [])), field(3, submap), field(77, [1, 2]));
  const warnings: string[] = [];
  const { items } = await openPbstream(pieces(file), { warn: (message) => void warnings.push(message) });
  const [, , found] = await Array.fromAsync(items);
  assert(found.kind === "submap");
  assertEquals([...found.value.submap2d!.grid!.cells], [5, 300]);
  assertEquals(warnings.length, 1);
});

Deno.test("openPbstream: refuses a wrong file with the problem and the byte", async () => {
  const wholes: readonly [Uint8Array, string][] = [
    [new Uint8Array(), "map file: found an end in the middle of it"],
    [Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]), "another beginning"],
    [MAGIC, "found no messages"],
    [
      Uint8Array.from([...MAGIC, ...lengthOf(2n ** 63n)]),
      "message 1 at byte 8: found a length of 9223372036854775808",
    ],
    [
      Uint8Array.from([...MAGIC, ...lengthOf(1000n), 1, 2]),
      "message 1 at byte 8: found an end in the middle",
    ],
    [Uint8Array.from([...MAGIC, ...lengthOf(2n), 1, 2]), "not packed with gzip"],
    [fileOf([0x08, 0x03]), "the format version 3, wanted 1 or 2"],
    [fileOf(HEADER), "found no pose graph"],
    [fileOf(HEADER, NO_OPTIONS), "options first, wanted the pose graph"],
    [fileOf(HEADER, EMPTY_GRAPH), "no options"],
    [fileOf(HEADER, EMPTY_GRAPH, EMPTY_GRAPH), "poseGraph second, wanted the options"],
    [fileOf(HEADER, [0x0a, 0x00, 0x12, 0x00]), "poseGraph and options in one message"],
    [fileOf(HEADER, field(1, field(4, [])), NO_OPTIONS), "options of 0 trajectories, the pose graph has 1"],
    [fileOf(HEADER, EMPTY_GRAPH, NO_OPTIONS, field(3, field(3, []))), "a submap in three dimensions"],
    [fileOf(HEADER, [0x0a, 0x7f]), "poseGraph: found"],
    [fileOf(HEADER, field(1, field(2, []))), "constraint 0 without its submap or node"],
  ];
  for (const [file, wanted] of wholes) {
    const error = await assertRejects(() => itemsIn(file), SvcError);
    assertEquals(error.code, "invalid_argument");
    assert(error.message.includes(wanted), `${error.message}\nwanted: ${wanted}`);
  }
});

Deno.test("openPbstream: refuses a gzip bomb before it is fully unpacked", async () => {
  const bomb = gzipSync(new Uint8Array(200 * 1024 * 1024));
  const file = Uint8Array.from([...MAGIC, ...lengthOf(BigInt(bomb.length)), ...bomb]);
  await assertRejects(() => itemsIn(file), SvcError, "more than a map holds once it is unpacked");
});

Deno.test("mapFile: refuses to write an inconsistent map", async () => {
  const map = sampleMap();
  const [first, ...others] = map.submaps;
  const broken: readonly [MapState, string][] = [
    [{ ...map, submaps: others }, "constraint 0 of submap (0, 0), which has no pose"],
    [{ ...map, submaps: [{ ...first, globalPose: { x: NaN, y: 0, yaw: 0 } }, ...others] }, "a pose at NaN"],
    [{ ...map, submaps: [{ ...first, grid: { ...first.grid, cellsX: 7 } }, ...others] }, "a grid of 7 x 30"],
    [{ ...map, constraints: [map.constraints[0], map.constraints[0]] }, "node (0, 0) twice in submap (0, 0)"],
  ];
  for (const [wrong, wanted] of broken) {
    await assertRejects(() => bytesIn(mapFile(wrong, MAPPER_DEFAULTS)), SvcError, wanted);
  }
});

Deno.test("packCloud: keeps millimetres across block edges and below zero", () => {
  const points = Float32Array.from([-0.001, 1.023, 1.024, -1.025, 8000, -8000, 0, 0, 0.0004]);
  const far = Float32Array.from([9000, 0, 0, NaN, 0, 0]);
  assertEquals(packCloud(far).numPoints, 0);
  const found = unpackCloud(packCloud(points)) as Float32Array;
  const groups = (all: Float32Array) =>
    [0, 1, 2].map((n) => Array.from(all.subarray(3 * n, 3 * n + 3), (one) => Number(one.toFixed(3)))).sort();
  assertEquals(groups(found), groups(points.map((one) => Math.round(one * 1000) / 1000)));
});

function field(number: number, content: readonly number[]): number[] {
  const tag = number << 3 | 2;
  const varint = (value: number): number[] =>
    value < 0x80 ? [value] : [value & 0x7f | 0x80, ...varint(value >> 7)];
  return [...varint(tag), ...varint(content.length), ...content];
}

function f64(value: number): number[] {
  return [...new Uint8Array(new Float64Array([value]).buffer)];
}
