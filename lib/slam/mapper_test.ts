import { assert, assertEquals, assertLess, assertThrows } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { drifting, drive, rectangle, RING, viewFrom, type Wall } from "../../tests/support/floor_plan.ts";
import { bytesIn } from "../../tests/support/pieces.ts";
import {
  hasKillian,
  readKillian,
  readRecording,
  readSparse,
  recordingNames,
  RECORDINGS,
  sparseNames,
} from "../../tests/support/recordings.ts";
import { replay } from "./evaluation/replay.ts";
import { scoreRelations } from "./evaluation/relations.ts";
import { Mapper } from "./mapper.ts";
import { type MapState, type OdometryState, ticksOf } from "./map_state.ts";
import { MAPPER_DEFAULTS } from "./mapping.ts";
import { building, STARTS } from "./simulation/building.ts";
import { scanAt, SimulatedRobot } from "./simulation/robot.ts";
import { mapFile } from "./pbstream/map_file.ts";
import { between2d, compose2d, inverse2d, type Pose2d } from "./pose2d.ts";
import { ReadingHistory } from "./reading_history.ts";

const VIEW = { beams: 181, fieldRad: Math.PI, noiseM: 0.01 };
/** Twice around the ring. */
const WAY = [[0, 0], [11, 0], [11, 7], [0, 7], [0, 0], [11, 0], [11, 7], [0, 7], [0, 0]] as const;

/** From a standstill, as robots do. */
function start(): Pose2d[] {
  return Array.from({ length: 12 }, (_, k) => ({ x: 0.9 * ((k / 12) ** 2 - 1), y: 0, yaw: 0 }));
}

/** `pieces` of work after each scan: all there is, unless told otherwise. */
function mapped(poses: readonly Pose2d[], odometry?: readonly Pose2d[], pieces = Infinity): Mapper {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  poses.forEach((pose, k) => {
    const timeS = 1000 + 0.2 * k;
    if (odometry) mapper.addOdometry({ timeS, pose: odometry[k] });
    mapper.addScan({ timeS, points: viewFrom(RING, pose, { ...VIEW, seed: k }) });
    for (let piece = 0; piece < pieces && mapper.work(); piece++);
  });
  mapper.finish();
  return mapper;
}

/** The farthest that a node is from where the robot was, all as seen from the first. */
function worst(mapper: Mapper, poses: readonly Pose2d[]): number {
  const { nodes } = mapper.state();
  const first = nodes[0].globalPose;
  return Math.max(...nodes.map(({ ticks, globalPose }) => {
    const k = Math.round((Number(ticks - nodes[0].ticks) / 1e7) / 0.2);
    const off = between2d(between2d(poses[0], poses[k]), between2d(first, globalPose));
    return Math.hypot(off.x, off.y);
  }));
}

Deno.test("mapper: maps two laps of a corridor ring although the odometry drifts by a metre", () => {
  const poses = [...start(), ...drive(WAY, 0.15, 0.15)];
  const odometry = drifting(poses, 0.03, 0.002);
  const off = between2d(odometry[0], odometry.at(-1)!);
  assert(Math.hypot(off.x, off.y) > 1, "the odometry of this test should be bad");
  const mapper = mapped(poses, odometry);
  // The bare stretch of the first corridor comes out shorter than it is.
  assertLess(worst(mapper, poses), 0.5);
  const { constraints, submaps } = mapper.state();
  assert(constraints.some(({ kind }) => kind === "inter"));
  assert(submaps.filter(({ finished }) => finished).length >= 2);
  for (const { grid } of submaps) assert(grid.cells.every((one) => one <= 32767));
});

/** Maps a way in another building, with a lidar that looks all around, but not far. */
function mappedNearby(walls: readonly Wall[], poses: readonly Pose2d[], odometry: readonly Pose2d[]): Mapper {
  const options = { ...MAPPER_DEFAULTS, maxRangeM: 12, missingDataRayLengthM: 12 };
  const mapper = new Mapper({ mode: "create", options });
  const view = { beams: 240, fieldRad: 2 * Math.PI, noiseM: 0.02 };
  poses.forEach((pose, k) => {
    const timeS = 1000 + 0.2 * k;
    mapper.addOdometry({ timeS, pose: odometry[k] });
    mapper.addScan({ timeS, points: viewFrom(walls, pose, { ...view, seed: k }) });
    while (mapper.work());
  });
  mapper.finish();
  return mapper;
}

