import { assert, assertEquals, assertGreater, assertLess, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { randomFrom } from "../geometry/random.ts";
import { type MapState, secondsOf } from "./map_state.ts";
import { Mapper } from "./mapper.ts";
import { MAPPER_DEFAULTS } from "./mapping.ts";
import { mergeMaps } from "./merging.ts";
import { compose2d, inverse2d, type Pose2d } from "./pose2d.ts";
import { building, type BuildingName } from "./simulation/building.ts";
import { scanAt, SimulatedRobot } from "./simulation/robot.ts";

type Drive = readonly (readonly [seconds: number, linearMps: number, angularRps: number])[];

/** A map of a drive, and the robot's true pose at each time. */
function mapOf(name: BuildingName, start: Pose2d, drive: Drive, fromS: number) {
  const world = building(name, 0), random = randomFrom(fromS);
  const robot = new SimulatedRobot({ building: world, start, wheelSlip: 0.03, seed: 1 });
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const truths = new Map<number, Pose2d>();
  let timeS = fromS;
  for (const [seconds, linearMps, angularRps] of [[1, 0, 0], ...drive]) {
    robot.drive(timeS, { linearMps, angularRps });
    for (const endS = timeS + seconds; timeS < endS - 1e-6;) {
      timeS += 0.25;
      const at = robot.truth(timeS);
      truths.set(timeS, at);
      mapper.addOdometry({ timeS, pose: robot.odometry(timeS) });
      const { points: flat } = scanAt(
        world,
        { timeS, at },
        { beams: 180, maxRangeM: 12, noiseM: 0.01 },
        random,
      );
      const points = new Float32Array(1.5 * flat.length);
      for (let n = 0; n < flat.length; n += 2) points.set([flat[n], flat[n + 1], 0], 1.5 * n);
      mapper.addScan({ timeS, points });
      while (mapper.work());
    }
  }
  mapper.finish();
  return { map: mapper.state(), truths, start };
}

/** How far the nodes are from where the first map's frame has them. */
function worstOf(map: MapState, truths: ReadonlyMap<number, Pose2d>, frame: Pose2d): number {
  const errors = map.nodes.flatMap(({ ticks, globalPose }) => {
    const truth = truths.get(secondsOf(ticks));
    if (!truth) return [];
    const wanted = compose2d(inverse2d(frame), truth);
    return [Math.hypot(globalPose.x - wanted.x, globalPose.y - wanted.y)];
  });
  assert(errors.length > 10);
  return Math.max(...errors);
}

Deno.test("two maps of parts of a building become one, wherever the second began; others are refused", () => {
  const west = mapOf("office", { x: -6.5, y: 0, yaw: 0 }, [[14, 0.5, 0], [6, 0, 0.55], [8, 0.5, 0]], 1000);
  const east = mapOf("office", { x: 6.5, y: 0.2, yaw: 3 }, [[14, 0.5, 0], [6, 0, -0.55], [8, 0.5, 0]], 5000);
  const { map, agreed, fit } = mergeMaps(west.map, east.map, MAPPER_DEFAULTS);
  assertGreater(agreed, 20);
  assertGreater(fit, 0.8);
  assertEquals(map.nodes.length, west.map.nodes.length + east.map.nodes.length);
  assertEquals(new Set(map.submaps.map(({ trajectory }) => trajectory)).size, 2);
  assertEquals(map.trajectories.map(({ trajectory }) => trajectory), [0, 1]);
  assertLess(worstOf(map, west.truths, west.start), 0.15);
  assertLess(worstOf(map, east.truths, west.start), 0.25);
  const between = map.constraints.filter(({ kind, submap, node }) => {
    return kind === "inter" && submap.trajectory !== node.trajectory;
  });
  assertGreater(between.length, 20);

  const hall = mapOf("hall", { x: -3, y: -2, yaw: 0 }, [[6, 0.4, 0.1]], 9000);
  assertThrows(() => mergeMaps(west.map, hall.map, MAPPER_DEFAULTS), SvcError, "share no place");
});
