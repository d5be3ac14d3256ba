import { assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { randomFrom } from "../../geometry/random.ts";
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
  extrapolator.addPose(1000.2, predicted, predicted, Float64Array.of(left, 0, 0, 0, left, 0, 0, 0, left));
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
  readings(1001, 0.3);
  extrapolator.addPose(1001.5, { x: 0.5, y: 0, yaw: 0 });
  assertEquals(extrapolator.odometryBetween(1000.5, 1001.5), undefined);
  assertAlmostEquals(extrapolator.predict(1001.8).x, 0.5, 1e-9);
});
