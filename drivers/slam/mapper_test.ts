import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertGreater,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CameraApi } from "../../lib/api/sensors/camera.ts";
import { type Slam, SlamApi } from "../../lib/api/services/slam.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import { DecodeContext, type JsonObject } from "../../lib/base/schema/schema.ts";
import { readPcd, writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { type Model, Registry } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import type { Pose2d } from "../../lib/slam/pose2d.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { bytesIn } from "../../tests/support/pieces.ts";
import { until } from "../../tests/support/until.ts";
import { FakeBase } from "../base/fake.ts";
import { FakeCamera } from "../camera/fake.ts";
import { ImageFileCamera } from "../camera/image_file.ts";
import { FakeLidar } from "../camera/lidar/fake.ts";
import { ReplayLidar } from "../camera/lidar/replay.ts";
import { FakeMovementSensor } from "../movement_sensor/fake.ts";
import { MergedMovementSensor } from "../movement_sensor/merged.ts";
import { ReplayOdometry } from "../movement_sensor/replay.ts";
import { MapperSlam } from "./mapper.ts";
import type { Engine, EngineEvents, EngineStart, Reading } from "./mapper/engine.ts";
import { openMapper } from "./mapper/service.ts";
import { attributes, optionsOf, type Settings } from "./mapper/settings.ts";

const LOG = { log: "tests/data/slam/office.clf" };
const PARAMS = { mode: "2d" };
const BASE: JsonObject = { use_cloud_slam: false, camera: { name: "lidar" }, config_params: PARAMS };

function decoded(more: JsonObject = {}): Settings {
  const at = new DecodeContext();
  const settings = attributes.decode({ ...BASE, ...more }, at);
  assertEquals(at.problems.filter(({ severity }) => severity === "error"), []);
  return settings as Settings;
}

function problems(more: JsonObject): string[] {
  return problemsOf(MapperSlam, { ...BASE, ...more });
}

/** A mapper that keeps what it is given, and says that the robot is wherever it has got so many scans. */
class KeptReadings implements Engine {
  readonly readings: Reading[] = [];
  finished = 0;
  closed = 0;
  poseAfter = 1;
  cloud = writePcd(createCloud({
    x: Float32Array.of(0, 1),
    y: Float32Array.of(0, 0),
    z: new Float32Array(2),
    rgb: Uint32Array.of(74, 74),
  }));
  state: Uint8Array = new Uint8Array(2_500_000).fill(7);

  add(reading: Reading): Promise<Pose2d | undefined> {
    this.readings.push(reading);
    const scans = this.of("scan");
    return Promise.resolve(scans < this.poseAfter ? undefined : { x: scans, y: -2, yaw: Math.PI / 2 });
  }

  of(kind: Reading["kind"]): number {
    return this.readings.filter((one) => one.kind === kind).length;
  }

  pointCloud(): Promise<Uint8Array> {
    return Promise.resolve(this.cloud);
  }

  internalState(): Promise<Uint8Array> {
    return Promise.resolve(this.state);
  }

  finish(): Promise<Pose2d | undefined> {
    this.finished++;
    return Promise.resolve(undefined);
  }

  close(): void {
    this.closed++;
  }
}

/** A scan in the middle of a round room. */
function ring(rangeM: number): Uint8Array {
  const angles = Float32Array.from({ length: 360 }, (_, k) => k * Math.PI / 180);
  const z = new Float32Array(angles.length);
  return writePcd(createCloud({
    x: angles.map((angle) => rangeM * Math.cos(angle)),
    y: angles.map((angle) => rangeM * Math.sin(angle)),
    z,
  }));
}

interface Bench {
  readonly slam: Slam;
  readonly engine: KeptReadings;
  readonly clock: FakeClock;
  readonly host: FakeHost;
  readonly starts: EngineStart[];
  readonly events: EngineEvents[];
  readonly logged: LogRecord[];
}

/** The service over kept readings, with a lidar and movement sensors in a building. */
async function withSlam(
  more: JsonObject,
  work: (bench: Bench) => Promise<void>,
  { files = {}, others = [] }: {
    readonly files?: { readonly [path: string]: Uint8Array };
    readonly others?: readonly Resource[];
  } = {},
): Promise<void> {
  const [clock, host, engine] = [new FakeClock(), new FakeHost({ files }), new KeptReadings()];
  const [starts, events, logged]: [EngineStart[], EngineEvents[], LogRecord[]] = [[], [], []];
  const base = await construct(FakeBase, { building: "hall" }, { name: "base", clock });
  const on = { dependencies: [base], clock };
  const lidar = await construct(FakeLidar, { base: "base", beams: 36 }, { ...on, name: "lidar" });
  const imu = await construct(FakeMovementSensor, { base: "base" }, { ...on, name: "imu" });
  // The model with another engine.
  const model: Model<Slam, Settings> = {
    ...MapperSlam,
    construct: (parts) =>
      openMapper(parts, (start, heard) => {
        starts.push(start);
        events.push(heard);
        return Promise.resolve(engine);
      }),
  } as Model<Slam, Settings>;
  const dependencies = [lidar, imu, base, ...others];
  const slam = await construct(model, { ...BASE, ...more }, { dependencies, clock, host, logged });
  try {
    await work({ slam, engine, clock, host, starts, events, logged });
  } finally {
    await slam.close();
    assertEquals(clock.pending, 0);
  }
}

Deno.test("mapper attributes: defaults are as documented", () => {
  const settings = decoded();
  assertEquals(settings.camera, { name: "lidar", dataFrequencyHz: 5 });
  assertEquals([settings.enableMapping, settings.existingMap, settings.mode], [true, "", "create"]);
  assertEquals(optionsOf(settings), MAPPER_DEFAULTS);
  const withSensor = decoded({ movement_sensor: { name: "imu" } });
  assertEquals(withSensor.movementSensor, { name: "imu", dataFrequencyHz: 20 });
  const { config_params: _, ...withoutParams } = BASE;
  const at = new DecodeContext();
  assertEquals(optionsOf(attributes.decode(withoutParams, at) as Settings), MAPPER_DEFAULTS);
  assertEquals(at.problems, []);
  assertEquals(namedBy(MapperSlam, { ...BASE, movement_sensor: { name: "imu" } }), ["lidar", "imu"]);
});

Deno.test("mapper attributes: accepts numbers as texts, empty texts as defaults, and published aliases", () => {
  const settings = decoded({
    camera: { name: "lidar", data_frequency_hz: "7" },
    config_params: {
      mode: "2d",
      optimize_every_n_nodes: "0",
      num_range_data: "",
      max_range: "12.5",
      min_range_meters: 0.15,
      missing_data_ray_length: 12,
      min_covered_area: "2",
      occupied_space_weight: "3e1",
      initial_starting_pose: "X:1.5, Y:-2, Theta:0.7",
      optimize_on_start: "true",
    },
  });
  assertEquals(settings.camera.dataFrequencyHz, 7);
  assertEquals(optionsOf(settings), {
    ...MAPPER_DEFAULTS,
    optimizeEveryNodes: 0,
    maxRangeM: 12.5,
    minRangeM: 0.15,
    missingDataRayLengthM: 12,
    minCoveredAreaM2: 2,
    occupiedSpaceWeight: 30,
  });
  assertEquals(settings.configParams.initialStartingPose, { x: 1.5, y: -2, yaw: 0.7 });
  assertEquals(settings.configParams.optimizeOnStart, true);
  const at = new DecodeContext();
  attributes.decode({ ...BASE, config_params: { ...PARAMS, num_range_dat: 3 } }, at);
  assertEquals(at.problems.map(({ severity, path }) => [severity, path]), [[
    "warning",
    "config_params.num_range_dat",
  ]]);
});

Deno.test("mapper attributes: impossible values, each error with its path", () => {
  const wrong: readonly [JsonObject, string][] = [
    [{ use_cloud_slam: null }, "use_cloud_slam: missing required field"],
    [{ use_cloud_slam: "yes" }, 'use_cloud_slam: found "yes", wanted true or false'],
    [{ camera: null }, "camera: missing required field"],
    [{ camera: {} }, 'camera: "camera[name]" is required'],
    [
      { camera: { name: "l", data_frequency_hz: "5x" } },
      "camera[data_frequency_hz] must only contain digits",
    ],
    [{ camera: { name: "l", data_frequency_hz: [5] } }, "camera[data_frequency_hz] must only contain digits"],
    [{ config_params: { ...PARAMS, optimize_on_start: ["true"] } }, "optimize_on_start: found an array"],
    [{ camera: { name: "l", data_frequency_hz: 2.5 } }, "camera[data_frequency_hz] must only contain digits"],
    [{ camera: { name: "l", data_frequency_hz: -1 } }, "camera[data_frequency_hz] cannot be less than zero"],
    [
      { movement_sensor: { name: "i", data_frequency_hz: "-2" } },
      "movement_sensor[data_frequency_hz] cannot be less than zero",
    ],
    [{ enable_mapping: "no" }, "enable_mapping: found"],
    [
      { existing_map: "map.pcd" },
      'existing_map: found "map.pcd": SLAM Service configuration error: existing map is not a .pbstream file',
    ],
    [
      { enable_mapping: false, existing_map: "a.pbstream", camera: { name: "l", data_frequency_hz: 0 } },
      "localizing in offline mode is unsupported",
    ],
    [{ enable_mapping: false }, "localizing requires an existing map"],
    [
      { camera: { name: "l", data_frequency_hz: 0 }, movement_sensor: { name: "i", data_frequency_hz: 20 } },
      "In offline mode, but movement sensor data frequency is nonzero",
    ],
    [
      { movement_sensor: { name: "i", data_frequency_hz: 0 } },
      "In online mode, but movement sensor data frequency is zero",
    ],
    [{ config_params: {} }, "config_params.mode: missing required field"],
    [{ config_params: { mode: "3d" } }, "svc:slam:cartographer does not have a 'mode: 3d'"],
    [
      { config_params: { ...PARAMS, optimize_every_n_nodes: -1 } },
      "config_params.optimize_every_n_nodes: found -1",
    ],
    [
      { config_params: { ...PARAMS, num_range_data: 0 } },
      "config_params.num_range_data: found 0, wanted an integer",
    ],
    [{ config_params: { ...PARAMS, num_range_data: 2.5 } }, "config_params.num_range_data: found 2.5"],
    [
      { config_params: { ...PARAMS, missing_data_ray_length_meters: 0 } },
      "missing_data_ray_length_meters: found 0",
    ],
    [
      { config_params: { ...PARAMS, max_range_meters: "far" } },
      'config_params.max_range_meters: found "far"',
    ],
    [{ config_params: { ...PARAMS, min_range_meters: -0.1 } }, "config_params.min_range_meters: found -0.1"],
    [
      { config_params: { ...PARAMS, min_range_meters: 30 } },
      "min_range_meters 30 is not below max_range_meters 25",
    ],
    [{ config_params: { ...PARAMS, max_submaps_to_keep: 1 } }, "config_params.max_submaps_to_keep: found 1"],
    [{ config_params: { ...PARAMS, fresh_submaps_count: 0 } }, "config_params.fresh_submaps_count: found 0"],
    [
      { config_params: { ...PARAMS, min_covered_area_meters_squared: -1 } },
      "min_covered_area_meters_squared: found -1",
    ],
    [
      { config_params: { ...PARAMS, min_added_submaps_count: -1 } },
      "config_params.min_added_submaps_count: found -1",
    ],
    [
      { config_params: { ...PARAMS, occupied_space_weight: -1 } },
      "config_params.occupied_space_weight: found -1",
    ],
    [
      { config_params: { ...PARAMS, translation_weight: "a" } },
      'config_params.translation_weight: found "a"',
    ],
    [{ config_params: { ...PARAMS, rotation_weight: -2 } }, "config_params.rotation_weight: found -2"],
    [
      { config_params: { ...PARAMS, initial_starting_pose: "1, 2" } },
      "config_params.initial_starting_pose: found",
    ],
    [
      { save_map: "map" },
      'save_map: found "map": SLAM Service configuration error: save map is not a .pbstream file',
    ],
    [{ save_every_sec: 0 }, "save_every_sec: found 0"],
  ];
  for (const [more, wanted] of wrong) {
    const found = problems(more);
    assert(found.some((one) => one.includes(wanted)), `${found.join("; ")}\nwanted: ${wanted}`);
  }
});

Deno.test("mapper: with use_cloud_slam only getProperties answers, and missing captures are logged", async () => {
  await withSlam(
    { use_cloud_slam: true, movement_sensor: { name: "imu" } },
    async ({ slam, starts, logged }) => {
      assertEquals(await slam.getProperties(), {
        cloudSlam: true,
        mappingMode: "create_new_map",
        internalStateFileType: ".pbstream",
        sensors: [{ name: "lidar", type: "camera" }, { name: "imu", type: "movement_sensor" }],
      });
      for (
        const call of [
          () => slam.getPosition(),
          () => Array.fromAsync(slam.getPointCloudMap()),
          () => Array.fromAsync(slam.getInternalState()),
          () => slam.doCommand({ job_done: "" }),
        ]
      ) {
        const error = await assertRejects(call, SvcError, "configured with use_cloud_slam set to true");
        assertEquals([error.code, error.message.startsWith("resource (svc:slam:cartographer) unavailable")], [
          "unavailable",
          true,
        ]);
      }
      assertEquals(starts, []);
      const messages =
        'of "lidar" is not captured: add it to capture_methods in the resource\'s service_configs';
      const [lidar, imu] = logged.map(({ message }) => message);
      assertStringIncludes(lidar, `NextPointCloud, or GetPointCloud ${messages}`);
      assertStringIncludes(
        imu,
        'LinearAcceleration and AngularVelocity, or Position and Orientation of "imu"',
      );
    },
  );
});

Deno.test("mapper: enable_mapping and existing_map set the mode, and the engine gets the map", async () => {
  const files = { "/maps/a.pbstream": Uint8Array.of(1, 2, 3) };
  const map = { existing_map: "/maps/a.pbstream" };
  const modes: readonly [JsonObject, string, EngineStart["mode"]][] = [
    [{}, "create_new_map", "create"],
    [map, "update_existing_map", "update"],
    [{ ...map, enable_mapping: false }, "localize_only", "localize"],
  ];
  for (const [more, messages, mode] of modes) {
    await withSlam(more, async ({ slam, starts: [start] }) => {
      assertEquals((await slam.getProperties()).mappingMode, messages);
      assertEquals([start.mode, start.map, start.isOffline], [
        mode,
        "existing_map" in more ? files["/maps/a.pbstream"] : undefined,
        false,
      ]);
    }, { files });
  }
  await assertRejects(() => withSlam(map, () => Promise.resolve()), SvcError, "/maps/a.pbstream");
});

Deno.test("mapper: a missing camera, a camera without PCD and an unfit movement sensor are refused", async () => {
  const flat = await construct(FakeCamera, {}, { name: "flat" });
  flat.getProperties = () => Promise.resolve({ supportsPcd: false, mimeTypes: [] });
  const compass = await construct(FakeMovementSensor, {}, { name: "compass" });
  const merged = await construct(MergedMovementSensor, {
    compass_heading: ["compass"],
    position: ["compass"],
  }, {
    name: "merged",
    dependencies: [compass],
  });
  const refused: readonly [JsonObject, string][] = [
    [{ camera: { name: "none" } }, "needs rdk:component:camera/none"],
    [{ camera: { name: "flat" } }, "'camera' must support PCD"],
    [{ movement_sensor: { name: "merged" } }, "supports neither of the two pairs"],
  ];
  for (const [more, wanted] of refused) {
    const error = await assertRejects(
      () => withSlam(more, () => Promise.resolve(), { others: [flat, merged] }),
      SvcError,
      wanted,
    );
    assertEquals(error.code, "failed_precondition");
  }
});

Deno.test("mapper online: reads lidar and sensor at their rates; the robot is at the origin until it is localized", async () => {
  const more = { camera: { name: "lidar", data_frequency_hz: 10 }, movement_sensor: { name: "imu" } };
  await withSlam(more, async ({ slam, engine, clock, logged, events }) => {
    engine.poseAfter = 5;
    const origin = { x: 0, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };
    await clock.advance(350);
    assertEquals(engine.of("scan"), 4);
    assertEquals([await slam.getPosition(), await slam.getStatus()], [
      { ...origin, extra: { place: "not localized", confidence: 0 } },
      { localized: false, place: "not localized", confidence: 0, job_done: false },
    ]);
    await clock.advance(650);
    assertEquals([engine.of("scan"), engine.of("imu"), engine.of("odometry")], [11, 21, 21]);
    const { extra, ...pose } = await slam.getPosition();
    assertEquals(pose, { ...origin, x: 11_000, y: -2000, theta: 90 });
    assertEquals(extra, { place: "not localized", confidence: 0 });
    for (const place of ["localized", "lost", "localized"] as const) {
      events.at(-1)!.localized({ place, confidence: place === "lost" ? 0 : 0.8 });
      assertEquals((await slam.getPosition()).extra, { place, confidence: place === "lost" ? 0 : 0.8 });
      assertEquals((await slam.getStatus()).place, place);
    }
    const messages = logged.map(({ message }) => message).filter((one) => /lost|found/.test(one));
    assertEquals(messages, [
      "lost: the map contradicts the scans; the last known pose stands",
      "the robot has been found on the map again",
    ]);
    const scan = engine.readings.findLast((one) => one.kind === "scan")!;
    assertAlmostEquals(scan.scan.timeS, clock.nowMs() / 1000, 1e-3);
    assert(scan.scan.points.length >= 3 * 30);
    const imu = engine.readings.findLast((one) => one.kind === "imu")!;
    assertAlmostEquals(imu.reading.linearAcceleration[2], 9.81, 0.2);
    assert(Math.abs(imu.reading.angularVelocity[2]) < 0.1);
  });
});

Deno.test("mapper online: the times of readings go on when the time of day is set back, and follow when it is set on", async () => {
  await withSlam({ movement_sensor: { name: "imu" } }, async ({ engine, clock }) => {
    const timeOf = (one: Reading) => one.kind === "scan" ? one.scan.timeS : one.reading.timeS;
    const last = (kind: Reading["kind"]) => timeOf(engine.readings.findLast((one) => one.kind === kind)!);
    await clock.advance(1000);
    const before = clock.nowMs() / 1000;
    clock.setOn(-3_600_000);
    await clock.advance(1000);
    for (const kind of ["scan", "imu", "odometry"] as const) {
      assertAlmostEquals(last(kind), before + 1, 0.01, `${kind} after the time went back`);
    }
    clock.setOn(7_200_000);
    await clock.advance(1000);
    for (const kind of ["scan", "imu", "odometry"] as const) {
      assertAlmostEquals(last(kind), clock.nowMs() / 1000, 0.01, `${kind} after the time went on`);
    }
  });
});

Deno.test("mapper online: uses an IMU alone and odometry alone, each for its own quantities", async () => {
  const all = await construct(FakeMovementSensor, {}, { name: "all" });
  const part = (name: string, quantities: readonly string[]) => {
    const named = Object.fromEntries(quantities.map((one) => [one, ["all"]]));
    return construct(MergedMovementSensor, named, { name, dependencies: [all] });
  };
  const others = [
    await part("gyro", ["angular_velocity", "linear_acceleration"]),
    await part("wheels", ["position", "orientation"]),
  ];
  for (const [name, kind] of [["gyro", "imu"], ["wheels", "odometry"]] as const) {
    await withSlam({ movement_sensor: { name } }, async ({ engine, clock }) => {
      await clock.advance(200);
      const kinds = new Set(engine.readings.map((one) => one.kind));
      assertEquals(kinds, new Set([kind, "scan"]));
    }, { others });
  }
});

Deno.test("mapper online: a busy engine skips scans, and errors of the engine are logged", async () => {
  await withSlam({ movement_sensor: { name: "imu" } }, async ({ engine, clock, logged }) => {
    const added = { scan: 0, movement: 0 };
    const busy = Promise.withResolvers<undefined>();
    engine.add = ({ kind }) => {
      added[kind === "scan" ? "scan" : "movement"]++;
      return busy.promise;
    };
    for (let passed = 0; passed < 20; passed++) await clock.advance(100);
    assertEquals(added.scan, 2);
    assertGreater(added.movement, 10, "movements wait apart from scans");
    engine.add = () => Promise.reject(new SvcError("internal", "out of order"));
    busy.resolve(undefined);
    await clock.advance(400);
    assert(logged.some(({ message }) => message.includes("did not take a scan: out of order")));
  });
});

Deno.test("mapper online: scans that are left out are told with the reason, once until one is taken", async () => {
  const [host, clock, logged]: [FakeHost, SystemClock, LogRecord[]] = [new FakeHost(), new SystemClock(), []];
  const see = (rangeM: number) => host.writeFile("/ring.pcd", ring(rangeM));
  const messages = () =>
    logged.filter(({ message }) => message.startsWith("leaving out scans: none of their points")).length;
  await see(5000);
  const seen = { pointcloud_file_path: "/ring.pcd" };
  const lidar = await construct(ImageFileCamera, seen, { name: "lidar", clock, host });
  const camera = { name: "lidar", data_frequency_hz: 1000 };
  const slam = await construct(MapperSlam, { ...BASE, camera }, {
    dependencies: [lidar],
    clock,
    host,
    logged,
  });
  await until(() => messages() === 1);
  await see(5);
  await until(async () => (await slam.getStatus()).localized === true);
  await see(5000);
  await until(() => messages() === 2);
  await slam.close();
});

Deno.test("mapper offline: two recordings are merged by their times, then job_done is true", async () => {
  const others = [
    await construct(ReplayLidar, LOG, { name: "recorded" }),
    await construct(ReplayOdometry, LOG, { name: "wheels" }),
  ];
  const more = { camera: { name: "recorded", data_frequency_hz: 0 }, movement_sensor: { name: "wheels" } };
  await withSlam(more, async ({ slam, engine, starts }) => {
    await until(async () => (await slam.doCommand({ job_done: "" })).job_done === true);
    assertEquals([starts[0].isOffline, engine.finished, engine.of("scan")], [true, 1, 60]);
    const times = engine.readings.map((one) => one.kind === "scan" ? one.scan.timeS : one.reading.timeS);
    assertEquals(times, times.toSorted((a, b) => a - b));
    // The odometry before the first scan is left out.
    assertEquals([engine.readings[0].kind, engine.of("odometry")], ["odometry", 178]);
  }, { others });
});

Deno.test("mapper offline: a recording that keeps failing ends the run, and one that fails for a while does not", async () => {
  for (const failures of [5, Infinity]) {
    const recorded = await construct(ReplayLidar, LOG, { name: "recorded" });
    const read = recorded.getPointCloud.bind(recorded);
    let reads = 0;
    recorded.getPointCloud = (...args) => {
      if (++reads <= failures) return Promise.reject(new SvcError("unavailable", "the disk is away"));
      return read(...args);
    };
    const more = { camera: { name: "recorded", data_frequency_hz: 0 }, movement_sensor: {} };
    await withSlam(more, async ({ clock, logged, engine }) => {
      await clock.advance(20_000);
      const ends = logged.filter(({ message }) =>
        message.includes("no reading in 10 tries: the disk is away")
      );
      assertEquals([reads > 10, ends.length], failures === 5 ? [true, 0] : [false, 1]);
      if (failures === 5) await until(() => engine.finished === 1);
    }, { others: [recorded] });
  }
});

Deno.test("mapper: the internal state comes in parts of 1 MiB, and the map as a PCD file", async () => {
  await withSlam({}, async ({ slam, engine }) => {
    const parts = await Array.fromAsync(slam.getInternalState());
    assertEquals(parts.map(({ length }) => length), [1_048_576, 1_048_576, 402_848]);
    assertEquals(await bytesIn(parts), engine.state);
    assertEquals(await bytesIn(slam.getPointCloudMap()), engine.cloud);
    engine.pointCloud = () => Promise.reject(new SvcError("unavailable", "nothing yet"));
    await assertRejects(() => bytesIn(slam.getPointCloudMap()), SvcError, "nothing yet");
  });
});

Deno.test("mapper: getPointCloudMap returns edited-map.pcd if edited is requested", async () => {
  const files = { "/m/a.pbstream": Uint8Array.of(1), "/m/edited-map.pcd": Uint8Array.of(9, 9) };
  await withSlam({ existing_map: "/m/a.pbstream" }, async ({ slam, engine }) => {
    assertEquals(await bytesIn(slam.getPointCloudMap({ edited: true })), files["/m/edited-map.pcd"]);
    assertEquals(await bytesIn(slam.getPointCloudMap()), engine.cloud);
  }, { files });
  await withSlam({}, async ({ slam, engine }) => {
    assertEquals(await bytesIn(slam.getPointCloudMap({ edited: true })), engine.cloud);
  });
});

Deno.test("mapper: postprocess commands add, remove, undo, replace and toggle points of the map", async () => {
  const own = writePcd(createCloud({ x: Float32Array.of(4), y: Float32Array.of(5), z: Float32Array.of(0) }));
  await withSlam({ postprocess_folders: ["/clouds"] }, async ({ slam, engine, host }) => {
    await host.turnLink("/clouds/link.pcd", "/other.pcd");
    const points = async () => {
      const { x, y, rgb } = readPcd(await bytesIn(slam.getPointCloudMap()));
      return Array.from(x, (one, n) => [one, y[n], rgb![n]]);
    };
    assertEquals(await slam.doCommand({ postprocess_add: [{ X: 2000, Y: 500 }] }), {
      postprocess_add: "success",
    });
    assertEquals((await points()).length, 2);
    assertEquals(await slam.doCommand({ postprocess_toggle: "" }), { postprocessed: true });
    assertEquals(await points(), [[0, 0, 74], [1, 0, 74], [2, 0.5, 100]]);
    await slam.doCommand({ postprocess_remove: [{ X: 1050, Y: 60 }] });
    assertEquals(await points(), [[0, 0, 74], [2, 0.5, 100]]);
    await slam.doCommand({ postprocess_undo: "" });
    assertEquals((await points()).length, 3);
    assertEquals(await slam.doCommand({ postprocess_path: "/clouds/own.pcd" }), {
      postprocess_path: "success",
    });
    assertEquals(await points(), [[4, 5, 100], [2, 0.5, 100]]);
    assertEquals(await slam.doCommand({ postprocess_toggle: "" }), { postprocessed: false });
    assertEquals(await bytesIn(slam.getPointCloudMap()), engine.cloud);
    const refused: readonly [JsonObject, string][] = [
      [{ postprocess_add: "all" }, "wanted a list of at most"],
      [{ postprocess_remove: [{ X: 1 }] }, "point 0 is no object with the numbers X and Y"],
      [{ postprocess_path: "/etc/passwd" }, "wanted the path of a .pcd file"],
      [{ postprocess_path: "/other.pcd" }, "postprocess_folders of the service names more folders"],
      [{ postprocess_path: "/clouds/../other.pcd" }, "is not in a folder"],
      [{ postprocess_path: "/clouds/link.pcd" }, "is not in a folder"],
      [{ postprocess_path: "/none/there.pcd" }, "is not in a folder"],
      [{ dance: true }, "does not support DoCommand"],
    ];
    for (const [command, wanted] of refused) {
      await assertRejects(() => slam.doCommand(command), SvcError, wanted);
    }
    await slam.doCommand({ postprocess_undo: "" });
    await assertRejects(() => slam.doCommand({ postprocess_undo: "" }), SvcError, "nothing to undo");
  }, { files: { "/clouds/own.pcd": own, "/other.pcd": own } });
});

Deno.test("mapper: save_map is written every save_every_sec and at close, and a failed save keeps the old file", async () => {
  const save = { save_map: "/maps/new.pbstream", save_every_sec: 10 };
  let kept: FakeHost | undefined;
  await withSlam(save, async ({ engine, clock, host, logged }) => {
    kept = host;
    await clock.advance(10_000);
    assertEquals((await host.readFile("/maps/new.pbstream")).length, engine.state.length);
    engine.internalState = () => Promise.reject(new SvcError("internal", "no map"));
    await clock.advance(10_000);
    assert(logged.some(({ message }) => message.includes("the map was not saved: no map")));
    assertEquals((await host.readFile("/maps/new.pbstream")).length, engine.state.length);
    engine.internalState = () => Promise.resolve(Uint8Array.of(1, 2));
  });
  assertEquals([...await kept!.readFile("/maps/new.pbstream")], [1, 2]);
});

Deno.test("mapper: a second close() does nothing, and calls after close are refused", async () => {
  await withSlam({}, async ({ slam, engine, logged }) => {
    await slam.close();
    await assertRejects(() => slam.getPosition(), SvcError, "resource (svc:slam:cartographer) is closed");
    await slam.close();
    assertEquals(engine.closed, 1);
    assert(logged.some(({ message }) => message.includes("was closed before")));
  });
});

Deno.test("mapper: existing_map may name a file of a package of the machine", async () => {
  const json = {
    packages: [{ name: "hall", package: "org/hall", version: "1", type: "slam_map" }],
    components: [{
      name: "lidar",
      api: "rdk:component:camera",
      model: "svc:lidar:replay",
      attributes: LOG,
    }],
    services: [{
      name: "slam",
      api: "rdk:service:slam",
      model: "svc:slam:cartographer",
      attributes: { ...BASE, existing_map: "${packages.slam_map.hall}/internalState.pbstream" },
    }],
  };
  const registry = new Registry([CameraApi, SlamApi], [ReplayLidar, MapperSlam]);
  const surroundings = {
    env: () => undefined,
    packages: ({ name }: { name: string }) => `/packages/${name}`,
  };
  const { config, problems } = await decodeConfig(json, registry, surroundings);
  assertEquals(problems, []);
  const settings = config.resources.find(({ name }) => name.short === "slam")!.decoded as Settings;
  assertEquals([settings.existingMap, settings.mode], ["/packages/hall/internalState.pbstream", "update"]);
});
