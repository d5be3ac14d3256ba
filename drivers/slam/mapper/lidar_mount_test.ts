import { assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import type { Pose } from "../../../lib/geometry/pose.ts";
import type { FrameView } from "../../../lib/resource/frame_view.ts";
import { ResourceName } from "../../../lib/resource/name.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { LidarMount } from "./lidar_mount.ts";

const LIDAR = ResourceName.of("rdk:component:camera", "lidar");
const { signal } = new AbortController();

/** A mount over frames that answer `pose`, or fail. */
function mountOn(answer: () => Pose) {
  const logged: LogRecord[] = [], clock = new FakeClock();
  const frames: FrameView = {
    scene: () => Promise.reject(new SvcError("unimplemented", "unused")),
    frameOf: ({ short }) => short,
    transformPose: (_, referenceFrame) => Promise.try(() => ({ referenceFrame, pose: answer() })),
  };
  const mount = new LidarMount(
    LIDAR,
    () => frames,
    clock,
    new Logs(clock, [memorySink(logged)]).logger("slam"),
  );
  return { mount, clock, lines: () => logged.map(({ message }) => message) };
}

Deno.test("the lidar is where its frame says, and a change is logged once", async () => {
  let pose: Pose = { x: 220, y: -50, z: 300, oX: 0, oY: 0, oZ: 1, theta: 90 };
  const { mount, clock, lines } = mountOn(() => pose);
  assertEquals((await mount.pose(signal))!.translation, { x: 220, y: -50, z: 300 });
  assertEquals(lines(), ["lidar is mounted at x 0.220 m, y -0.050 m, yaw 90.0 degrees"]);
  pose = { ...pose, x: 100, oZ: -1 };
  assertEquals((await mount.pose(signal))!.translation.x, 220);
  await clock.advance(11_000);
  assertEquals((await mount.pose(signal))!.translation.x, 100);
  assertEquals(lines().length, 2);
  assertStringIncludes(lines()[1], "upside down");
});

Deno.test("a tilted lidar is warned of; without a frame, or outside of a machine, there is no place", async () => {
  const tilted = mountOn(() => ({ x: 0, y: 0, z: 0, oX: 1, oY: 0, oZ: 1, theta: 0 }));
  await tilted.mount.pose(signal);
  assertStringIncludes(tilted.lines()[1], "lidar is tilted by 45 degrees");
  for (const code of ["unknown", "failed_precondition"] as const) {
    const { mount, lines } = mountOn(() => {
      throw new SvcError(code, "no frame");
    });
    assertEquals([await mount.pose(signal), lines()], [undefined, []]);
  }
});

Deno.test("a frame that does not answer for a while leaves the lidar where it was", async () => {
  let isAway = false;
  const { mount, clock, lines } = mountOn(() => {
    if (isAway) throw new SvcError("unavailable", "the arm does not answer");
    return { x: 10, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };
  });
  await mount.pose(signal);
  isAway = true;
  await clock.advance(11_000);
  assertAlmostEquals((await mount.pose(signal))!.translation.x, 10, 1e-9);
  assertStringIncludes(lines()[1], "the frame of lidar is unknown for now: the arm does not answer");
});

Deno.test("the place of a lidar is that of its frame, whatever its name, and none without one", async () => {
  const clock = new FakeClock(), asked: string[] = [];
  const frames: FrameView = {
    scene: () => Promise.reject(new SvcError("unimplemented", "unused")),
    frameOf: ({ short }) => short === "far:r_lidar" ? "r_lidar" : undefined,
    transformPose: ({ referenceFrame, pose }) => {
      asked.push(referenceFrame);
      return Promise.resolve({ referenceFrame: "world", pose: { ...pose, x: 220 } });
    },
  };
  const places = ["far:r_lidar", "bare"].map((name) => {
    const lidar = ResourceName.of("rdk:component:camera", name);
    return new LidarMount(lidar, () => frames, clock, new Logs(clock, []).logger("slam")).pose(signal);
  });
  assertEquals((await Promise.all(places)).map((one) => one?.translation.x), [220, undefined]);
  assertEquals(asked, ["r_lidar"]);
});
