import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { gunzipSync } from "node:zlib";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { boundingBox } from "../../lib/geometry/cloud/point_cloud.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeSlam } from "./fake.ts";

async function joined(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  return Uint8Array.from((await Array.fromAsync(parts)).flatMap((part) => [...part]));
}

Deno.test("fake SLAM: its properties are local SLAM in localizing mode with two sensors", async () => {
  assertEquals(await (await construct(FakeSlam)).getProperties(), {
    cloudSlam: false,
    mappingMode: "localize_only",
    internalStateFileType: ".pbstream",
    sensors: [{ name: "my-camera", type: "camera" }, { name: "my-movement-sensor", type: "movement_sensor" }],
  });
});

Deno.test("fake SLAM: the map is a constant room of 8 by 6 metres, sent in parts", async () => {
  const slam = await construct(FakeSlam);
  const parts = await Array.fromAsync(slam.getPointCloudMap());
  assert(parts.length > 1);
  const map = await joined(slam.getPointCloudMap());
  assertEquals(map, await joined(slam.getPointCloudMap()));
  const cloud = readPcd(map);
  const { min, max } = boundingBox(cloud)!;
  assertEquals([min.x, min.y, min.z, max.x, max.y, max.z], [-4, -3, 0, 4, 3, 0]);
  assert(cloud.rgb?.every((probability) => probability === 100));
});

Deno.test("fake SLAM: each request for the map moves the robot on around a circle", async () => {
  const slam = await construct(FakeSlam);
  const start = await slam.getPosition();
  assertEquals([start.x, start.y, start.theta], [1500, 0, 90]);
  await joined(slam.getPointCloudMap());
  assertEquals(await slam.getPosition(), start);
  await joined(slam.getPointCloudMap());
  const next = await slam.getPosition();
  assertAlmostEquals(Math.hypot(next.x, next.y), 1500, 1e-9);
  assertEquals(next.theta, 112.5);
  for (let place = 2; place <= 16; place++) await joined(slam.getPointCloudMap());
  assertEquals(await slam.getPosition(), start);
});

Deno.test("fake SLAM: the internal state is a pbstream file of format version 2", async () => {
  const state = await joined((await construct(FakeSlam)).getInternalState());
  const view = new DataView(state.buffer);
  assertEquals(view.getBigUint64(0, true), 0x7b1d1f7b5bf501dbn);
  const messages: number[][] = [];
  for (let at = 8; at < state.length;) {
    const length = Number(view.getBigUint64(at, true));
    messages.push([...gunzipSync(state.subarray(at + 8, at + 8 + length))]);
    at += 8 + length;
  }
  assertEquals(messages, [[0x08, 0x02], [0x0a, 0x00], [0x12, 0x00]]);
});
