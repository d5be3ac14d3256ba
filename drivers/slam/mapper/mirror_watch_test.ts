import { assertEquals, assertStringIncludes } from "@std/assert";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { building, STARTS } from "../../../lib/slam/simulation/building.ts";
import { scanAt, SimulatedRobot } from "../../../lib/slam/simulation/robot.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { MirrorWatch } from "./mirror_watch.ts";

/** The warnings of a drive with a gyroscope or odometry. */
function warnings(sign: 1 | -1, has: "imu" | "odometry"): string[] {
  const logged: LogRecord[] = [], office = building("office", 0), random = randomFrom(3);
  const watch = new MirrorWatch("lidar", new Logs(new FakeClock(), [memorySink(logged)]).logger("slam"));
  const robot = new SimulatedRobot({
    building: office,
    start: { ...STARTS.office, yaw: 0 },
    wheelSlip: 0,
    seed: 1,
  });
  robot.drive(0, { linearMps: 0, angularRps: 0.6 });
  for (let step = 1; step < 200; step++) {
    const timeS = step * 0.1, at = robot.truth(timeS);
    const odometry = { timeS, pose: robot.odometry(timeS) };
    const imu = { timeS, linearAcceleration: [0, 0, 9.81], angularVelocity: [0, 0, 0.6] } as const;
    watch.move(has === "imu" ? { imu } : { odometry });
    const { points } = scanAt(office, { timeS, at }, { beams: 180, maxRangeM: 12, noiseM: 0.01 }, random);
    const seen = new Float32Array(1.5 * points.length);
    for (let n = 0; n < points.length; n += 2) seen.set([points[n], sign * points[n + 1], 0], 1.5 * n);
    watch.scan({ timeS, points: seen });
  }
  return logged.map(({ message }) => message);
}

Deno.test("a mirrored lidar is warned of once, by odometry and by a gyroscope; an upright one is not", () => {
  for (const has of ["imu", "odometry"] as const) {
    assertEquals(warnings(1, has), []);
    const [warning, ...others] = warnings(-1, has);
    assertStringIncludes(warning, "the scans of lidar turn the other way than the movement sensor says");
    assertEquals(others, []);
  }
});
