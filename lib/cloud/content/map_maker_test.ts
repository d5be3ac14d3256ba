import { assertGreater, assertLess } from "@std/assert";
import { writePcd } from "../../geometry/cloud/pcd.ts";
import { createCloud } from "../../geometry/cloud/point_cloud.ts";
import { withViewpoint } from "../../geometry/cloud/viewpoint.ts";
import { NO_ROTATION } from "../../geometry/pose.ts";
import { MAPPER_DEFAULTS } from "../../slam/mapping.ts";
import { RING, viewFrom } from "../../../tests/support/floor_plan.ts";
import { MapMaker } from "./map_maker.ts";

const AHEAD_M = 0.5;

/** How far from its place a robot is believed that turns half around on the spot, with its lidar ahead of it. */
async function movedM(hasPlace: boolean): Promise<number> {
  const maker = await MapMaker.begin(MAPPER_DEFAULTS);
  let pose = { x: 0, y: 0, yaw: 0 };
  for (let step = 0; step <= 30; step++) {
    const yaw = Math.PI * step / 30;
    const lidar = { x: AHEAD_M * Math.cos(yaw), y: AHEAD_M * Math.sin(yaw), yaw };
    const points = viewFrom(RING, lidar, { beams: 181, fieldRad: Math.PI, noiseM: 0.01, seed: step });
    const [x, y, z] = [0, 1, 2].map((from) => points.filter((_, index) => index % 3 === from));
    const file = writePcd(createCloud({ x, y, z }));
    const place = { translation: { x: 1000 * AHEAD_M, y: 0, z: 300 }, rotation: NO_ROTATION };
    pose = maker.scan(1000 + 0.2 * step, hasPlace ? withViewpoint(file, place) : file)!;
  }
  return Math.hypot(pose.x, pose.y);
}

Deno.test("captured clouds say where the lidar was on the robot", async () => {
  assertLess(await movedM(true), 0.1);
  assertGreater(await movedM(false), 0.7);
});
