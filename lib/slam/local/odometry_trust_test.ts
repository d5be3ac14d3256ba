import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Pose2d } from "../pose2d.ts";
import { OdometryTrust } from "./odometry_trust.ts";

function comparedOften(odometry: Pose2d, scans: Pose2d, times: number): OdometryTrust {
  const trust = new OdometryTrust();
  for (let k = 0; k < times; k++) trust.compare(odometry, scans);
  return trust;
}

Deno.test("OdometryTrust: doubts by evidence of many scans only, and says why", () => {
  const ahead = { x: 0.2, y: 0, yaw: 0 }, turn = { x: 0, y: 0, yaw: 0.3 };
  assertEquals(comparedOften({ x: 0, y: 0, yaw: 0 }, ahead, 5).reason, undefined);
  assertStringIncludes(
    comparedOften({ x: 0, y: 0, yaw: 0 }, ahead, 6).reason!,
    "in 6 of 6 comparisons its ways",
  );
  assertStringIncludes(comparedOften({ x: 0, y: 0, yaw: 0.1 }, turn, 9).reason!, "its turns contradict");
  assertStringIncludes(comparedOften({ x: 0, y: 0, yaw: -0.3 }, turn, 9).reason!, "may hang upside down");
  const trust = comparedOften({ x: 0, y: 0, yaw: 0 }, ahead, 6);
  for (let k = 0; k < 12; k++) trust.compare(ahead, ahead);
  assert(!trust.isDoubted && trust.reason === undefined);
});
