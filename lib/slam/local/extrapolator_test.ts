import { assertAlmostEquals, assertLess } from "@std/assert";
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
