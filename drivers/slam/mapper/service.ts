/**
 * The SLAM service over a mapper: builds a map from a lidar, extends a map, or localizes the robot on a map.
 *
 * The room owns the service around the mapper: its settings, its sensors, its thread, and the corrections of its map.
 */

import { dirname, join } from "node:path";
import { CameraApi } from "../../../lib/api/sensors/camera.ts";
import { MovementSensorApi } from "../../../lib/api/sensors/movement_sensor.ts";
import type { MappingModeName, Slam, SlamPosition, SlamProperties } from "../../../lib/api/services/slam.ts";
import { captureField, DataManagerApi } from "../../../lib/api/services/data_manager.ts";
import { deadline, race } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { homeFolder } from "../../../lib/base/files/home.ts";
import { type PathRules, SYSTEM_VIEWS } from "../../../lib/base/files/path_rules.ts";
import { DecodeContext, type JsonObject } from "../../../lib/base/schema/schema.ts";
import type { Pose } from "../../../lib/geometry/pose.ts";
import type { Construction } from "../../../lib/resource/registry.ts";
import { BaseResource, type Call, type Resource } from "../../../lib/resource/resource.ts";
import { IDENTITY_2D, type Pose2d, worldPose } from "../../../lib/slam/pose2d.ts";
import { MapEdits } from "./edits.ts";
import { type Engine, type EngineEvents, type EngineStart, ThreadEngine } from "./engine.ts";
import { feedOffline, feedOnline } from "./feed.ts";
import { LidarMount } from "./lidar_mount.ts";
import { MirrorWatch } from "./mirror_watch.ts";
import { LidarSensor, MotionSensor, ReadingTime } from "./sensors.ts";
import { type MappingKind, MODEL_NAME, optionsOf, type Settings } from "./settings.ts";

/** Size of the chunks in which a map is streamed. */
const PART_BYTES = 1024 * 1024;
/** Deadline for the whole map. */
const MAP_MS = 15 * 60 * 1000;
const MAP_BYTES_MAX = 1024 ** 3;
/** Lies beside the existing map. */
const EDITED_MAP = "edited-map.pcd";
const MAP_ENDING = ".pbstream";

/** The methods to capture for the control plane that makes the map: all of one row. */
const SCANS = [["NextPointCloud"], ["GetPointCloud"]];
const MOVEMENTS = [["LinearAcceleration", "AngularVelocity"], ["Position", "Orientation"]];

const MODES: { readonly [K in MappingKind]: MappingModeName } = {
  create: "create_new_map",
  update: "update_existing_map",
  localize: "localize_only",
};

type Parts = Construction<Settings>;
export type StartEngine = (start: EngineStart, events: EngineEvents) => Promise<Engine>;

const startThread: StartEngine = (start, events) => ThreadEngine.start(start, events);

/** Loads the existing map and starts to read the sensors. */
export async function openMapper(parts: Parts, startEngine: StartEngine = startThread): Promise<Slam> {
  const { attributes: settings, dependencies, clock, signal, logger, host } = parts;
  const time = new ReadingTime(clock);
  const camera = dependencies.get(CameraApi, settings.camera.name);
  const mount = new LidarMount(camera.name, () => dependencies.frames, clock, logger);
  const lidar = new LidarSensor(camera, clock, time, mount);
  const { movementSensor } = settings;
  const sensor = movementSensor && dependencies.get(MovementSensorApi, movementSensor.name);
  const motion = sensor && new MotionSensor(sensor, clock, time);
  if (settings.useCloudSlam) {
    warnWithoutCapture(parts, lidar.camera, SCANS);
    if (sensor) warnWithoutCapture(parts, sensor, MOVEMENTS);
    return new CloudMapper(parts);
  }
  await lidar.check(signal);
  await motion?.check(signal);
  const { configParams: params, existingMap, isOnline, mode } = settings;
  const start = {
    mode,
    options: optionsOf(settings),
    map: existingMap === "" ? undefined : await existing(existingMap, host),
    pose: params.initialStartingPose,
    isOffline: !isOnline,
    optimizeOnStart: params.optimizeOnStart && existingMap !== "",
  };
  const known = { place: "not localized", confidence: 0 };
  const events: EngineEvents = {
    failed: (error) => logger.error(chainOf(error)),
    leftOut: (reason) => logger.warn(`leaving out scans: ${reason}`),
    localized: (localization) => {
      const { place } = known;
      Object.assign(known, localization);
      if (known.place === "lost") {
        logger.warn("lost: the map contradicts the scans; the last known pose stands");
      } else if (place === "lost") logger.info("the robot has been found on the map again");
    },
    odometryDoubted: (reason) => logger.warn(`odometry does not count for now: ${reason}`),
    odometryCorrected: (correction) => logger.info(`odometry is corrected: ${correction}`),
  };
  const engine = await startEngine(start, events).catch((error) => {
    if (existingMap === "") throw error;
    const { code } = SvcError.from(error);
    throw new SvcError(code, `the existing map "${existingMap}" cannot be used: ${chainOf(error)}`, {
      cause: error,
    });
  });
  return new MapperService(parts, engine, { lidar, motion }, known);
}

