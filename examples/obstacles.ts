/**
 * Draws what an `obstacles_depth` service sees: the depth on the left; on the right the ground in green, each object
 * in a colour of its own, and what is neither in grey.
 *
 *     deno run -A examples/obstacles.ts [configuration] [picture.png]
 *
 * The machine of the configuration (examples/obstacles.json unless told otherwise) runs within this program.
 */

import { MODELS } from "../drivers/mod.ts";
import { type Camera, CameraApi } from "../lib/api/sensors/camera.ts";
import { APIS } from "../lib/api/mod.ts";
import { type Vision, VisionApi } from "../lib/api/services/vision.ts";
import { SystemClock } from "../lib/base/clock.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { silentLogs } from "../lib/base/log/log.ts";
import type { DepthMap } from "../lib/geometry/image/depth.ts";
import { decodeImage } from "../lib/geometry/image/image.ts";
import { type Intrinsics, projectPoint, raysOf } from "../lib/geometry/image/lens.ts";
import { readPcd } from "../lib/geometry/cloud/pcd.ts";
import { GroundFinder } from "../lib/geometry/cloud/plane.ts";
import { encodePng } from "../lib/geometry/image/png.ts";
import { decodeConfig } from "../lib/machine/config/config.ts";
import { Machine } from "../lib/machine/graph/machine.ts";
import { Registry } from "../lib/resource/registry.ts";

type Color = readonly [red: number, green: number, blue: number];

// deno-fmt-ignore
const OBJECTS: readonly Color[] = [
  [230, 60, 60], [70, 110, 240], [240, 200, 40], [200, 70, 220], [60, 210, 220], [250, 140, 40], [180, 140, 90],
];
const GROUND: Color = [50, 110, 60];
const NEITHER: Color = [110, 110, 110];

const [config = new URL("obstacles.json", import.meta.url).pathname, file = "obstacles.png"] = Deno.args;
const settings = JSON.parse(await Deno.readTextFile(config));
const clock = new SystemClock();
const registry = new Registry(APIS, MODELS);
const machine = new Machine({ registry, logs: silentLogs(clock), clock, host: new DenoHost() });
await machine.apply(
  (await decodeConfig(settings, registry, { env: (name) => Deno.env.get(name), packages: () => "" })).config,
);
await draw();
await machine.close();

async function draw(): Promise<void> {
  const { name, attributes } = settings.services.find(({ model }: { model: string }) =>
    model.endsWith("obstacles_depth")
  );
  const vision = machine.find(VisionApi.name, name) as Vision;
  const camera = machine.find(CameraApi.name, attributes.camera_name) as Camera;
  const { intrinsics: lens } = await camera.getProperties();
  const { images } = await camera.getImages();
  const decoded = images.map(({ image }) => decodeImage(image)).find(({ kind }) => kind === "depth");
  if (decoded?.kind !== "depth" || !lens) {
    throw new TypeError("the camera has no depth, or no lens parameters");
  }
  const objects = await vision.getObjectPointClouds("");
  const colors = groundColors(decoded.map, lens, {
    maxDistMm: attributes.max_dist_from_plane_mm ?? 100,
    toleranceDeg: attributes.ground_angle_tolerance_degs ?? 30,
  });
  for (const [index, { pcd, geometries }] of objects.entries()) {
    const { x, y, z } = readPcd(pcd);
    const color = OBJECTS[index % OBJECTS.length] ?? NEITHER;
    for (let n = 0; n < x.length; n++) {
      const pixel = projectPoint(lens, { x: x[n] ?? NaN, y: y[n] ?? NaN, z: z[n] ?? NaN });
      if (pixel) {
        colors[Math.round(pixel.v) * lens.widthPx + Math.round(pixel.u)] = color;
      }
    }
    const [geometry] = geometries;
    if (!geometry) continue;

    const { center } = geometry;
    console.log(
      `object ${index}: ${x.length} points around ${
        [center.x, center.y, center.z].map(Math.round).join(", ")
      } mm`,
    );
  }
  await Deno.writeFile(file, sideBySide(decoded.map, colors));
  console.log(`drawn in ${file}`);
}

/** The colour of each pixel by the ground alone; black where there is no reading. */
function groundColors(
  { width, height, data }: DepthMap,
  lens: Intrinsics,
  limits: { maxDistMm: number; toleranceDeg: number },
): Color[] {
  const rays = raysOf(lens);
  const ground = new GroundFinder(rays, width, height).find(data, limits);
  return Array.from(data, (depth, pixel) => {
    if (depth === 0) return [0, 0, 0];
    if (!ground) return NEITHER;
    const { normal, offsetMm } = ground;
    const right = normal.x * (rays.x[pixel] ?? 0), down = normal.y * (rays.y[pixel] ?? 0);
    const off = depth * (right + down + normal.z) + offsetMm;
    return Math.abs(off) < limits.maxDistMm ? GROUND : NEITHER;
  });
}

function sideBySide({ width, height, data }: DepthMap, colors: readonly Color[]): Uint8Array {
  const farthest = Math.max(1, data.reduce((most, depth) => Math.max(most, depth), 0));
  const samples = new Uint8Array(2 * width * height * 3);
  for (const [pixel, depth] of data.entries()) {
    const left = Math.floor(pixel / width) * 2 * width + pixel % width;
    samples.fill(depth === 0 ? 0 : 255 - 225 * depth / farthest, left * 3, left * 3 + 3);
    samples.set(colors[pixel] ?? NEITHER, (left + width) * 3);
  }
  return encodePng({ width: 2 * width, height, channels: 3, samples });
}
