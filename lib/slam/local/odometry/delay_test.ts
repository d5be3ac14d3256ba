import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../../../geometry/random.ts";
import { IDENTITY_2D, type Pose2d } from "../../pose2d.ts";
import { isOtherDelay, OdometryDelay } from "./delay.ts";

/** The delay that is found between a motion by scans, with some noise, and one by odometry. */
function delayBetween(
  scans: (timeS: number) => Pose2d,
  odometry: (timeS: number) => Pose2d,
  { seed = 1, knowsTranslation = true } = {},
): number {
  const random = randomFrom(seed), delay = new OdometryDelay();
  const off = (most: number) => most * (2 * random() - 1);
  for (let timeS = 1000; timeS < 1030; timeS += 0.1) {
    const { x, y, yaw } = scans(timeS);
    const pose = { x: x + off(0.01), y: y + off(0.01), yaw: yaw + off(0.005) };
    // Scans without points say nothing, so that their matches count.
    delay.add({ seen: new Float64Array(0), timeS, pose, knowsTranslation }, timeS, odometry);
  }
  return delay.delayS;
}

function late(motion: (timeS: number) => Pose2d, lateS: number): (timeS: number) => Pose2d {
  return (timeS) => motion(timeS - lateS);
}

const turning = (timeS: number) => ({
  ...IDENTITY_2D,
  yaw: 0.8 * Math.sin(timeS) + 0.2 * Math.sin(2.7 * timeS),
});
const stopAndGo = (timeS: number) => ({ ...IDENTITY_2D, x: 0.3 * (timeS - 1000) + 0.3 * Math.sin(timeS) });
const steady = (timeS: number) => ({ ...IDENTITY_2D, x: 0.3 * (timeS - 1000) });

Deno.test("OdometryDelay: finds how late odometry is by turns and by changes of speed", () => {
  for (const motion of [turning, stopAndGo]) {
    for (const lateS of [0.1, 0.2, 0.45]) {
      assertAlmostEquals(delayBetween(motion, late(motion, lateS)), lateS, 0.03);
    }
    for (const seed of [1, 2, 3]) assertEquals(delayBetween(motion, motion, { seed }), 0);
  }
});

Deno.test("OdometryDelay: finds a delay between two of those that it tries, and refines it without calling it another", () => {
  for (const lateS of [0.11, 0.187, 0.212]) {
    for (const seed of [1, 2, 3]) {
      assertAlmostEquals(delayBetween(turning, late(turning, lateS), { seed }), lateS, 0.008);
    }
  }
  assert(!isOtherDelay(0.175, 0.19) && isOtherDelay(0, 0.19));
});

Deno.test("OdometryDelay: a steady drive, or one whose length the scans do not know, tells nothing", () => {
  assertEquals(delayBetween(steady, late(steady, 0.2)), 0);
  assertEquals(delayBetween(stopAndGo, late(stopAndGo, 0.2), { knowsTranslation: false }), 0);
});

Deno.test("OdometryDelay: a few milliseconds are no delay, and one beyond all that are considered is not taken", () => {
  assertEquals(delayBetween(turning, late(turning, 0.03)), 0);
  assertEquals(delayBetween(turning, late(turning, 0.7)), 0);
});

Deno.test("OdometryDelay: scans that are matched wrongly now and then hide no delay", () => {
  const wrong = (timeS: number) => {
    const isWrong = Math.floor(10 * timeS) % 13 === 0;
    return { ...turning(timeS), yaw: turning(timeS).yaw + (isWrong ? 0.4 : 0) };
  };
  assertAlmostEquals(delayBetween(wrong, late(turning, 0.2)), 0.2, 0.03);
});

Deno.test("OdometryDelay: scans that turn the other way than odometry say nothing of a delay", () => {
  assertEquals(delayBetween(turning, (timeS) => ({ ...IDENTITY_2D, yaw: -turning(timeS).yaw })), 0);
});
