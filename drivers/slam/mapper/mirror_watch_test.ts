import { assertEquals, assertStringIncludes } from "@std/assert";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { building, STARTS } from "../../../lib/slam/simulation/building.ts";
import { scanAt, SimulatedRobot } from "../../../lib/slam/simulation/robot.ts";
import type { RangeScan } from "../../../lib/slam/mapping.ts";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { feedOnline } from "./feed.ts";
import { MirrorWatch } from "./mirror_watch.ts";
import type { MovementReading } from "./sensors.ts";

/** What the sensors of a robot give while it turns. */
function* drive(
  sign: 1 | -1,
  has: "imu" | "odometry",
): Generator<{ move: MovementReading; scan: RangeScan }> {
  const office = building("office", 0), random = randomFrom(3);
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
    const { points } = scanAt(office, { timeS, at }, { beams: 180, maxRangeM: 12, noiseM: 0.01 }, random);
    const seen = new Float32Array(1.5 * points.length);
    for (let n = 0; n < points.length; n += 2) seen.set([points[n], sign * points[n + 1], 0], 1.5 * n);
    yield { move: has === "imu" ? { imu } : { odometry }, scan: { timeS, points: seen } };
  }
}

function watchWith(clock: FakeClock) {
  const logged: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(logged)]).logger("slam");
  const warnings = () => logged.map(({ message }) => message);
  return { watch: new MirrorWatch("lidar", logger), logger, warnings };
}

/** The warnings of a drive with a gyroscope or odometry. */
function warnings(sign: 1 | -1, has: "imu" | "odometry"): string[] {
  const { watch, warnings } = watchWith(new FakeClock());
  for (const { move, scan } of drive(sign, has)) {
    watch.move(move);
    watch.scan(scan);
  }
  return warnings();
}

Deno.test("a mirrored lidar is warned of once, by odometry and by a gyroscope; an upright one is not", () => {
  for (const has of ["imu", "odometry"] as const) {
    assertEquals(warnings(1, has), []);
    const [warning, ...others] = warnings(-1, has);
    assertStringIncludes(warning, "the scans of lidar turn the other way than the movement sensor says");
    assertEquals(others, []);
  }
});

Deno.test("a mirrored lidar is warned of while its sensors are read", async () => {
  const clock = new FakeClock(), { watch, logger, warnings } = watchWith(clock);
  const readings = [...drive(-1, "odometry")], end = new AbortController();
  const giving = <T>(all: readonly T[]) => {
    let at = -1;
    const next = () => {
      if (++at === all.length - 1) end.abort();
      return Promise.resolve({ reading: all[Math.min(at, all.length - 1)], isReplayed: true });
    };
    return { next };
  };
  await passing(
    clock,
    60_000,
    feedOnline(
      {
        engine: { add: () => Promise.resolve(undefined), finish: () => Promise.resolve(undefined) },
        lidar: giving(readings.map(({ scan }) => scan)),
        motion: giving(readings.map(({ move }) => move)),
        mirrors: watch,
        clock,
        logger,
        moved: () => {},
      },
      { lidarHz: 10, motionHz: 10 },
      end.signal,
    ),
  );
  assertStringIncludes(warnings()[0], "the map is probably mirrored");
});
