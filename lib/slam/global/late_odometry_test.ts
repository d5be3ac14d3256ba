import { assert, assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { rectangle, viewFrom, type Wall } from "../../../tests/support/floor_plan.ts";
import { LEVEL } from "../local/gravity.ts";
import { Mapper } from "../mapper.ts";
import { MAPPER_DEFAULTS } from "../mapping.ts";
import { type OdometryState, ticksOf } from "../map_state.ts";
import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "../pose2d.ts";
import { LateOdometry } from "./late_odometry.ts";
import type { MapNode } from "./map/parts.ts";

const LATE_S = 0.2;

/** A robot that stands for a second, and then drives ahead at 1 m/s. */
function drivenAt(timeS: number): Pose2d {
  return { ...IDENTITY_2D, x: Math.max(0, timeS - 1001) };
}

/** Late odometry of it. */
const READINGS: readonly OdometryState[] = Array.from({ length: 100 }, (_, k) => {
  const timeS = 1000 + 0.05 * k;
  return { ticks: ticksOf(timeS), pose: drivenAt(timeS - LATE_S) };
});

function nodeAt(timeS: number, localPose: Pose2d): MapNode {
  return {
    trajectory: 0,
    index: 0,
    ticks: ticksOf(timeS),
    localPose,
    gravityAlignment: LEVEL,
    points: new Float64Array(0),
    variable: 0,
    pathM: 0,
    submaps: [],
  };
}

Deno.test("LateOdometry: a motion that followed late odometry is replaced by that of the right time", () => {
  const late = new LateOdometry();
  const standing = nodeAt(1001, drivenAt(1001 - LATE_S)), driving = nodeAt(1002, drivenAt(1002 - LATE_S));
  assertEquals(late.correction(standing, driving, READINGS), undefined);

  late.note(ticksOf(1003), LATE_S);
  assertAlmostEquals(late.correction(standing, driving, READINGS)!.x, 1, 1e-6);
  // A motion that the scans corrected stays, and one that odometry does not show.
  assertEquals(late.correction(standing, nodeAt(1002, drivenAt(1002)), READINGS), undefined);
  assertEquals(late.correction(standing, nodeAt(1002, { ...IDENTITY_2D, x: 3 }), READINGS), undefined);
  // At a steady speed, late odometry shows the right motion.
  const later = nodeAt(1002.5, drivenAt(1002.5 - LATE_S));
  assertEquals(late.correction(driving, later, READINGS), undefined);
  // The pose that the new delay corrected made a step.
  const corrected = nodeAt(1003.5, drivenAt(1003.5));
  assertAlmostEquals(late.correction(later, corrected, READINGS)!.x, 1, 1e-6);
  // Odometry says nothing of times before and after it.
  assertEquals(late.correction(nodeAt(999, IDENTITY_2D), driving, READINGS), undefined);
});

Deno.test("LateOdometry: a correction waits for a node with the new delay, and for its odometry", () => {
  const late = new LateOdometry(), newest = READINGS[60];
  const before = nodeAt(1001, IDENTITY_2D), after = nodeAt(1002.5, IDENTITY_2D);
  late.note(ticksOf(1001), 0);
  assertEquals(late.takeDue(after, newest), false);
  late.note(ticksOf(1002), LATE_S);
  assertEquals(late.takeDue(before, newest), false);
  assertEquals(late.takeDue(after, READINGS[53]), false);
  assert(late.takeDue(after, newest));
  assertEquals(late.takeDue(after, newest), false);
});

const HALL: readonly Wall[] = [...rectangle(-4, -4, 8, 4), [2, 4, 2.6, 3.2], [5, -4, 5, -3.3]];
const SPEED_MPS = 0.7;
const DRIVEN_S = 4;

/** Starts at once, drives at a steady speed, stops, and turns this way and that. */
function ride(timeS: number): Pose2d {
  const drivenS = Math.min(DRIVEN_S, Math.max(0, timeS));
  return { x: SPEED_MPS * drivenS, y: 0, yaw: 0.8 * Math.sin(Math.max(0, timeS - DRIVEN_S - 1)) };
}

Deno.test("mapper: a start that late odometry missed is corrected once its delay is known", () => {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const view = { beams: 118, fieldRad: 118 * Math.PI / 180, noiseM: 0.05 };
  for (let k = 0; k <= 120; k++) {
    const timeS = 0.1 * k;
    mapper.addOdometry({ timeS: 1000 + timeS, pose: ride(timeS - LATE_S) });
    mapper.addScan({ timeS: 1000 + timeS, points: viewFrom(HALL, ride(timeS), { ...view, seed: k }) });
    while (mapper.work());
  }
  mapper.finish();
  const { node, offset } = mapper.lastScan()!;
  const moved = between2d(mapper.nodePose(0), compose2d(mapper.nodePose(node), offset));
  // Without the correction, 13 cm are missing.
  assertLess(Math.abs(moved.x - DRIVEN_S * SPEED_MPS), 0.04);
});
