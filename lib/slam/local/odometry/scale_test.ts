import { assertAlmostEquals, assertEquals } from "@std/assert";
import { randomFrom } from "../../../geometry/random.ts";
import { normal } from "../../simulation/robot.ts";
import { describeScale, isOtherScale, ScaleEstimate, UNSCALED } from "./scale.ts";

/** The factor after some motions of half a metre, which odometry measures times `measured`, with noise of the scans. */
function factorOf(measured: number, count: number, used = 1): number {
  const estimate = new ScaleEstimate(0.03), random = randomFrom(3);
  for (let k = 0; k < count; k++) estimate.add(0.5 * measured, 0.5 + 0.012 * normal(random), 0.012);
  return estimate.factor(used);
}

Deno.test("ScaleEstimate: a factor that all motions share is found, among noise", () => {
  assertAlmostEquals(factorOf(1.06, 20), 1 / 1.06, 0.01);
  assertAlmostEquals(factorOf(0.9, 20), 1 / 0.9, 0.01);
});

Deno.test("ScaleEstimate: few motions, right odometry and a small difference have no factor", () => {
  assertEquals(factorOf(1.06, 4), 1);
  assertEquals(factorOf(1, 200), 1);
  assertEquals(factorOf(1.02, 200), 1);
});

Deno.test("ScaleEstimate: a factor in use is corrected for less, and never beyond what a wheel can be wrong by", () => {
  assertAlmostEquals(factorOf(1.02, 200, 0.95), 1 / 1.02, 0.005);
  assertAlmostEquals(factorOf(1.02, 200, 0.985), 1 / 1.02, 0.003);
  assertEquals(factorOf(1.02, 200, 0.9825), 0.9825);
  assertEquals([factorOf(1.5, 200), factorOf(1 / 1.5, 200)], [1, 1]);
  assertAlmostEquals(factorOf(1 / 1.3, 200), 1.3, 0.01);
});

Deno.test("ScaleEstimate: of motions that contain each other the last counts, and more, the longer it is", () => {
  const estimate = new ScaleEstimate(0.03, 2);
  estimate.replace(0.5, 0.6, 0.012);
  assertEquals(estimate.isKnown, false);
  assertEquals(estimate.factor(1), 1);
  estimate.replace(2, 1.9, 0.012);
  assertEquals(estimate.isKnown, true);
  assertAlmostEquals(estimate.factor(1), 0.95, 1e-9);
  estimate.keep();
  estimate.replace(2, 1.86, 0.012);
  assertAlmostEquals(estimate.factor(1), 0.94, 1e-9);
});

Deno.test("ScaleEstimate: motions that scatter widely have no factor", () => {
  const estimate = new ScaleEstimate(0.03);
  for (let k = 0; k < 20; k++) estimate.add(0.5, k % 2 === 0 ? 0.3 : 0.6, 0.012);
  assertEquals(estimate.factor(1), 1);
});

Deno.test("isOtherScale: a small correction leaves what is known about odometry", () => {
  const scale = { translation: 0.95, rotation: 1 };
  assertEquals(isOtherScale(scale, { translation: 0.955, rotation: 1 }), false);
  assertEquals(isOtherScale(scale, { translation: 0.965, rotation: 1 }), true);
  assertEquals(isOtherScale(scale, { translation: 0.95, rotation: 1.02 }), true);
});

Deno.test("describeScale: names what is multiplied", () => {
  assertEquals(describeScale(UNSCALED), undefined);
  assertEquals(describeScale({ translation: 0.9512, rotation: 1 }), "the scans show its ways times 0.951");
  assertEquals(
    describeScale({ translation: 0.9512, rotation: 1.03 }),
    "the scans show its ways times 0.951 and its turns times 1.030",
  );
});
