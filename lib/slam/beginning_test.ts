import { assertEquals, assertLess } from "@std/assert";
import { rectangle, viewFrom, type Wall } from "../../tests/support/floor_plan.ts";
import { bytesIn } from "../../tests/support/pieces.ts";
import { isWrongUnder, NO_BELIEFS } from "./local/odometry/beliefs.ts";
import { MapBuilder } from "./map_builder.ts";
import { Mapper } from "./mapper.ts";
import { MAPPER_DEFAULTS } from "./mapping.ts";
import { mapFile } from "./pbstream/map_file.ts";
import { between2d, compose2d, type Pose2d } from "./pose2d.ts";

const LATE_S = 0.2;
const HALL: readonly Wall[] = [...rectangle(-4, -4, 8, 4), [2, 4, 2.6, 3.2], [5, -4, 5, -3.3]];
const SPEED_MPS = 0.7;
const DRIVEN_S = 4;
const VIEW = { beams: 118, fieldRad: 118 * Math.PI / 180, noiseM: 0.05 };

/** Starts at once, drives at a steady speed, stops, and turns this way and that. */
function ride(timeS: number): Pose2d {
  const drivenS = Math.min(DRIVEN_S, Math.max(0, timeS));
  return { x: SPEED_MPS * drivenS, y: 0, yaw: 0.8 * Math.sin(Math.max(0, timeS - DRIVEN_S - 1)) };
}

/** Wheels that turn a twentieth farther than the robot drives. */
function slipping(timeS: number): Pose2d {
  const { x, y, yaw } = ride(timeS);
  return { x: x / 0.95, y, yaw };
}

function play(mapper: Mapper | MapBuilder, odometry: (timeS: number) => Pose2d): void {
  if (mapper instanceof Mapper) mapper.keepScans();
  for (let k = 0; k <= 120; k++) {
    const timeS = 0.1 * k;
    mapper.addOdometry({ timeS: 1000 + timeS, pose: odometry(timeS) });
    mapper.addScan({ timeS: 1000 + timeS, points: viewFrom(HALL, ride(timeS), { ...VIEW, seed: k }) });
    while (mapper.work());
  }
  mapper.finish();
}

/** How far the robot drove until a time according to the map. */
function drivenM(mapper: Mapper | MapBuilder, timeS = 12): number {
  if (mapper instanceof Mapper) return between2d(mapper.scanPose(1000)!, mapper.scanPose(1000 + timeS)!).x;
  const { node, offset } = mapper.lastScan()!;
  return between2d(mapper.nodePose(0), compose2d(mapper.nodePose(node), offset)).x;
}

/** The map ends within `mostM` of the truth, and nearer than one that never begins again. */
function assertMappedAgain(odometry: (timeS: number) => Pose2d, mostM: number): void {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const once = new MapBuilder({ mode: "create", options: MAPPER_DEFAULTS });
  play(mapper, odometry);
  play(once, odometry);
  const offM = Math.abs(drivenM(mapper) - DRIVEN_S * SPEED_MPS);
  assertLess(offM, mostM);
  assertLess(offM, Math.abs(drivenM(once) - DRIVEN_S * SPEED_MPS));
}

Deno.test("mapper: a start that late odometry missed is mapped again once its delay is known", () => {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  play(mapper, (timeS) => ride(timeS - LATE_S));
  // Without a new beginning, 13 cm are missing.
  assertLess(Math.abs(drivenM(mapper) - DRIVEN_S * SPEED_MPS), 0.04);
});

Deno.test("mapper: scans from before a map began again have their places in the new map", () => {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  play(mapper, (timeS) => ride(timeS - LATE_S));
  for (let k = 1; k <= 120; k++) {
    const timeS = 0.1 * k;
    assertLess(Math.abs(drivenM(mapper, timeS) - ride(timeS).x), 0.04, `scan ${k}`);
  }
});

Deno.test("mapper: a drive with wheels that slip is mapped again once the scans refute them", () => {
  assertMappedAgain(slipping, 0.05);
});

Deno.test("mapper: a drive with odometry that froze, and never made up for it, is mapped again without the odometry of that time", () => {
  const fromS = 1.5, toS = 3;
  const frozen = (timeS: number) => {
    if (timeS < toS) return ride(Math.min(timeS, fromS));
    const { x, yaw } = ride(timeS);
    return { x: x - (toS - fromS) * SPEED_MPS, y: 0, yaw };
  };
  assertMappedAgain(frozen, 0.025);
});

Deno.test("mapper: a map that began again has the same nodes, and the same readings give the same bytes", async () => {
  const odometry = (timeS: number) => ride(timeS - LATE_S);
  const [first, second] = [1, 2].map(() => new Mapper({ mode: "create", options: MAPPER_DEFAULTS }));
  const once = new MapBuilder({ mode: "create", options: MAPPER_DEFAULTS });
  for (const one of [first, second, once]) play(one, odometry);
  // Later nodes were made once the delay was known: from then on the mapper waits for odometry.
  const timesOf = (mapper: Mapper | MapBuilder) =>
    mapper.state().nodes.slice(0, 14).map(({ index, ticks }) => [index, ticks]);
  assertEquals(timesOf(first), timesOf(once));
  const bytesOf = (mapper: Mapper) => bytesIn(mapFile(mapper.state(), MAPPER_DEFAULTS));
  assertEquals(await bytesOf(first), await bytesOf(second));
});

Deno.test("odometry beliefs: another delay, a refutation, a proof of the turns and a time when it froze make earlier maps wrong", () => {
  const refuted = { ...NO_BELIEFS, verdicts: { translation: "refuted", rotation: "open" } } as const;
  const proven = { ...NO_BELIEFS, verdicts: { translation: "proven", rotation: "proven" } } as const;
  const turns = { ...NO_BELIEFS, verdicts: { translation: "open", rotation: "proven" } } as const;
  const ways = { ...NO_BELIEFS, verdicts: { translation: "proven", rotation: "open" } } as const;
  assertEquals(isWrongUnder(NO_BELIEFS, { ...NO_BELIEFS, delayS: 0.2 }), true);
  assertEquals(isWrongUnder(NO_BELIEFS, refuted), true);
  assertEquals(isWrongUnder(refuted, refuted), false);
  assertEquals(isWrongUnder(NO_BELIEFS, proven), true);
  assertEquals(isWrongUnder(NO_BELIEFS, turns), true);
  assertEquals(isWrongUnder(turns, proven), false);
  assertEquals(isWrongUnder(NO_BELIEFS, ways), false);
  assertEquals(isWrongUnder(refuted, NO_BELIEFS), false);
  const frozen = { ...NO_BELIEFS, frozenAtS: [1000] };
  assertEquals(isWrongUnder(NO_BELIEFS, frozen), true);
  assertEquals(isWrongUnder(frozen, { ...frozen, frozenAtS: [1000] }), false);
  assertEquals(isWrongUnder(frozen, { ...frozen, frozenAtS: [1000, 1020] }), true);
  const scaled = { ...NO_BELIEFS, scale: { translation: 0.95, rotation: 1 } };
  assertEquals(isWrongUnder(NO_BELIEFS, scaled), true);
  assertEquals(isWrongUnder(scaled, { ...scaled, scale: { translation: 0.952, rotation: 1 } }), false);
});
