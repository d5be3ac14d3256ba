import { assertEquals } from "@std/assert";
import { type HeldReading, LateOdometry } from "./late_odometry.ts";

const LATE_S = 0.2;

function scanAt(timeS: number): HeldReading {
  return { kind: "scan", reading: { timeS, points: new Float32Array(0) } };
}

function imuAt(timeS: number): HeldReading {
  return {
    kind: "imu",
    reading: { timeS, linearAcceleration: [0, 0, 9.81], angularVelocity: [0, 0, 0] },
  };
}

function timesOf(late: LateOdometry, delayS: number): number[] {
  const times: number[] = [];
  for (let next = late.next(delayS); next; next = late.next(delayS)) times.push(next.reading.timeS);
  return times;
}

Deno.test("LateOdometry: a scan waits for odometry of its time, and the IMU does not overtake it", () => {
  const late = new LateOdometry();
  late.noteOdometry(10);
  assertEquals(late.holds(scanAt(10), LATE_S), true);
  assertEquals(late.holds(imuAt(10.05), LATE_S), true);
  assertEquals(late.newestScan?.timeS, 10);
  assertEquals(timesOf(late, LATE_S), []);
  late.noteOdometry(10.2);
  assertEquals(timesOf(late, LATE_S), [10, 10.05]);
  assertEquals(late.newestScan, undefined);
});

Deno.test("LateOdometry: nothing waits for odometry that is not late, or that has stopped", () => {
  const late = new LateOdometry();
  assertEquals(late.holds(scanAt(10), LATE_S), false);
  late.noteOdometry(10);
  assertEquals(late.holds(scanAt(10.1), 0), false);
  assertEquals(late.holds(scanAt(11), LATE_S), false);
});

Deno.test("LateOdometry: scans wait for less than a second if odometry stops, and then all go on", () => {
  const late = new LateOdometry();
  late.noteOdometry(10);
  for (const timeS of [10.1, 10.4, 10.7]) assertEquals(late.holds(scanAt(timeS), LATE_S), true);
  assertEquals(timesOf(late, LATE_S), []);
  assertEquals(late.holds(scanAt(11), LATE_S), true);
  assertEquals(timesOf(late, LATE_S), [10.1]);
  assertEquals(late.holds(scanAt(11.5), LATE_S), true);
  assertEquals(timesOf(late, LATE_S), [10.4, 10.7, 11, 11.5]);
});