Deno.test("mapper: closures in a corridor without doors do not shorten it", () => {
  const poses = drive([[2, 1.2], [43, 1.2], [2, 1.2]], 0.2, 0.2);
  const mapper = mappedNearby(rectangle(0, 0, 45, 2.4), poses, drifting(poses, 0.01, 0));
  assert(mapper.state().constraints.some(({ kind }) => kind === "inter"));
  assertLess(worst(mapper, poses), 0.8);
});

/** Where a mapper takes a slow robot on a straight way in a building, and where it is. */
function slowly(walls: readonly Wall[], way: readonly (readonly [number, number])[], speedMps: number) {
  const poses = drive(way, speedMps * 0.2, 0.2);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  poses.forEach((pose, k) => {
    const timeS = 1000 + 0.2 * k;
    mapper.addOdometry({ timeS, pose });
    const view = { beams: 360, fieldRad: 2 * Math.PI, noiseM: 0.01, seed: k };
    mapper.addScan({ timeS, points: viewFrom(walls, pose, view) });
    while (mapper.work());
  });
  const off = between2d(between2d(poses[0], poses.at(-1)!), mapper.pose()!);
  return Math.hypot(off.x, off.y);
}

Deno.test("mapper: the pattern of the beams does not hold back a slow robot with right odometry", () => {
  assertLess(slowly(rectangle(-5, -4, 5, 4), [[-3, -2], [0, -2]], 0.1), 0.05);
  // A corridor whose ends no lidar sees, and a large court.
  assertLess(slowly(rectangle(0, -1.2, 90, 1.2), [[40, 0], [43, 0]], 0.1), 0.05);
  assertLess(slowly(rectangle(-14, -11, 12, 15), [[0, 0], [2, 1]], 0.05), 0.05);
});

const BACKWARDS = { x: 0, y: 0, yaw: Math.PI };
const RESTARTED = { x: 3, y: 1, yaw: 1 };
/** Odometry that the scans contradict, by pose and number of the scan. */
const CONTRADICTED: { readonly [what: string]: (pose: Pose2d, k: number) => Pose2d } = {
  "never moves": () => ({ x: 0, y: 0, yaw: 0 }),
  "is of a robot that drives backwards": (pose) => compose2d(compose2d(BACKWARDS, pose), BACKWARDS),
  "jumps as its sensor restarts": (pose, k) => k < 150 ? pose : compose2d(RESTARTED, pose),
};
for (const [what, odometryAt] of Object.entries(CONTRADICTED)) {
  Deno.test(`mapper: maps a ring although odometry ${what}`, () => {
    const poses = [...start(), ...drive(WAY.slice(0, 5), 0.15, 0.15)];
    const mapper = mapped(poses, poses.map((pose, k) => odometryAt(between2d(poses[0], pose), k)));
    assertLess(worst(mapper, poses), 0.5);
  });
}

Deno.test("mapper: one scan with a time far ahead, or a time that is set back, does not stop it", () => {
  const poses = drive(WAY.slice(0, 3), 0.1, 0.2);
  for (const wrongS of [(k: number) => k === 30 ? 1e5 : 0, (k: number) => k > 30 ? -3600 : 0]) {
    const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    let taken = 0;
    for (const [k, pose] of poses.entries()) {
      const timeS = 10_000 + 0.2 * k + wrongS(k);
      mapper.addOdometry({ timeS, pose });
      if (mapper.addScan({ timeS, points: viewFrom(RING, pose, { ...VIEW, seed: k }) })) taken++;
      while (mapper.work());
    }
    assertEquals(taken, poses.length - 9);
    const off = between2d(between2d(poses[0], poses.at(-1)!), mapper.pose()!);
    // It saw nothing of a metre of its way, most of it in a bare corridor.
    assertLess(Math.hypot(off.x, off.y), 0.8);
  }
});