/** The control plane makes its map of captured data only. */
function warnWithoutCapture(
  { dependencies, logger }: Parts,
  resource: Resource,
  wanted: readonly (readonly string[])[],
): void {
  const captured = dependencies.serviceConfigs(resource, DataManagerApi).flatMap((config) =>
    captureField.decode(config, new DecodeContext())?.captureMethods ?? []
  ).filter(({ disabled }) => !disabled).map(({ method }) => method);
  if (wanted.some((methods) => methods.every((method) => captured.includes(method)))) return;
  const methods = wanted.map((row) => row.join(" and ")).join(", or ");
  logger.warn(
    `use_cloud_slam: the map is made of captured data, and ${methods} of "${resource.name.short}" is not captured: ` +
      `add it to capture_methods in the resource's service_configs for ${DataManagerApi.name}`,
  );
}

/** The point clouds that callers may load: those beside the maps, and in the folders that the attributes name. */
function cloudRulesOf({ attributes, host }: Parts): PathRules {
  const { existingMap, saveMap, postprocessFolders } = attributes;
  const maps = [existingMap, saveMap].flatMap((path) => path === "" ? [] : [dirname(path)]);
  return {
    folders: [...maps, ...postprocessFolders],
    own: [homeFolder((name) => host.env(name)), ...SYSTEM_VIEWS],
    setting: "postprocess_folders of the service names more folders",
  };
}

async function existing(path: string, host: Parts["host"]): Promise<Uint8Array> {
  const size = await host.fileSize(path) ?? 0;
  if (size <= MAP_BYTES_MAX) return await host.readFile(path);
  throw new SvcError(
    "resource_exhausted",
    `the existing map "${path}" has ${size} bytes, wanted at most ${MAP_BYTES_MAX}`,
  );
}

abstract class MapperBase extends BaseResource {
  constructor(protected readonly parts: Parts) {
    super(parts.name);
  }

  getProperties(): Promise<SlamProperties> {
    const { camera, movementSensor, mode, useCloudSlam } = this.parts.attributes;
    return Promise.resolve({
      cloudSlam: useCloudSlam,
      mappingMode: MODES[mode],
      internalStateFileType: MAP_ENDING,
      sensors: [
        { name: camera.name, type: "camera" },
        ...(movementSensor ? [{ name: movementSensor.name, type: "movement_sensor" as const }] : []),
      ],
    });
  }
}

/** With `use_cloud_slam`, the mapping is somebody else's: only the properties answer. */
class CloudMapper extends MapperBase implements Slam {
  getPosition(): Promise<Pose> {
    return Promise.reject(this.#unavailable());
  }

  // deno-lint-ignore require-yield
  async *getPointCloudMap(): AsyncIterable<Uint8Array> {
    throw this.#unavailable();
  }

  // deno-lint-ignore require-yield
  async *getInternalState(): AsyncIterable<Uint8Array> {
    throw this.#unavailable();
  }

  override doCommand(): Promise<JsonObject> {
    return Promise.reject(this.#unavailable());
  }

  #unavailable(): SvcError {
    return new SvcError(
      "unavailable",
      `resource (${MODEL_NAME}) unavailable, configured with use_cloud_slam set to true`,
    );
  }
}

class MapperService extends MapperBase implements Slam {
  readonly #stop = new AbortController();
  readonly #edits: MapEdits;
  readonly #feeding: Promise<void>;
  readonly #saving: Promise<void>;
  #pose: Pose2d | undefined;
  #isJobDone = false;
  #closing?: Promise<void>;

  constructor(
    parts: Parts,
    private readonly engine: Engine,
    { lidar, motion }: { readonly lidar: LidarSensor; readonly motion?: MotionSensor },
    /** What the engine knows of the robot's place by now. */
    private readonly known: { readonly place: string; readonly confidence: number },
  ) {
    super(parts);
    this.#edits = new MapEdits(parts.host, cloudRulesOf(parts));
    this.#feeding = this.#feed(lidar, motion);
    this.#saving = this.#saveNowAndThen();
  }

