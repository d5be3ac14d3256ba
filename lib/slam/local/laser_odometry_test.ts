import { assertAlmostEquals, assertGreater, assertLess } from "@std/assert";
import { rectangle, viewFrom, type Wall } from "../../../tests/support/floor_plan.ts";
import { MAPPER_DEFAULTS } from "../mapping.ts";
import { LocalMapper } from "./local_mapper.ts";

/** A corridor of 80 metres with pillars at its beginning, and nothing but its walls after that. */
const CORRIDOR: readonly Wall[] = [
  ...rectangle(-2, -1, 78, 1),
  ...[1, 2.5, 4.2, 5.5, 7.3, 8.1].flatMap((x, k) => {
    const y = k % 2 === 0 ? -1 : 0.7;
    return rectangle(x, y, x + 0.3, y + 0.3);
  }),
];
const STEP_M = 0.15;
const VIEW = { beams: 181, fieldRad: Math.PI, noiseM: 0.01 };

/** Where a mapper without odometry thinks that the robot is after a drive; `spansS` are the times between its scans. */
function drivenTo(ways: readonly number[], spansS: readonly number[]): number {
  const mapper = new LocalMapper(MAPPER_DEFAULTS);
  let timeS = 1000, thought = 0;
  ways.forEach((x, k) => {
    timeS += spansS[k % spansS.length];
    const points = viewFrom(CORRIDOR, { x, y: 0, yaw: 0 }, { ...VIEW, seed: k });
    thought = mapper.addScan({ timeS, points })!.pose.x;
  });
  return thought;
}

/** From a standstill to so far. */
function steps(to: number): number[] {
  const starting = Array.from({ length: 10 }, (_, k) => STEP_M * k * k / 20);
  const count = Math.ceil((to - starting.at(-1)!) / STEP_M);
  return [...starting, ...Array.from({ length: count }, (_, k) => starting.at(-1)! + STEP_M * (k + 1))];
}

Deno.test("without odometry: in a bare corridor the robot goes on as fast as it came", () => {
  const to = steps(16);
  assertAlmostEquals(drivenTo(to, [0.2]), to.at(-1)!, 3);
});

Deno.test("without odometry: times that jump do not make the robot run away", () => {
  const to = steps(16), found = drivenTo(to, [0.2, 0.05, 0.4, 0.15]);
  assertGreater(found, 8);
  assertLess(found, 22);
});

Deno.test("without odometry: a robot that stands where nothing tells it so is thought to go on no faster than before", () => {
  const to = steps(12), stands = Array.from({ length: 60 }, () => to.at(-1)!);
  assertLess(drivenTo([...to, ...stands], [0.2]), to.at(-1)! + 60 * STEP_M * 1.2);
});