Deno.test("mapper: a movement that is not later than the last of its kind is left out", () => {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const odometry = (timeS: number) => mapper.addOdometry({ timeS, pose: { x: 0, y: 0, yaw: 0 } });
  const imu = (timeS: number) =>
    mapper.addImu({ timeS, linearAcceleration: [0, 0, 9.8], angularVelocity: [0, 0, 0] });
  for (const add of [odometry, imu]) assertEquals([2, 2, 1, 3].map(add), [true, false, false, true]);
});

for (const withOdometry of [true, false]) {
  Deno.test(`mapper: equal readings ${withOdometry ? "with" : "without"} odometry give an identical file`, async () => {
    const poses = drive(WAY.slice(0, 4), 0.2, 0.2);
    const fileOf = () =>
      bytesIn(mapFile(mapped(poses, withOdometry ? poses : undefined).state(), MAPPER_DEFAULTS));
    assertEquals(await fileOf(), await fileOf());
  });
}

Deno.test("mapper: the map stays accurate if the robot drives on during a stepwise optimization", () => {
  const poses = [...start(), ...drive(WAY, 0.15, 0.15)];
  const odometry = drifting(poses, 0.03, 0.002);
  const mapper = mapped(poses, odometry, 1);
  assertLess(worst(mapper, poses), 0.5);
  assert(mapper.state().constraints.some(({ kind }) => kind === "inter"));
});

Deno.test("mapper: optimizes a given map step by step before it locates the robot", () => {
  const poses = [...start(), ...drive(WAY.slice(0, 6), 0.2, 0.2)];
  const map = mapped(poses, drifting(poses, 0.03, 0.002)).state();
  const bent = map.nodes.map((node, k) => {
    const { x, y, yaw } = node.globalPose;
    return { ...node, globalPose: { x: x + 0.002 * k, y, yaw } };
  });
  const robot = new Mapper({ mode: "update", options: MAPPER_DEFAULTS, map: { ...map, nodes: bent } });
  robot.finishLater();
  let pieces = 0;
  while (robot.work()) pieces++;
  assert(pieces > map.nodes.length, "every node is a piece of its own");
  robot.state().nodes.forEach(({ globalPose: { x, y } }, k) => {
    const was = map.nodes[k].globalPose;
    assertLess(Math.hypot(x - was.x, y - was.y), 0.1);
  });
});

Deno.test("mapper: an updated map grows from the robot's place, and keeps its old content", () => {
  const poses = [...start(), ...drive(WAY.slice(0, 4), 0.2, 0.2)];
  const map = mapped(poses, poses).state();
  for (const optimizeEveryNodes of [3, 0]) growsFromItsPlace(poses, map, optimizeEveryNodes);
});

function growsFromItsPlace(poses: readonly Pose2d[], map: MapState, optimizeEveryNodes: number): void {
  const from = 70;
  const robot = new Mapper({ mode: "update", options: { ...MAPPER_DEFAULTS, optimizeEveryNodes }, map });
  for (let k = from; k < from + 30; k++) {
    const timeS = 5000 + 0.2 * k;
    // Its odometry begins at its own origin.
    robot.addOdometry({ timeS, pose: between2d(poses[from], poses[k]) });
    robot.addScan({ timeS, points: viewFrom(RING, poses[k], { ...VIEW, seed: 7 + k }) });
    while (robot.work());
  }
  const found = robot.pose();
  assert(found, "the robot finds itself");
  const wanted = between2d(poses[0], poses[from + 29]);
  const off = between2d(wanted, between2d(map.nodes[0].globalPose, found));
  assertLess(Math.hypot(off.x, off.y), 0.3);
  assertLess(Math.abs(off.yaw), 0.1);
  robot.finish();
  const { nodes, submaps } = robot.state();
  const before = submaps.filter(({ trajectory }) => trajectory === map.submaps[0].trajectory);
  assertEquals(before.map(({ grid }) => grid), map.submaps.map(({ grid }) => grid));
  assert(nodes.length > map.nodes.length);
}

/** Seconds, and what the robot does meanwhile, at the western end of the corridor of an office. */
const IN_THE_OFFICE = [[4.3, 0.7, 0], [0.7, 0, 1.05], [1.6, 0.5, 0], [0.7, 0, -1.05], [2.2, 0.7, 0]];

interface OfficeDrive {
  readonly fromS: number;
  readonly seed: number;
  /** How many people walk about. */
  readonly people: number;
  /** How long the robot stands before it drives. */
  readonly standsS: number;
}

