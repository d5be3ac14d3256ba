import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Pose2d } from "../../pose2d.ts";
import { OdometryTrust } from "./trust.ts";

function comparedOften(odometry: Pose2d, scans: Pose2d, times: number): OdometryTrust {
  const trust = new OdometryTrust();
  for (let k = 0; k < times; k++) trust.compare(odometry, scans, 1);
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
  for (let k = 0; k < 12; k++) trust.compare(ahead, ahead, 1);
  assert(!trust.isDoubted && trust.reason === undefined);
});

Deno.test("OdometryTrust: odometry hangs if it stands still for half a second while the scans move", () => {
  const trust = new OdometryTrust();
  let x = 3;
  const seen = () => ({ x: x += 0.06, y: 0, yaw: 0 });
  assertEquals(trust.isHanging(0.2, seen), false);
  // One scan in four is compared: the first tells where the robot stands. Then all are, once it moves.
  const answers = Array.from({ length: 9 }, () => trust.isHanging(0.6, seen));
  assertEquals(answers.indexOf(true), 7);
  // It is not asked again until odometry changes.
  assertEquals(trust.isHanging(3, () => undefined), true);
  assertEquals(trust.isHanging(0, () => undefined), false);
});

Deno.test("OdometryTrust: with few scans a second, each is compared while odometry stands still", () => {
  const trust = new OdometryTrust();
  let x = 3;
  const seen = () => ({ x: x += 0.1, y: 0, yaw: 0 });
  const answers = [1, 2, 3, 4, 5].map((lastedS) => trust.isHanging(lastedS, seen));
  assertEquals(answers, [false, false, false, false, true]);
});

Deno.test("OdometryTrust: odometry hangs if the scans show only that the robot is elsewhere", () => {
  const trust = new OdometryTrust(), answers = ["elsewhere", "elsewhere", "elsewhere", "elsewhere"] as const;
  assertEquals(answers.map((one, k) => trust.isHanging(1 + k, () => one)), [false, false, false, true]);
  const other = new OdometryTrust(), unclear = ["elsewhere", "elsewhere", undefined, "elsewhere"] as const;
  assertEquals(unclear.map((one, k) => other.isHanging(1 + k, () => one)), [false, false, false, false]);
});

Deno.test("OdometryTrust: odometry of a robot that stands does not hang", () => {
  const trust = new OdometryTrust(), jitter = [undefined, 3.02, 3, 3.09, 2.98, undefined, 3.1, 3.01];
  for (const x of jitter.flatMap((one) => [one, one])) {
    assertEquals(trust.isHanging(1, () => x === undefined ? undefined : { x, y: 0, yaw: 0 }), false);
  }
});

Deno.test("OdometryTrust: two wrong comparisons among people do not contradict odometry yet", () => {
  const ahead = { x: 0.2, y: 0, yaw: 0 }, back = { x: -0.1, y: 0, yaw: 0 };
  const trust = comparedOften(ahead, back, 2);
  assertEquals(trust.isContradicting, false);
  trust.compare(ahead, back, 1);
  assertEquals(trust.isContradicting, true);
  trust.compare(ahead, ahead, 1);
  assertEquals(trust.isContradicting, false);
});

Deno.test("OdometryTrust: a doubt fades while the scans show no motion clearly", () => {
  const trust = comparedOften({ x: 0.2, y: 0, yaw: 0 }, { x: -0.1, y: 0, yaw: 0 }, 7);
  assert(trust.isDoubted);
  for (let k = 0; k < 12; k++) trust.noteUnclear();
  assert(!trust.isDoubted);
});

Deno.test("OdometryTrust: scans that fit hardly better contradict odometry only in the long run", () => {
  const ahead = { x: 0.2, y: 0, yaw: 0 }, back = { x: -0.1, y: 0, yaw: 0 }, trust = new OdometryTrust();
  for (let k = 0; k < 7; k++) trust.compare(ahead, back, 0.26);
  assertEquals(trust.isContradicting, false);
  assert(trust.isDoubted);
});
