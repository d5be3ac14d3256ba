import { assert, assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { randomFrom } from "../../geometry/random.ts";
import type { Pose2d } from "../pose2d.ts";
import { Extrapolator } from "./extrapolator.ts";

const MPS = 0.7;
const TIMES = Array.from({ length: 40 }, (_, k) => 1000 + 0.05 * k);

/** The farthest that a prediction for 0.2 s after an odometry reading is from where the robot is then. */
function worst(lateS: () => number): number {
  const extrapolator = new Extrapolator();
  extrapolator.addPose(TIMES[0], { x: 0, y: 0, yaw: 0 });
  extrapolator.addOdometry({ timeS: TIMES[0], pose: { x: 0, y: 0, yaw: 0 } });
  let worstM = 0, lastS = TIMES[0];
  for (const takenS of TIMES.slice(1)) {
    // Readings come in the order in which they were taken.
    const timeS = lastS = Math.max(lastS + 1e-4, takenS + lateS());
    extrapolator.addOdometry({ timeS, pose: { x: MPS * (takenS - TIMES[0]), y: 0, yaw: 0 } });
    if (takenS < TIMES[10]) continue;
    const predicted = extrapolator.predict(timeS + 0.2).x;
    worstM = Math.max(worstM, Math.abs(predicted - MPS * (timeS + 0.2 - TIMES[0])));
  }
  return worstM;
}

Deno.test("Extrapolator: exact odometry times give exact predictions", () => {
  assertAlmostEquals(worst(() => 0), 0, 1e-9);
});

Deno.test("Extrapolator: late odometry times give slightly late predictions", () => {
  const random = randomFrom(1);
  // Two answers may have almost the same time: the speed between them is no speed of the robot.
  assertLess(worst(() => 0.1 * random()), 0.4);
});

Deno.test("Extrapolator: where odometry may be late, the robot may go on as fast as in the last scans", () => {
  const extrapolator = new Extrapolator();
  const xAt = (timeS: number) => MPS * Math.max(0, timeS - 1002.5);
  for (let k = 0; k <= 30; k++) {
    const timeS = 1000 + 0.1 * k;
    extrapolator.addOdometry({ timeS, pose: { x: 0, y: 0, yaw: 0 } });
    extrapolator.addPose(timeS, { x: xAt(timeS), y: 0, yaw: 0 });
  }
  const { poses: [goesOn], isLate } = extrapolator.alternatives(1003.1);
  assertEquals(isLate, true);
  assertAlmostEquals(goesOn.x, xAt(1003.1), 1e-6);
});

/** The prediction for 1000.3 s if odometry begins to drive and to turn when the scan before has been matched. */
function settled(left: number, withGyroscope: boolean) {
  const extrapolator = new Extrapolator(), last = { x: 0, y: 0, yaw: 0 };
  const still = { linearAcceleration: [0, 0, 9.81], angularVelocity: [0, 0, 0] } as const;
  for (let timeS = 999; withGyroscope && timeS < 1000.4; timeS += 0.05) {
    extrapolator.addImu({ timeS, ...still });
  }
  extrapolator.addOdometry({ timeS: 999, pose: last });
  extrapolator.addPose(1000, last);
  for (const timeS of [1000, 1000.1]) extrapolator.addOdometry({ timeS, pose: last });
  const predicted = extrapolator.predict(1000.2);
  assertAlmostEquals(predicted.x, 0, 1e-9);
  extrapolator.addPose(1000.2, predicted, predicted, [[left, 0, 0], [0, left, 0], [0, 0, left]]);
  extrapolator.addOdometry({ timeS: 1000.2, pose: { x: 0.1, y: 0, yaw: 0.2 } });
  extrapolator.addOdometry({ timeS: 1000.3, pose: { x: 0.1, y: 0, yaw: 0.2 } });
  return extrapolator.predict(1000.3);
}

Deno.test("Extrapolator: a reading that comes later corrects the prediction that was made without it", () => {
  for (const left of [1, 0.5, 0]) {
    const { x, yaw } = settled(left, false);
    assertAlmostEquals(x, 0.1 * left, 1e-9, "a match has corrected the rest");
    assertAlmostEquals(yaw, 0.2 * left, 1e-9);
  }
  const { x, yaw } = settled(1, true);
  assertAlmostEquals(x, 0.1, 1e-9);
  assertAlmostEquals(yaw, 0, 1e-9, "the gyroscope has told the turn");
});

Deno.test("Extrapolator: what odometry says after it hung is no motion", () => {
  const extrapolator = new Extrapolator(), here = { x: 0, y: 0, yaw: 0 };
  const readings = (fromS: number, x: number) => {
    for (let k = 0; k < 10; k++) {
      extrapolator.addOdometry({ timeS: fromS + 0.1 * k, pose: { x, y: 0, yaw: 0 } });
    }
  };
  readings(1000, 0);
  extrapolator.addPose(1000.5, here);
  assertAlmostEquals(extrapolator.standstill(1000.9)?.lastedS ?? NaN, 0.4, 1e-9);
  extrapolator.markHanging();
  extrapolator.addPose(1000.9, { x: 0.2, y: 0, yaw: 0 });
  // By its motion so far.
  assertLess(0.2, extrapolator.predict(1001).x);
  // Farther than any robot drives in that time.
  readings(1001, 9);
  extrapolator.addPose(1001.5, { x: 0.5, y: 0, yaw: 0 });
  assertEquals(extrapolator.odometryBetween(1000.5, 1001.5), undefined);
  assertAlmostEquals(extrapolator.predict(1001.8).x, 0.5, 1e-9);
});

/** Whether odometry that stops after such a way, and then stands for a minute, tells of a robot that braked. */
function brakes(wayM: (leftS: number) => number): boolean {
  const extrapolator = new Extrapolator();
  for (let k = 0; k < 1300; k++) {
    const timeS = 1000 + 0.05 * k, leftS = Math.max(0, 1002 - timeS);
    extrapolator.addOdometry({ timeS, pose: { x: -wayM(leftS), y: 0, yaw: 0 } });
    if (k % 4 > 0) continue;
    extrapolator.addPose(timeS, { x: -wayM(leftS), y: 0, yaw: 0 });
    if (timeS > 1003) extrapolator.hasBraked();
  }
  return extrapolator.hasBraked();
}

Deno.test("Extrapolator: a robot that brakes, or never drove, stands; odometry that stops at full speed may hang", () => {
  assert(brakes((leftS) => 0.4 * leftS ** 2));
  assert(brakes(() => 0));
  assert(!brakes((leftS) => 0.5 * leftS));
  // It stopped a moment after a reading.
  assert(!brakes((leftS) => 0.5 * Math.max(0, leftS - 0.045)));
});

/** Odometry that drives for two seconds, hangs, and then gives these poses; whether that makes up for the standstill. */
function hangs(
  standingS: number,
  after: readonly Pose2d[],
): { isCaughtUp: boolean; moved: Pose2d | undefined } {
  const extrapolator = new Extrapolator();
  extrapolator.addPose(1000, { x: 0, y: 0, yaw: 0 });
  let timeS = 1000;
  const add = (pose: Pose2d) => extrapolator.addOdometry({ timeS: timeS += 0.05, pose });
  for (let k = 0; k <= 40; k++) add({ x: 0.02 * k, y: 0, yaw: 0 });
  const beganS = timeS;
  while (timeS < beganS + standingS) add({ x: 0.8, y: 0, yaw: 0 });
  for (const pose of after) add(pose);
  return {
    isCaughtUp: extrapolator.takeCaughtUp(timeS) !== undefined,
    moved: extrapolator.odometryBetween(beganS + standingS / 2, timeS),
  };
}

Deno.test("Extrapolator: odometry that hung may make up for it, at once or by several readings", () => {
  // 0.4 m/s for four seconds.
  for (const after of [[1.6], [1.1, 1.6], [1, 1.3, 1.6]]) {
    const { isCaughtUp, moved } = hangs(4, after.map((x) => ({ x: 0.8 + x, y: 0, yaw: 0 })));
    assertEquals(isCaughtUp, true);
    assertAlmostEquals(moved!.x, 0.8, 0.06, "it moved steadily, for all that is known");
  }
  assertEquals(hangs(4, [{ x: 1.4, y: 0.5, yaw: 1 }]).isCaughtUp, true, "it turned meanwhile");
});

Deno.test("Extrapolator: odometry that made up for a standstill was right until its last reading that moved", () => {
  const extrapolator = new Extrapolator(), mps = 0.5;
  // It froze 40 ms before the reading of 1002 s, in which it still differs from the reading before.
  const xAt = (timeS: number) => mps * (timeS > 1006 ? timeS - 1000 : Math.min(timeS - 1000, 1.96));
  for (let k = 0; k <= 122; k++) {
    const timeS = 1000 + 0.05 * k;
    extrapolator.addOdometry({ timeS, pose: { x: xAt(timeS), y: 0, yaw: 0 } });
  }
  const sinceS = extrapolator.takeCaughtUp(1006.1);
  assertAlmostEquals(sinceS!, 1001.95, 1e-6);
  assertAlmostEquals(extrapolator.odometryBetween(sinceS!, 1006.1)!.x, mps * (6.1 - 1.95), 1e-6);
});

/** A robot brakes, stands for five seconds, and then odometry jumps; `movedM`: how far the scans saw it move meanwhile. */
function jumped(movedM: number): Extrapolator {
  const extrapolator = new Extrapolator(), stoppedM = 0.5;
  for (let k = 0; k <= 140; k++) {
    const timeS = 1000 + 0.05 * k,
      leftS = Math.max(0, 2 - 0.05 * k),
      x = stoppedM - stoppedM * leftS ** 2 / 4;
    extrapolator.addOdometry({ timeS, pose: { x, y: 0, yaw: 0 } });
    if (k % 4 === 0) extrapolator.addPose(timeS, { x: x + (k > 60 ? movedM : 0), y: 0, yaw: 0 });
    if (timeS > 1003) extrapolator.hasBraked();
  }
  extrapolator.addOdometry({ timeS: 1007.05, pose: { x: stoppedM, y: 1, yaw: 0.5 } });
  assertEquals(extrapolator.takeCaughtUp(1007.1) !== undefined, true);
  extrapolator.forgetOdometry({ x: stoppedM + movedM, y: 0, yaw: 0 });
  return extrapolator;
}

Deno.test("Extrapolator: a robot that stood while odometry jumped stands, and one that the scans saw move may have moved", () => {
  const stood = jumped(0);
  assertEquals(stood.odometryBetween(1007, 1007.1), { x: 0, y: 0, yaw: 0 });
  assertAlmostEquals(stood.predict(1007.1).x, 0.5, 1e-9);
  assertAlmostEquals(stood.standstill(1007.1)!.lastedS, 5, 0.3, "it has stood since it braked");
  stood.addOdometry({
    timeS: 1007.1,
    pose: { x: 0.5 + 0.1 * Math.cos(0.5), y: 1 + 0.1 * Math.sin(0.5), yaw: 0.5 },
  });
  assertAlmostEquals(stood.predict(1007.1).x, 0.6, 1e-6);
  assertEquals(jumped(0.4).odometryBetween(1007, 1007.1), undefined);
});

Deno.test("Extrapolator: after catching up, the motion is a guess until odometry shows its speed", () => {
  const extrapolator = new Extrapolator();
  let timeS = 1000;
  const add = (yaw: number) => extrapolator.addOdometry({ timeS: timeS += 0.05, pose: { x: 0, y: 0, yaw } });
  for (let k = 0; k <= 40; k++) add(0.05 * k);
  assertEquals(extrapolator.isGuessAt(timeS + 0.03), false);
  for (let k = 0; k < 40; k++) add(2);
  add(3);
  assertEquals(extrapolator.isGuessAt(timeS), false, "a reading of this time has come");
  assertEquals(extrapolator.isGuessAt(timeS + 0.03), true);
  for (const yaw of [3.05, 3.1, 3.15]) add(yaw);
  assertEquals(extrapolator.isGuessAt(timeS + 0.03), false);
});

Deno.test("Extrapolator: a start, a short pause, or a jump farther than the robot can have driven is no catching up", () => {
  assertEquals(hangs(4, [{ x: 0.82, y: 0, yaw: 0 }]).isCaughtUp, false);
  assertEquals(hangs(0.3, [{ x: 1.3, y: 0, yaw: 0 }]).isCaughtUp, false);
  assertEquals(hangs(4, [{ x: -9, y: 0, yaw: 0 }]).isCaughtUp, false);
  assertEquals(hangs(2, [{ x: 0.8, y: 0, yaw: 3 }]).isCaughtUp, false);
});

Deno.test("Extrapolator: odometry whose first reading comes a moment after the first scan counts from that scan on", () => {
  const extrapolator = new Extrapolator();
  for (let k = 0; k < 5; k++) {
    extrapolator.addOdometry({ timeS: 1000.003 + 0.05 * k, pose: { x: 0.1 * k, y: 0, yaw: 0 } });
  }
  assertAlmostEquals(extrapolator.odometryBetween(1000, 1000.203)!.x, 0.4, 1e-9);
  assertEquals(extrapolator.odometryBetween(999, 1000.203), undefined);
});

Deno.test("Extrapolator: odometry that comes once in a second has not stood still between its readings", () => {
  const extrapolator = new Extrapolator();
  for (let k = 0; k < 6; k++) {
    extrapolator.addOdometry({ timeS: 1000 + k, pose: { x: k < 4 ? 0.1 * k : k, y: 0, yaw: 0 } });
  }
  assertEquals(extrapolator.takeCaughtUp(1005), undefined);
  assertAlmostEquals(extrapolator.odometryBetween(1001, 1005)!.x, 4.9, 1e-9);
});
