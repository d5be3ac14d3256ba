/** What a machine does for its callers: modules, cameras, point clouds, objects in depth frames. */

import { drawScene, sceneLens, SCENES } from "../../../drivers/camera/scene.ts";
import { writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../../lib/geometry/cloud/point_cloud.ts";
import { encodePng } from "../../../lib/geometry/image/png.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { CameraService } from "../../../proto/gen/camera_pb.ts";
import { SensorService } from "../../../proto/gen/sensor_pb.ts";
import { VisionService } from "../../../proto/gen/vision_pb.ts";
import { goProgram } from "../../interop/programs.ts";
import { processorMs } from "../../support/server.ts";
import {
  addRate,
  callsOf,
  clock,
  type Command,
  type Figures,
  hasResource,
  type OpenFigures,
  ROOT,
  type Running,
  waitFor,
  withServer,
} from "./contestant.ts";

const PCD = "pointcloud/pcd";
/** Of 16 bytes each, colour included. */
const LARGE_CLOUD_POINTS = 640_000;
const LARGE_CLOUDS = 20;
const FRAMES_HZ = 30;
const FRAMES_SECONDS = 4;
const CAMERA = { name: "camera1", api: "rdk:component:camera" };
const MODULE_CALLS = [[1, 1000], [50, 5000]] as const;

/** Calls of a sensor in a module in Go, which costs less than what is measured. */
export async function modules(server: Command): Promise<Figures> {
  const program = await goProgram(`${ROOT}tests/modules/go_module`);
  if ("missing" in program) throw new Error(program.missing);
  const gauge = {
    name: "gauge",
    api: "rdk:component:sensor",
    model: "acme:go:gauge",
    attributes: { uses: "built-in", step: 1 },
  };
  const config = {
    modules: [{ name: "go", executable_path: program.found }],
    components: [{ name: "built-in", api: "rdk:component:sensor", model: "fake" }, gauge],
  };

  return await withServer(server, config, async (running) => {
    const sensors = client(SensorService, running.channel);
    const read = () => sensors.getReadings({ name: "gauge" });
    await waitFor(() => read().then(() => true), "the module's sensor does not answer");
    await callsOf(read, 16, 500);

    const figures: OpenFigures = {};
    for (const [concurrency, count] of MODULE_CALLS) {
      await addRate(figures, `calls of a module, ${concurrency} at once`, running, count, () => {
        return callsOf(read, concurrency, count);
      });
    }
    return figures;
  });
}

/** Pictures and point clouds of the fake camera as fast as they come, then pictures at the pace of a film. */
export function cameras(server: Command): Promise<Figures> {
  return withServer(server, { components: [{ ...CAMERA, model: "fake" }] }, async (running) => {
    const [frame, cloud] = cameraCalls(running);
    await waitFor(() => frame().then(() => true), "the camera gives no picture");
    const figures: OpenFigures = {};
    for (
      const [name, call] of [["pictures of a camera", frame], ["point clouds of a camera", cloud]] as const
    ) {
      await callsOf(call, 1, 20);
      await addRate(figures, name, running, 100, () => callsOf(call, 1, 100));
    }

    figures[`a camera at ${FRAMES_HZ} frames a second: share of a processor, %`] = await shareAtPace(
      running,
      frame,
    );
    return figures;
  });
}

async function shareAtPace({ pid }: Running, frame: () => Promise<unknown>): Promise<number> {
  const [beganMs, beforeMs] = [performance.now(), await processorMs(pid)];
  for (let taken = 1; taken <= FRAMES_HZ * FRAMES_SECONDS; taken++) {
    await frame();
    await clock.sleep(Math.max(0, beganMs + taken * 1000 / FRAMES_HZ - performance.now()));
  }
  return (await processorMs(pid) - beforeMs) / (performance.now() - beganMs) * 100;
}

/** A point cloud of ten megabytes, from a file. */
export async function clouds(server: Command): Promise<Figures> {
  const path = await Deno.makeTempFile({ prefix: "svc-compare-", suffix: ".pcd" });
  try {
    await Deno.writeFile(path, writePcd(largeCloud()));
    const camera = { ...CAMERA, model: "image_file", attributes: { pointcloud_file_path: path } };
    return await withServer(server, { components: [camera] }, async (running) => {
      const cameras = client(CameraService, running.channel);
      const call = () => cameras.getPointCloud({ name: CAMERA.name, mimeType: PCD });
      await hasResource(running, CAMERA.name);
      await waitFor(() => call().then(({ pointCloud }) => pointCloud.length > 10_000_000), "no large cloud");
      const figures: OpenFigures = {};
      await addRate(figures, "point clouds of 10 MB", running, LARGE_CLOUDS, () => {
        return callsOf(call, 1, LARGE_CLOUDS);
      });
      return figures;
    });
  } finally {
    await Deno.remove(path);
  }
}

function largeCloud() {
  const values = () => Float32Array.from({ length: LARGE_CLOUD_POINTS }, (_, at) => at % 1000 / 100);
  const rgb = Uint32Array.from({ length: LARGE_CLOUD_POINTS }, (_, at) => at & 0xffffff);
  return createCloud({ width: LARGE_CLOUD_POINTS, height: 1, x: values(), y: values(), z: values(), rgb });
}

/** From the depth picture's file to the objects at the caller. */
export async function obstacles(server: Command): Promise<Figures> {
  const path = await Deno.makeTempFile({ prefix: "svc-compare-", suffix: ".png" });
  try {
    const lens = sceneLens(640, 480);
    const { depth: { width, height, data } } = drawScene(SCENES.boxes, lens);
    await Deno.writeFile(path, encodePng({ width, height, channels: 1, samples: data }));
    const intrinsics = {
      ...{ width_px: width, height_px: height, fx: lens.focalXPx, fy: lens.focalYPx },
      ...{ ppx: lens.centerXPx, ppy: lens.centerYPx },
    };

    const camera = {
      ...CAMERA,
      model: "image_file",
      attributes: { depth_image_file_path: path, intrinsic_parameters: intrinsics },
    };
    const segmenter = {
      name: "obstacles1",
      api: "rdk:service:vision",
      model: "obstacles_depth",
      attributes: { camera_name: CAMERA.name, max_dist_from_plane_mm: 30, min_points_in_segment: 300 },
    };
    return await withServer(server, { components: [camera], services: [segmenter] }, objectsASecond);
  } finally {
    await Deno.remove(path);
  }
}

async function objectsASecond(running: Running): Promise<Figures> {
  const vision = client(VisionService, running.channel);
  const request = { name: "obstacles1", cameraName: CAMERA.name, mimeType: PCD };
  const call = () => vision.getObjectPointClouds(request);
  await waitFor(() => call().then(({ objects }) => objects.length === 3), "the three boxes are not found");
  await callsOf(call, 1, 20);
  const figures: OpenFigures = {};
  await addRate(figures, "obstacles_depth of 640 x 480", running, 100, () => callsOf(call, 1, 100));
  return figures;
}

function cameraCalls({ channel }: Running) {
  const cameras = client(CameraService, channel);
  return [
    () => cameras.getImages({ name: CAMERA.name }),
    () => cameras.getPointCloud({ name: CAMERA.name, mimeType: PCD }),
  ] as const;
}
