import { assertEquals } from "@std/assert";
import { randomFrom } from "../geometry/random.ts";
import { MirrorCheck } from "./mirror_check.ts";
import { building, STARTS } from "./simulation/building.ts";
import { scanAt, SimulatedRobot } from "./simulation/robot.ts";

interface Ride {
  readonly beams: number;
  readonly people?: number;
  readonly isMirrored?: boolean;
  /** The heading that is told, from the true one. */
  readonly logged?: (yaw: number) => number;
  readonly linearMps?: number;
}

/** The verdict after a ride in the office that turns left and right. */
function verdict({ beams, people = 0, isMirrored = false, logged = (yaw) => yaw, linearMps = 0.2 }: Ride) {
  const office = building("office", people), random = randomFrom(2), check = new MirrorCheck();
  const robot = new SimulatedRobot({
    building: office,
    start: { ...STARTS.office, yaw: 0 },
    wheelSlip: 0,
    seed: 1,
  });
  const lidar = { beams, maxRangeM: 12, noiseM: 0.02 };
  for (let step = 0; step < 200; step++) {
    const timeS = step * 0.2, at = robot.truth(timeS);
    robot.drive(timeS, { linearMps, angularRps: step % 80 < 40 ? 0.6 : -0.5 });
    const { points: flat } = scanAt(office, { timeS, at }, lidar, random);
    const points = new Float32Array(1.5 * flat.length);
    for (let n = 0; n < flat.length / 2; n++) {
      points[3 * n] = flat[2 * n];
      points[3 * n + 1] = isMirrored ? -flat[2 * n + 1] : flat[2 * n + 1];
    }
    check.add({ timeS, points }, logged(at.yaw));
  }
  return check.isMirrored;
}

Deno.test("a mirrored lidar is told from an upright one, with few beams, people and a moving robot", () => {
  for (const beams of [90, 270]) {
    for (const people of [0, 3]) {
      assertEquals(verdict({ beams, people }), false, `${beams} beams, ${people} people`);
      assertEquals(verdict({ beams, people, isMirrored: true }), true, `${beams} beams, ${people} people`);
    }
  }
});

Deno.test("there is no verdict without turns, without returns, and for a heading that is nonsense", () => {
  assertEquals(verdict({ beams: 180, logged: () => 1 }), undefined);
  const random = randomFrom(4);
  assertEquals(verdict({ beams: 180, logged: () => 6 * random() }), undefined);
  const empty = new MirrorCheck();
  for (let n = 0; n < 100; n++) empty.add({ timeS: n, points: new Float32Array(9).fill(NaN) }, n / 2);
  assertEquals(empty.isMirrored, undefined);
});