/** Drives there, and gives how far from the truth the robot is believed to be. */
function missedInTheOffice(mapper: Mapper, { fromS, seed, people, standsS }: OfficeDrive): number {
  const office = building("office", people), { x, y } = STARTS.office;
  const robot = new SimulatedRobot({ building: office, start: { x, y, yaw: 0 }, wheelSlip: 0.05, seed: 1 });
  const random = randomFrom(seed), lidar = { beams: 360, maxRangeM: 12, noiseM: 0.01 };
  let timeS = fromS, scanS = fromS + 0.2 * random();
  for (const [seconds, linearMps, angularRps] of [[standsS, 0, 0], ...IN_THE_OFFICE]) {
    robot.drive(timeS, { linearMps, angularRps });
    for (const endS = timeS + seconds; timeS < endS; timeS += 0.05) {
      mapper.addOdometry({ timeS, pose: robot.odometry(timeS) });
      const angularVelocity = [0, 0, robot.motion(timeS).angularRps] as const;
      mapper.addImu({ timeS, linearAcceleration: robot.acceleration(timeS), angularVelocity });
      if (timeS < scanS) continue;
      scanS += 0.2;
      const { points: flat } = scanAt(office, { timeS, at: robot.truth(timeS) }, lidar, random);
      const points = new Float32Array(1.5 * flat.length);
      for (let k = 0; k < flat.length / 2; k++) points.set(flat.subarray(2 * k, 2 * k + 2), 3 * k);
      mapper.addScan({ timeS, points });
      while (mapper.work());
    }
  }
  const pose = mapper.pose(), truth = robot.truth(timeS);
  return pose ? Math.hypot(pose.x + x - truth.x, pose.y + y - truth.y) : Infinity;
}

Deno.test("mapper: a person in front of the robot at start does not cause a lasting wrong place", () => {
  // With others, nobody stood in the way for long enough.
  for (const seed of [71, 73, 87, 113]) {
    const first = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    missedInTheOffice(first, { fromS: 1000 + Math.floor(37.7 * seed), seed, people: 1, standsS: 1 });
    const next = new Mapper({ mode: "update", options: MAPPER_DEFAULTS, map: first.state() });
    const again = { fromS: 189_500 + Math.floor(37.7 * seed), seed, people: 1, standsS: 1 };
    assertLess(missedInTheOffice(next, again), 0.5, `seed ${seed}`);
  }
});

Deno.test("mapper: a robot standing in a corridor of a finished map is not placed in a similar corridor", () => {
  // With these seeds, refinement alone missed the place where the robot is.
  for (const seed of [90, 94, 98, 113]) {
    const first = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    missedInTheOffice(first, { fromS: 1000 + Math.floor(37.7 * seed), seed, people: 0, standsS: 1 });
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map: first.state() });
    const again = { fromS: 189_500 + Math.floor(37.7 * seed), seed: seed + 5000, people: 0, standsS: 4 };
    assertLess(missedInTheOffice(robot, again), 0.5, `seed ${seed}`);
  }
});

Deno.test("mapper: a robot placed in a similar wrong place is soon relocated", () => {
  const first = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  missedInTheOffice(first, { fromS: 1000, seed: 1, people: 0, standsS: 1 });
  // The other way round in the corridor: most of what the robot sees is there, too.
  for (const x of [3, 4.1, 4.8, 6.9]) {
    const pose = { x, y: 0, yaw: Math.PI };
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map: first.state(), pose });
    const again = { fromS: 189_500, seed: 2, people: 0, standsS: 1 };
    assertLess(missedInTheOffice(robot, again), 0.5, `from ${x}`);
  }
});

Deno.test("mapper: skips a scan that is not newer or has no point in range", () => {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const points = viewFrom(RING, { x: 0, y: 0, yaw: 0 }, { ...VIEW, seed: 1 });
  assertEquals(mapper.pose(), undefined);
  assertEquals(
    mapper.addScan({ timeS: 1, points: Float32Array.of(0, 0, 0, NaN, 1, 2, Infinity, 0, 0) }),
    false,
  );
  assertEquals(mapper.addScan({ timeS: 2, points }), true);
  assertEquals(mapper.addScan({ timeS: 2, points }), false);
  assertEquals(mapper.pose(), { x: 0, y: 0, yaw: 0 });
});

