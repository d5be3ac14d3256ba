import { assertEquals } from "@std/assert";
import type { TrajectoryState } from "../map_state.ts";
import type { MapNode } from "./map/parts.ts";
import { withoutOldReadings } from "./trimming.ts";

const SECOND = 10_000_000n;

Deno.test("withoutOldReadings: readings from a second before to a second after a trajectory's nodes stay", () => {
  const seconds = [0n, 8n, 9n, 10n, 15n, 20n, 21n, 22n];
  const readings = seconds.map((second) => ({ ticks: second * SECOND }));
  const trajectoryOf = (trajectory: number) => {
    return {
      trajectory,
      odometry: readings,
      imu: readings,
      submapsKept: undefined,
    } as unknown as TrajectoryState;
  };
  const nodes = [10n, 12n, 20n].map((second) => ({ trajectory: 1, ticks: second * SECOND }) as MapNode);
  const [removed, kept] = withoutOldReadings([trajectoryOf(0), trajectoryOf(1)], nodes);
  const secondsOf = (some: readonly { ticks: bigint }[]) => some.map(({ ticks }) => ticks / SECOND);
  assertEquals(secondsOf(kept.odometry), [9n, 10n, 15n, 20n, 21n]);
  assertEquals(secondsOf(kept.imu), [9n, 10n, 15n, 20n, 21n]);
  assertEquals([removed.odometry, removed.imu], [[], []], "it has no nodes any more");
});
