/**
 * Runs the checks of the published map reader, one by one, on files written by this project.
 *
 * The reader here is independent: it knows messages by their numbers only, so that it finds mistakes that the project's
 * writer and reader share.
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { gunzipSync } from "node:zlib";
import { drifting, drive, RING, viewFrom } from "../../../tests/support/floor_plan.ts";
import { sampleMap } from "../../../tests/support/map_states.ts";
import { bytesIn } from "../../../tests/support/pieces.ts";
import type { MapState } from "../map_state.ts";
import { Mapper } from "../mapper.ts";
import { MAPPER_DEFAULTS } from "../mapping.ts";
import { mapFile } from "./map_file.ts";

/** The fields of a message by their numbers: varints as bigints, others as their bytes. */
class Raw {
  readonly #fields = new Map<number, (bigint | Uint8Array)[]>();

  constructor(bytes: Uint8Array) {
    let at = 0;
    const varint = () => {
      for (let value = 0n, shift = 0n;; shift += 7n) {
        assert(at < bytes.length && shift < 70n, "a varint that does not end");
        const byte = bytes[at++];
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.length) {
      const tag = Number(varint()), number = tag >> 3, wire = tag & 7;
      const lengths: { readonly [wire: number]: () => number } = {
        1: () => 8,
        2: () => Number(varint()),
        5: () => 4,
      };
      assert(wire === 0 || wire in lengths, `the wire type ${wire}`);
      let value: bigint | Uint8Array;
      if (wire === 0) value = varint();
      else {
        const length = lengths[wire]();
        assert(at + length <= bytes.length, `the field ${number} is longer than its message`);
        value = bytes.subarray(at, at + length);
        at += length;
      }
      this.#fields.set(number, [...this.#fields.get(number) ?? [], value]);
    }
  }

  numbers(): number[] {
    return [...this.#fields.keys()].sort((a, b) => a - b);
  }

  has(number: number): boolean {
    return this.#fields.has(number);
  }

  all(number: number): Raw[] {
    return (this.#fields.get(number) ?? []).map((one) => new Raw(one as Uint8Array));
  }

  /** An absent message reads as one without fields. */
  one(number: number): Raw {
    return this.all(number).at(-1) ?? new Raw(new Uint8Array());
  }

  /** As int32 or int64. */
  int(number: number): bigint {
    return BigInt.asIntN(64, (this.#fields.get(number)?.at(-1) ?? 0n) as bigint);
  }

  double(number: number): number {
    return this.#view(number)?.getFloat64(0, true) ?? 0;
  }

  float(number: number): number {
    return this.#view(number)?.getFloat32(0, true) ?? 0;
  }

  text(number: number): string {
    return new TextDecoder().decode(this.#fields.get(number)?.at(-1) as Uint8Array | undefined);
  }

  /** A packed list of varints. */
  ints(number: number): number[] {
    const bytes = this.#fields.get(number)?.at(-1) as Uint8Array | undefined;
    const found: number[] = [];
    for (let at = 0; bytes && at < bytes.length;) {
      let value = 0n, shift = 0n, byte: number;
      do {
        byte = bytes[at++];
        value |= BigInt(byte & 0x7f) << shift;
        shift += 7n;
      } while (byte >= 0x80);
      found.push(Number(BigInt.asIntN(32, value)));
    }
    return found;
  }

  #view(number: number): DataView | undefined {
    const bytes = this.#fields.get(number)?.at(-1) as Uint8Array | undefined;
    return bytes && new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }
}

interface PublishedFile {
  readonly header: Raw;
  /** What comes after the header: the number of its only field, and that field. */
  readonly items: readonly { readonly kind: number; readonly value: Raw }[];
}

/** A length of 8 bytes before each message, which is one gzip member; nothing else to the end of the file. */
function opened(file: Uint8Array): PublishedFile {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  assertEquals(view.getBigUint64(0, true), 0x7b1d1f7b5bf501dbn);
  const messages: Raw[] = [];
  for (let at = 8; at < file.length;) {
    const length = Number(view.getBigUint64(at, true));
    assert(length > 0 && at + 8 + length <= file.length, "a message that is longer than the file");
    messages.push(new Raw(gunzipSync(file.subarray(at + 8, at + 8 + length))));
    at += 8 + length;
  }
  const items = messages.slice(1).map((one) => {
    assertEquals(one.numbers().length, 1, "a message is of one kind");
    const [kind] = one.numbers();
    return { kind, value: one.one(kind) };
  });
  return { header: messages[0], items };
}

const GRAPH = 1,
  OPTIONS = 2,
  SUBMAP = 3,
  NODE = 4,
  TRAJECTORY_DATA = 5,
  IMU = 6,
  ODOMETRY = 7,
  FIXED_FRAME = 8;
const LANDMARK = 9;
const of = (file: PublishedFile, kind: number) =>
  file.items.filter((one) => one.kind === kind).map(({ value }) => value);
const idOf = (id: Raw) => `${id.int(1)} ${id.int(2)}`;
const graphOf = (file: PublishedFile) => file.items[0].value;
const trajectories = (file: PublishedFile) => graphOf(file).all(4);

function assertVector(vector: Raw, where: string): void {
  for (const k of [1, 2, 3]) assert(Number.isFinite(vector.double(k)), where);
}

function assertRotation(q: Raw, where: string): void {
  assertAlmostEquals(Math.hypot(...[1, 2, 3, 4].map((k) => q.double(k))), 1, 1e-9, where);
}

function assertPose(pose: Raw, where: string): void {
  assertVector(pose.one(1), where);
  assertRotation(pose.one(2), where);
}

/** Times of each trajectory, which must go forwards. */
function assertTimes(items: readonly Raw[], name: string): void {
  const last = new Map<bigint, bigint>();
  for (const one of items) {
    const time = one.one(2).int(1), before = last.get(one.int(1));
    // Units of 100 ns since the year 1: between 1970 and 2100.
    assert(time > 621_355_968_000_000_000n && time < 662_380_416_000_000_000n, `${name} at ${time}`);
    assert(before === undefined || time > before, `${name}: ${time} after ${before}`);
    last.set(one.int(1), time);
  }
}

function assertDecimals(
  message: Raw,
  numbers: readonly number[],
  read: "double" | "float",
  where: string,
): void {
  for (const k of numbers) assert(message[read](k) > 0, `${where}: the option ${k} is ${message[read](k)}`);
}

/** What the published reader checks, in the order in which it does. */
const CHECKS: { readonly [what: string]: (file: PublishedFile) => void } = {
  "the header contains format version 2": ({ header }) => {
    assertEquals([header.numbers(), header.int(1)], [[1], 2n]);
  },
  "the pose graph comes first, the options second, and each once": ({ items }) => {
    assertEquals(items.slice(0, 2).map(({ kind }) => kind), [GRAPH, OPTIONS]);
    assert(items.slice(2).every(({ kind }) => kind >= SUBMAP && kind <= LANDMARK));
  },
  "kinds come in the order of the published writer": ({ items }) => {
    assert(items.every(({ kind }, k) => k === 0 || kind >= items[k - 1].kind));
  },
  "each trajectory has options and a unique number": (file) => {
    const ids = trajectories(file).map((one) => one.int(3));
    assertEquals(new Set(ids).size, ids.length);
    assertEquals(file.items[1].value.all(1).length, ids.length);
  },
  "options name a range sensor and have every required part": (file) => {
    for (const options of file.items[1].value.all(1)) {
      const sensors = options.all(1).map((sensor) => [Number(sensor.int(1)), sensor.text(2)] as const);
      assertEquals(sensors[0], [0, "range"]);
      assert(sensors.every(([type, id]) => type >= 0 && type <= 2 && id !== ""));
      const local = options.one(2).one(1);
      for (const part of [6, 7, 8, 11, 13, 20, 21]) {
        assert(local.has(part), `the options lack the part ${part}`);
      }
      assertDecimals(local, [2, 3, 14, 15, 16], "float", "local SLAM");
      assert(local.float(14) < local.float(15), "ranges");
      assert(
        local.int(19) > 0n && local.double(17) > 0,
        "how many scans are one, and how slow gravity follows",
      );
      for (const filter of [6, 20]) assertDecimals(local.one(filter), [1, 2, 3], "float", "adaptive filter");
      assertDecimals(local.one(7), [1, 2, 3, 4], "double", "correlative matcher");
      assertDecimals(local.one(8), [1, 2, 3], "double", "refinement");
      const solver = local.one(8).one(9);
      assert(solver.int(2) > 0n && solver.int(3) > 0n, "the solver's steps and threads");
      const submaps = local.one(11), grid = submaps.one(2), inserter = submaps.one(3);
      assert(submaps.int(1) > 0n, "scans in a submap");
      assertEquals([grid.int(1), inserter.int(1)], [1n, 1n], "grids of probabilities");
      assertAlmostEquals(grid.float(2), 0.05, 1e-6);
      assert(inserter.one(2).double(1) > 0.5, "a hit makes a cell likelier");
      assert(inserter.one(2).double(2) < 0.5 && inserter.one(2).double(2) > 0, "a miss makes it less likely");
      assertDecimals(local.one(13), [1, 2, 3], "double", "motion filter");
      assertDecimals(local.one(21).one(2), [1, 2], "double", "extrapolator");
      if (options.one(2).has(6)) {
        assert(options.one(2).one(6).int(1) >= 2n, "a trimmer keeps two submaps at least");
      }
    }
  },
  "submaps and nodes of the graph have unique non-negative numbers and poses": (file) => {
    for (const trajectory of trajectories(file)) {
      for (const [list, index, pose] of [[1, 7, 5], [2, 2, 1]]) {
        const numbers = trajectory.all(list).map((one) => one.int(index));
        assertEquals(new Set(numbers).size, numbers.length);
        assert(numbers.every((number, k) => number >= 0n && (k === 0 || number > numbers[k - 1])));
        for (const one of trajectory.all(list)) assertPose(one.one(pose), "a pose of the graph");
      }
    }
  },
  "the file has exactly the submaps and nodes of its graph": (file) => {
    const wanted = (list: number, index: number) =>
      trajectories(file).flatMap((one) => one.all(list).map((part) => `${one.int(3)} ${part.int(index)}`))
        .sort();
    assertEquals(of(file, SUBMAP).map((one) => idOf(one.one(1))).sort(), wanted(2, 2));
    assertEquals(of(file, NODE).map((one) => idOf(one.one(1))).sort(), wanted(1, 7));
  },
  "a submap is 2D and has a probability grid of the declared size": (file) => {
    for (const submap of of(file, SUBMAP)) {
      const flat = submap.one(2), grid = flat.one(4), limits = grid.one(1), size = limits.one(3);
      assert(submap.has(2) && !submap.has(3) && flat.has(4) && grid.has(4) && !grid.has(5));
      assertPose(flat.one(1), "a submap");
      assert(flat.int(2) > 0n, "scans of a submap");
      assert(limits.double(1) > 0 && size.int(1) > 0n && size.int(2) > 0n, "limits of a grid");
      for (const k of [1, 2]) assert(Number.isFinite(limits.one(2).double(k)));
      assertEquals(grid.ints(2).length, Number(size.int(1) * size.int(2)));
      assert(grid.ints(2).every((cell) => cell >= 0 && cell <= 32_767), "a cell beyond 15 bits");
      assertEquals([grid.float(6), grid.float(7)], [Math.fround(1 - Math.fround(0.9)), Math.fround(0.9)]);
    }
  },
  "the box of known cells contains every known cell and lies in the grid": (file) => {
    for (const submap of of(file, SUBMAP)) {
      const grid = submap.one(2).one(4), width = Number(grid.one(1).one(3).int(1));
      const cells = grid.ints(2);
      const [maxX, maxY, minX, minY] = [1, 2, 3, 4].map((k) => Number(grid.one(3).int(k)));
      assertEquals(grid.has(3), cells.some((cell) => cell !== 0));
      cells.forEach((cell, at) => {
        const x = at % width, y = Math.floor(at / width);
        assert(cell === 0 || (x >= minX && x <= maxX && y >= minY && y <= maxY), `the known cell ${x}, ${y}`);
      });
      assert(maxX < width && maxY < cells.length / width && minX >= 0 && minY >= 0);
    }
  },
  "a node has the time of its graph entry, a rotation, a cloud and a pose": (file) => {
    const times = new Map(
      trajectories(file).flatMap((one) =>
        one.all(1).map((node) => [`${one.int(3)} ${node.int(7)}`, node.int(1)])
      ),
    );
    for (const node of of(file, NODE)) {
      const data = node.one(5), cloud = data.one(3);
      assertEquals(data.int(1), times.get(idOf(node.one(1))));
      assertRotation(data.one(2), "gravity");
      assertPose(data.one(7), "a node");
      assert(data.has(3) && data.has(4) && data.has(5), "the clouds of a node");
      assertEquals([data.one(4).int(1), data.one(5).int(1)], [0n, 0n]);
      assertCloud(cloud);
    }
  },
  "times of nodes increase in each trajectory": (file) => {
    for (const trajectory of trajectories(file)) {
      const times = trajectory.all(1).map((node) => node.int(1));
      assert(times.every((time, k) => k === 0 || time > times[k - 1]));
    }
  },
  "each trajectory has its data once, with gravity and a rotation": (file) => {
    const ids = of(file, TRAJECTORY_DATA).map((one) => one.int(1));
    assertEquals(ids, trajectories(file).map((one) => one.int(3)));
    for (const one of of(file, TRAJECTORY_DATA)) {
      assert(one.double(2) > 9 && one.double(2) < 10);
      assertRotation(one.one(3), "the calibration of an IMU");
    }
  },
  "readings belong to a known trajectory, and their times increase": (file) => {
    const known = new Set(trajectories(file).map((one) => one.int(3)));
    for (const kind of [IMU, ODOMETRY, FIXED_FRAME]) {
      assertTimes(of(file, kind), `kind ${kind}`);
      for (const one of of(file, kind)) assert(known.has(one.int(1)));
    }
    for (const imu of of(file, IMU)) [2, 3].forEach((k) => assertVector(imu.one(2).one(k), "an IMU reading"));
    for (const odometry of of(file, ODOMETRY)) assertPose(odometry.one(2).one(2), "odometry");
  },
  "constraints join existing submaps and nodes, and no node is in a submap twice": (file) => {
    const submaps = new Set(of(file, SUBMAP).map((one) => idOf(one.one(1))));
    const nodes = new Set(of(file, NODE).map((one) => idOf(one.one(1))));
    const members = new Set<string>();
    for (const constraint of graphOf(file).all(2)) {
      const [submap, node] = [idOf(constraint.one(1)), idOf(constraint.one(2))];
      assert(submaps.has(submap) && nodes.has(node), `a constraint of ${submap} and ${node}`);
      assertPose(constraint.one(3), "a constraint");
      assert([0n, 1n].includes(constraint.int(5)) && constraint.double(6) > 0 && constraint.double(7) > 0);
      if (constraint.int(5) === 1n) continue;
      assert(!members.has(`${submap} in ${node}`));
      members.add(`${submap} in ${node}`);
    }
  },
};

/** Blocks of 1024 millimetres: how many points, where, and the low ten bits of each coordinate. */
function assertCloud(cloud: Raw): void {
  const data = cloud.ints(3);
  let points = 0;
  for (let at = 0; at < data.length;) {
    const count = data[at];
    assert(count > 0 && at + 4 + count <= data.length, "a block that is longer than its cloud");
    for (const block of data.slice(at + 1, at + 4)) {
      assert(Math.abs(block) <= 2 ** 13, "a point too far away");
    }
    for (const point of data.slice(at + 4, at + 4 + count)) assert(point >= 0 && point < 2 ** 30);
    points += count;
    at += 4 + count;
  }
  assertEquals(BigInt(points), cloud.int(1));
}

/** Twice round a ring, with odometry and an IMU, so that loops are closed. */
function driven(): Mapper {
  const way = [[0, 0], [11, 0], [11, 7], [0, 7], [0, 0], [5, 0]] as const;
  const poses = drive(way, 0.2, 0.2), odometry = drifting(poses, 0.01, 0.001);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  addAll(mapper, poses, odometry, 1_700_000_000);
  return mapper;
}

function addAll(
  mapper: Mapper,
  poses: ReturnType<typeof drive>,
  odometry: typeof poses,
  fromS: number,
): void {
  poses.forEach((pose, k) => {
    const timeS = fromS + 0.2 * k;
    mapper.addOdometry({ timeS, pose: odometry[k] });
    mapper.addImu({ timeS, linearAcceleration: [0.1, 0, 9.8], angularVelocity: [0, 0, 0] });
    const view = { beams: 181, fieldRad: Math.PI, noiseM: 0.01, seed: k };
    mapper.addScan({ timeS, points: viewFrom(RING, pose, view) });
    while (mapper.work());
  });
  mapper.finish();
}

/** Localizes on the map for a while: a second trajectory, which keeps few submaps. */
function localizedOn(map: MapState): MapState {
  const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
  const poses = drive([[0, 0], [11, 0], [11, 4]], 0.2, 0.2);
  addAll(robot, poses, poses, 1_700_001_000);
  return robot.state();
}

Deno.test("map files: pass every check of the published map reader", async (test) => {
  const unfinished = driven();
  const map = unfinished.state();
  const maps = { "a sample": sampleMap(), "a ring": map, "a ring that was localized on": localizedOn(map) };
  for (const [name, state] of Object.entries(maps)) {
    const file = opened(await bytesIn(mapFile(state, MAPPER_DEFAULTS)));
    for (const [what, check] of Object.entries(CHECKS)) {
      await test.step(`${name}: ${what}`, () => check(file));
    }
  }
});