Deno.test("mapper: a robot that sees nothing in range goes on by odometry, and matches when it sees walls again", () => {
  const poses = drive([[-8, 0], [8, 0]], 0.1, 0.1), walls = rectangle(-12, -3, 12, 3);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const nothing = Float32Array.of(MAPPER_DEFAULTS.maxRangeM + 5, 0, 0, MAPPER_DEFAULTS.maxRangeM + 6, 1, 0);
  let worstM = 0;
  poses.forEach((pose, k) => {
    const timeS = 1000 + 0.2 * k, isBlind = k >= 60 && k < 120;
    mapper.addOdometry({ timeS, pose });
    const points = isBlind ? nothing : viewFrom(walls, pose, { ...VIEW, seed: k });
    assertEquals(mapper.addScan({ timeS, points }), !isBlind);
    while (mapper.work());
    const off = between2d(between2d(poses[0], pose), mapper.pose()!);
    worstM = Math.max(worstM, Math.hypot(off.x, off.y));
  });
  assertLess(worstM, 0.05);
});

/** Pieces of recordings: their first scans, one in `every`, and more than `used` relations. */
const PIECES = [
  { recording: "aces", scans: 1200, every: 1, withOdometry: true, used: 100 },
  { recording: "aces", scans: 1200, every: 1, withOdometry: false, used: 100 },
  { recording: "intel", scans: 4000, every: 10, withOdometry: true, used: 700 },
];
for (const { recording, scans, every, withOdometry, used } of PIECES) {
  const what = every === 1 ? "the first scans" : `one scan in ${every}`;
  Deno.test({
    // The reason to be ignored: the recordings are no part of the source tree.
    name: `mapper: maps ${what} of ${recording}, ${withOdometry ? "with" : "without"} odometry`,
    ignore: !recordingNames(RECORDINGS).includes(recording),
    fn() {
      const { log, relations } = readRecording(RECORDINGS, recording);
      const piece = { scans: log.scans.slice(0, scans), odometry: [] };
      const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
      const trajectory = replay(piece, mapper, { withOdometry, every });
      const endS = trajectory.at(-1)!.timeS;
      const score = scoreRelations(
        trajectory,
        relations.filter(({ firstS, secondS }) => Math.max(firstS, secondS) < endS),
      );
      assert(score.used > used);
      assertLess(score.translationM.mean, 0.06);
      assertEquals(score.overMetre, 0);
    },
  });
}

const SPARSE = "aces";
Deno.test({
  name: "mapper: closes loops although scans are a metre apart",
  ignore: !sparseNames(RECORDINGS).includes(SPARSE),
  fn() {
    const { log, relations } = readSparse(RECORDINGS, SPARSE);
    const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    const { used, translationM } = scoreRelations(replay(log, mapper, { withOdometry: true }), relations);
    assert(used > 600);
    assertLess(translationM.mean, 0.1);
  },
});

Deno.test({
  name: "mapper: a corridor that looks alike for metres closes no wrong loop",
  ignore: !hasKillian(),
  fn() {
    const { log, relations } = readKillian(620);
    const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    const trajectory = replay(log, mapper, { withOdometry: true });
    const { used, translationM, overMetre } = scoreRelations(trajectory, relations);
    assert(used > 300);
    assertLess(translationM.mean, 0.05);
    assertEquals(overMetre, 0);
  },
});

Deno.test("mapper: localizes on a finished map, adds only a few submaps, and never moves the map", () => {
  const poses = drive(WAY.slice(0, 6), 0.2, 0.2);
  const map = mapped(poses, poses).state();
  const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
  assertEquals(robot.pose(), undefined);
  assertEquals(robot.localization(), { place: "not localized", confidence: 0 });
  const way = poses.slice(100, 140);
  way.forEach((pose, k) => {
    robot.addOdometry({ timeS: 9000 + 0.2 * k, pose });
    robot.addScan({ timeS: 9000 + 0.2 * k, points: viewFrom(RING, pose, { ...VIEW, seed: 5000 + k }) });
    while (robot.work());
  });
  const found = robot.pose();
  assert(found);
  const { place, confidence } = robot.localization();
  assertEquals(place, "localized");
  assert(confidence > 0.5 && confidence <= 1);
  const off = between2d(between2d(poses[0], way.at(-1)!), found);
  assertLess(Math.hypot(off.x, off.y), 0.3);
  const { submaps } = robot.state();
  assert(submaps.filter(({ trajectory }) => trajectory === 1).length <= MAPPER_DEFAULTS.maxSubmapsToKeep);
  assertEquals(
    submaps.filter(({ trajectory }) => trajectory === 0).map(({ globalPose }) => globalPose),
    map.submaps.map(({ globalPose }) => globalPose),
  );
});