  /** The pose of the robot; the origin of the map until the robot is located. */
  getPosition(): Promise<SlamPosition> {
    return Promise.try(() => {
      this.#open();
      return { ...worldPose(this.#pose ?? IDENTITY_2D), extra: { ...this.known } };
    });
  }

  async *getPointCloudMap(
    { edited = false }: { readonly edited?: boolean } = {},
    call?: Call,
  ): AsyncIterable<Uint8Array> {
    this.#open();
    const file = (edited ? await this.#editedMap() : undefined) ??
      this.#edits.applied(await this.#within(this.engine.pointCloud(), call));
    yield* partsOf(file);
  }

  async *getInternalState(call?: Call): AsyncIterable<Uint8Array> {
    this.#open();
    yield* partsOf(await this.#within(this.engine.internalState(), call));
  }

  override async doCommand(command: JsonObject, call?: Call): Promise<JsonObject> {
    this.#open();
    if ("job_done" in command) return { job_done: this.#isJobDone };
    return await this.#edits.command(command) ?? await super.doCommand(command, call);
  }

  override getStatus(): Promise<JsonObject> {
    const { known } = this;
    return Promise.resolve({ localized: this.#pose !== undefined, ...known, job_done: this.#isJobDone });
  }

  override close(): Promise<void> {
    if (this.#closing) this.parts.logger.warn("the SLAM service was closed before");
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#stop.abort(new SvcError("canceled", `resource (${MODEL_NAME}) is closed`));
    // Pending work matters only if the map will be saved.
    if (!this.#isSaved) this.engine.close();
    await this.#feeding;
    await this.#saving;
    if (!this.#isSaved) return;
    try {
      await this.#save();
    } catch (error) {
      this.parts.logger.error(`the map was not saved at the end: ${chainOf(error)}`);
    } finally {
      this.engine.close();
    }
  }

  #open(): void {
    if (this.#closing) throw new SvcError("unavailable", `resource (${MODEL_NAME}) is closed`);
  }

  async #feed(lidar: LidarSensor, motion: MotionSensor | undefined): Promise<void> {
    const { attributes: settings, clock, logger } = this.parts;
    const moved = (pose: Pose2d | undefined) => void (this.#pose = pose ?? this.#pose);
    const mirrors = new MirrorWatch(settings.camera.name, logger);
    const parts = { engine: this.engine, lidar, motion, mirrors, clock, logger, moved };
    const { signal } = this.#stop;
    try {
      if (settings.isOnline) {
        const motionHz = settings.movementSensor?.dataFrequencyHz ?? 0;
        await feedOnline(parts, { lidarHz: settings.camera.dataFrequencyHz, motionHz }, signal);
      } else {
        await feedOffline(parts, signal);
        this.#isJobDone = true;
        logger.info("the recording has ended, the map is done");
      }
    } catch (error) {
      if (!signal.aborted) logger.error(`the mapping has stopped: ${chainOf(error)}`);
    }
  }

  get #isSaved(): boolean {
    const { saveMap, mode } = this.parts.attributes;
    return saveMap !== "" && mode !== "localize";
  }

  async #saveNowAndThen(): Promise<void> {
    const { attributes: { saveEverySec }, clock, logger } = this.parts;
    const { signal } = this.#stop;
    while (this.#isSaved) {
      await clock.sleep(saveEverySec * 1000, signal).catch(() => {});
      if (signal.aborted) return;
      await this.#save().catch((error) => logger.error(`the map was not saved: ${chainOf(error)}`));
    }
  }

  /** Replaces the saved map once the new one is complete on the disk. */
  async #save(): Promise<void> {
    const { attributes: { saveMap }, host } = this.parts;
    const file = await this.#within(this.engine.internalState());
    await host.makeFolder(dirname(saveMap));
    await host.writeFile(saveMap, file);
  }

  async #editedMap(): Promise<Uint8Array | undefined> {
    const { attributes: { existingMap }, host } = this.parts;
    if (existingMap === "") return undefined;
    const path = join(dirname(existingMap), EDITED_MAP);
    return await host.findFile(path) && await host.readFile(path);
  }

  async #within<T>(work: Promise<T>, call?: Call): Promise<T> {
    const { clock } = this.parts;
    const limit = deadline(
      clock,
      MAP_MS,
      () => new SvcError("deadline_exceeded", "the map took too long"),
      call?.signal,
    );
    try {
      return await race(work, limit.signal);
    } finally {
      limit.done();
    }
  }
}

function* partsOf(file: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < file.length; at += PART_BYTES) yield file.subarray(at, at + PART_BYTES);
}
