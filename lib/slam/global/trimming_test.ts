import { assertEquals } from "@std/assert";
import { IDENTITY_2D } from "../pose2d.ts";
import { withoutOldReadings } from "./trimming.ts";

const SECOND = 10_000_000n;

Deno.test("withoutOldReadings: readings from a second before to a second after a trajectory's nodes stay", () => {
  const seconds = [0n, 8n, 9n, 10n, 15n, 20n, 21n, 22n];
  const odometry = seconds.map((second) => ({ ticks: second * SECOND, pose: IDENTITY_2D }));
  const [linearAcceleration, angularVelocity] = [[0, 0, 9.81], [0, 0, 0]] as const;
  const imu = odometry.map(({ ticks }) => ({ ticks, linearAcceleration, angularVelocity }));
  const trajectoryOf = (trajectory: number) => ({ trajectory, odometry, imu, submapsKept: undefined });
  const nodes = [10n, 12n, 20n].map((second) => ({ trajectory: 1, ticks: second * SECOND }));
  const [removed, kept] = withoutOldReadings([trajectoryOf(0), trajectoryOf(1)], nodes);
  const secondsOf = (some: readonly { ticks: bigint }[]) => some.map(({ ticks }) => ticks / SECOND);
  assertEquals(secondsOf(kept.odometry), [9n, 10n, 15n, 20n, 21n]);
  assertEquals(secondsOf(kept.imu), [9n, 10n, 15n, 20n, 21n]);
  assertEquals([removed.odometry, removed.imu], [[], []], "it has no nodes any more");
});