Deno.test("mapper: a robot that is carried away finds itself again", () => {
  const poses = [...start(), ...drive(WAY.slice(0, 6), 0.2, 0.2)];
  const map = mapped(poses, poses).state();
  const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
  let timeS = 9000;
  const places = new Set<string>();
  const offAfter = (way: readonly Pose2d[], odometry: readonly Pose2d[]) => {
    way.forEach((pose, k) => {
      timeS += 0.2;
      robot.addOdometry({ timeS, pose: odometry[k] });
      robot.addScan({ timeS, points: viewFrom(RING, pose, { ...VIEW, seed: 6000 + k }) });
      while (robot.work());
      places.add(robot.localization().place);
    });
    const off = between2d(
      between2d(poses[0], way.at(-1)!),
      between2d(map.nodes[0].globalPose, robot.pose()!),
    );
    return Math.hypot(off.x, off.y);
  };
  const before = poses.slice(100, 130), after = poses.slice(20, 50);
  assertLess(offAfter(before, before), 0.3);
  // The wheels did not turn meanwhile.
  const shift = compose2d(before.at(-1)!, inverse2d(after[0]));
  places.clear();
  assertLess(offAfter(after, after.map((pose) => compose2d(shift, pose))), 0.3);
  assertEquals(places, new Set(["localized", "lost"]), "it says that it is lost until it is found");
  assertEquals(robot.localization().place, "localized");
});

Deno.test("mapper: a robot in a building that is not on the map is never claimed to be localized", () => {
  const poses = [...start(), ...drive(WAY.slice(0, 5), 0.2, 0.2)];
  const map = mapped(poses, poses).state();
  const elsewhere: [readonly Wall[], [number, number][]][] = [
    [rectangle(-5, -4, 5, 4), [[-3, -2], [0, -2], [0, -1]]],
    [rectangle(0, -1.2, 20, 1.2), [[3, 0], [6, 0]]],
  ];
  // Half a view of a corner looks like every corner.
  const view = { beams: 361, fieldRad: 2 * Math.PI, noiseM: 0.01 };
  for (const [walls, way] of elsewhere) {
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
    const places = new Set<string>();
    drive(way, 0.2, 0.2).forEach((pose, k) => {
      const timeS = 9000 + 0.2 * k;
      robot.addOdometry({ timeS, pose });
      robot.addScan({ timeS, points: viewFrom(walls, pose, { ...view, seed: 5000 + k }) });
      while (robot.work());
      places.add(robot.localization().place);
    });
    assertEquals([...places], ["not localized"]);
    assertEquals(robot.pose(), undefined);
  }
});

Deno.test("mapper: localize mode follows a robot that leaves the map", () => {
  const poses = [...start(), ...drive(WAY.slice(0, 2), 0.2, 0.2)];
  const map = mapped(poses, poses).state();
  const way = drive(WAY.slice(0, 4), 0.2, 0.2);
  const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
  way.forEach((pose, k) => {
    robot.addOdometry({ timeS: 9000 + 0.2 * k, pose });
    robot.addScan({ timeS: 9000 + 0.2 * k, points: viewFrom(RING, pose, { ...VIEW, seed: 5000 + k }) });
    while (robot.work());
  });
  const off = between2d(between2d(poses[0], way.at(-1)!), between2d(map.nodes[0].globalPose, robot.pose()!));
  assertLess(Math.hypot(off.x, off.y), 0.6);
});

