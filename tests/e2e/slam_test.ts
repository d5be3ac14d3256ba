/** The SLAM service of a whole machine, driven and asked by the published library; and maps that a kill cannot harm. */

import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import { Buffer } from "node:buffer";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { readMap } from "../../lib/slam/pbstream/map_file.ts";
import { building, clearance, obstaclesAt, STARTS } from "../../lib/slam/simulation/building.ts";
import { pieces } from "../support/pieces.ts";
import { startServer, writeConfig } from "../support/server.ts";

const INTEROP = new URL("../interop/", import.meta.url).pathname;
/** Probability from which a point is a wall: a place that was seen a few times has not much more than 50. */
const SURE = 52;
/**
 * Least share of the map's walls that are walls of the building. It is above 0.9 while readings come in time; scans
 * that a busy machine gives 0.3 s late turn some walls by a few degrees, and the share falls to 0.77.
 */
const RIGHT_SHARE = 0.7;
const OFFICE = building("office", 0);

const CONFIG = {
  components: [
    {
      name: "rover",
      api: "rdk:component:base",
      model: "fake",
      // Somebody who stands before a robot as it begins can mislead it: `lib/slam/mapper_test.ts`.
      attributes: { building: "office", people: 0 },
    },
    { name: "lidar", api: "rdk:component:camera", model: "svc:lidar:fake", attributes: { base: "rover" } },
    { name: "imu", api: "rdk:component:movement_sensor", model: "fake", attributes: { base: "rover" } },
    {
      name: "merged",
      api: "rdk:component:movement_sensor",
      model: "merged",
      attributes: {
        position: ["imu"],
        orientation: ["imu"],
        linear_acceleration: ["imu"],
        angular_velocity: ["imu"],
      },
    },
  ],
  services: [{
    name: "slam",
    api: "rdk:service:slam",
    model: "svc:slam:cartographer",
    attributes: {
      use_cloud_slam: false,
      camera: { name: "lidar", data_frequency_hz: 5 },
      movement_sensor: { name: "merged", data_frequency_hz: 20 },
      config_params: { mode: "2d" },
    },
  }],
};

interface Toured {
  readonly properties: unknown;
  readonly pose: { readonly x: number; readonly y: number; readonly theta: number };
  readonly truth: { readonly x_m: number; readonly y_m: number; readonly yaw_degs: number };
  readonly map: string;
  readonly state: string;
}

Deno.test("a robot maps a building: clients get a true map, and the next robot localizes on it", async () => {
  const first = await toured({});
  assertEquals(first.properties, { ...PROPERTIES, mappingMode: 1 });
  assertLess(missedM(first), 0.4, JSON.stringify([first.pose, first.truth]));
  looksLikeTheOffice(Buffer.from(first.map, "base64"));
  const state = Buffer.from(first.state, "base64");
  const { nodes, submaps } = await readMap(pieces(state));
  assertGreater(nodes.length, 10);
  assertGreater(submaps.length, 0);

  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(`${folder}/office.pbstream`, state);
    const existing = { existing_map: `${folder}/office.pbstream` };
    const second = await toured({ ...existing, enable_mapping: false });
    assertEquals(second.properties, { ...PROPERTIES, mappingMode: 2 });
    assertLess(missedM(second), 0.4, JSON.stringify([second.pose, second.truth]));
    const third = await toured({ ...existing, enable_mapping: true });
    assertEquals(third.properties, { ...PROPERTIES, mappingMode: 3 });
    assertLess(missedM(third), 0.4, JSON.stringify([third.pose, third.truth]));
    assertGreater((await readMap(pieces(Buffer.from(third.state, "base64")))).nodes.length, nodes.length);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const PROPERTIES = { cloudSlam: false, internalStateFileType: ".pbstream", sensors: ["lidar", "merged"] };

/** What is seen of a robot that drives along the corridor; `more` goes to the attributes of its SLAM service. */
async function toured(more: object): Promise<Toured> {
  const [slam] = CONFIG.services;
  const services = [{ ...slam, attributes: { ...slam.attributes, ...more } }];
  const configPath = await writeConfig({ ...CONFIG, services });
  const server = await startServer(configPath);
  try {
    await server.wrote("machine is running");
    return await tour(server.url);
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(configPath);
  }
}

/** How far the position of the service is from where the robot is, in metres. */
function missedM({ pose, truth }: Toured): number {
  const { x, y } = STARTS.office;
  return Math.hypot(pose.x / 1000 + x - truth.x_m, pose.y / 1000 + y - truth.y_m);
}

/** Walls of the map are walls of the building, and those that the robot passed are in the map. */
function looksLikeTheOffice(file: Uint8Array): void {
  const cloud = readPcd(file);
  const sure = Array.from(cloud.x, (x, n) => ({ x: x + STARTS.office.x, y: cloud.y[n] + STARTS.office.y, n }))
    .filter(({ n }) => cloud.rgb![n] >= SURE);
  assertGreater(sure.length, 300);
  const standing = { ...obstaclesAt(OFFICE, 0), people: [] };
  const right = sure.filter(({ x, y }) => clearance(standing, x, y) < 0.2).length;
  assertGreater(right / sure.length, RIGHT_SHARE);
  // The corridor's sides and its western end, metre by metre, but for the doors.
  const passed = [[-8, 0], [-7.5, 1.2], [-6.5, 1.2], [-4, 1.2], [-3, 1.2], [-7.5, -1.2], [-4, -1.2], [
    -3.5,
    -1.2,
  ]];
  for (const [x, y] of passed) {
    assert(sure.some((one) => Math.hypot(one.x - x, one.y - y) < 0.25), `no wall near ${x}, ${y}`);
  }
}

async function tour(url: string): Promise<Toured> {
  const options = ["-A", "--no-lock", "--config", `${INTEROP}packages.json`];
  const args = ["run", ...options, `${INTEROP}slam_tour.mjs`, url];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("a process that is killed while it saves a map leaves a complete map", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/map.pbstream`;
  const writer = new URL("./map_writer.ts", import.meta.url).pathname;
  const random = randomFrom(1);
  try {
    for (let kill = 0; kill < 5; kill++) {
      const command = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", writer, path],
        stdout: "piped",
      });
      const child = command.spawn();
      const reader = child.stdout.getReader();
      // It has written some maps, and is writing another one.
      for (let maps = 0; maps < 2 + 10 * random(); maps++) assertEquals((await reader.read()).done, false);
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
      const map = await readMap(new SystemFiles().readPieces(path));
      assertEquals([map.submaps.length, map.nodes.length], [3, 4]);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