Deno.test("mapper: a map keeps its odometry and IMU readings, and the readings of the map it extends", () => {
  const drive = (mapper: Mapper, fromS: number) => {
    for (let k = 0; k < 5; k++) {
      const timeS = fromS + 0.2 * k;
      assert(mapper.addImu({ timeS, linearAcceleration: [0, 0, 9.8], angularVelocity: [0, 0, 0.1 * k] }));
      assert(mapper.addOdometry({ timeS, pose: { x: 0.1 * k, y: 0, yaw: 0 } }));
      mapper.addScan({ timeS, points: viewFrom(RING, { x: 0.1 * k, y: 0, yaw: 0 }, { ...VIEW, seed: k }) });
    }
    // A reading that is not later than the last is not kept twice.
    mapper.addOdometry({ timeS: fromS, pose: { x: 9, y: 9, yaw: 0 } });
    return mapper.state();
  };
  const first = drive(new Mapper({ mode: "create", options: MAPPER_DEFAULTS }), 1000);
  const [{ trajectory, odometry, imu, submapsKept }] = first.trajectories;
  assertEquals([first.trajectories.length, trajectory, submapsKept], [1, 0, undefined]);
  assertEquals(odometry.map(({ pose }) => pose.x), [0, 1, 2, 3, 4].map((k) => 0.1 * k));
  assertEquals(imu[3], {
    ticks: ticksOf(1000 + 0.2 * 3),
    linearAcceleration: [0, 0, 9.8],
    angularVelocity: [0, 0, 0.1 * 3],
  });
  for (const mode of ["update", "localize"] as const) {
    const { trajectories } = drive(new Mapper({ mode, options: MAPPER_DEFAULTS, map: first }), 2000);
    assertEquals(trajectories[0], first.trajectories[0]);
    assertEquals([trajectories[1].trajectory, trajectories[1].odometry.length, trajectories[1].imu.length], [
      1,
      5,
      5,
    ]);
    assertEquals(trajectories[1].submapsKept, mode === "localize" ? 3 : undefined);
  }
});

Deno.test("ReadingHistory: a full history keeps evenly spaced readings", () => {
  const history = new ReadingHistory<OdometryState>(4);
  for (let k = 0; k < 20; k++) history.add({ ticks: BigInt(k), pose: { x: k, y: 0, yaw: 0 } });
  const kept = history.kept.map(({ pose }) => pose.x);
  assert(kept.length <= 4);
  assertEquals([kept[0], new Set(kept.slice(1).map((x, k) => x - kept[k])).size], [0, 1]);
});

Deno.test("mapper: update mode removes covered submaps and leaves a consistent map", () => {
  const poses = drive(WAY.slice(0, 3), 0.2, 0.2);
  const map = mapped(poses, poses).state();
  const options = { ...MAPPER_DEFAULTS, freshSubmapsCount: 1, scansPerSubmap: 15, optimizeEveryNodes: 3 };
  const robot = new Mapper({ mode: "update", options, map, pose: map.nodes[0].globalPose });
  [...poses, ...poses.toReversed(), ...poses].forEach((pose, k) => {
    const timeS = 9000 + 0.2 * k;
    robot.addOdometry({ timeS, pose });
    robot.addScan({ timeS, points: viewFrom(RING, pose, { ...VIEW, seed: 5000 + k }) });
    while (robot.work());
  });
  const { submaps, nodes, constraints } = robot.state();
  const left = submaps.filter(({ trajectory }) => trajectory === 0);
  assert(left.length < map.submaps.length, `${left.length} of ${map.submaps.length} old submaps are left`);
  const all = new Set(submaps.map(({ trajectory, index }) => `${trajectory} ${index}`));
  const seen = new Set(nodes.map(({ trajectory, index }) => `${trajectory} ${index}`));
  for (const { submap, node } of constraints) {
    assert(all.has(`${submap.trajectory} ${submap.index}`) && seen.has(`${node.trajectory} ${node.index}`));
  }
});

Deno.test("mapper: localize without a map and create with a map are errors", () => {
  const options = MAPPER_DEFAULTS;
  assertThrows(() => new Mapper({ mode: "localize", options }), RangeError, "no map is given to localize");
  const map = { trajectories: [], submaps: [], nodes: [], constraints: [] };
  assertThrows(() => new Mapper({ mode: "create", options, map }), RangeError, "begins with no other");
});
