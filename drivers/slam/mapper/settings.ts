/**
 * The attributes of the mapper. Numbers may be strings, as in published configurations. An empty string means the
 * default.
 */

import { SvcError } from "../../../lib/base/error.ts";
import {
  bool,
  ConfigField,
  DecodeContext,
  type Infer,
  type JsonObject,
  list,
  object,
  show,
  text,
} from "../../../lib/base/schema/schema.ts";
import type { MapperOptions } from "../../../lib/slam/mapping.ts";

export const MODEL_NAME = "svc:slam:cartographer";

const LIDAR_HZ = 5;
const MOVEMENT_SENSOR_HZ = 20;
const FREQUENCY_MAX_HZ = 1000;
const SAVE_EVERY_SEC = 60;
const MAP_ENDING = ".pbstream";
const STARTING_POSE =
  /^\s*X:\s*(-?[\d.]+(?:e-?\d+)?)\s*,\s*Y:\s*(-?[\d.]+(?:e-?\d+)?)\s*,\s*Theta:\s*(-?[\d.]+(?:e-?\d+)?)\s*$/i;

interface Limits {
  readonly min?: number;
  readonly max?: number;
  readonly above?: number;
}

/** A number, or a string that contains one. */
function decimal(doc: string, limits: Limits) {
  return written("number", "a number", doc, limits);
}

function whole(doc: string, limits: Limits) {
  return written("integer", "an integer", doc, limits);
}

function written(type: "number" | "integer", noun: string, doc: string, { min, max, above }: Limits) {
  const range = [
    min === undefined ? "" : `of at least ${min}`,
    max === undefined ? "" : `of at most ${max}`,
    above === undefined ? "" : `greater than ${above}`,
  ].filter((one) => one !== "").join(" and ");
  const wanted = range === "" ? noun : `${noun} ${range}`;
  const json = {
    ...(min === undefined ? {} : { minimum: min }),
    ...(max === undefined ? {} : { maximum: max }),
    ...(above === undefined ? {} : { exclusiveMinimum: above }),
    anyOf: [{ type }, { type: "string" }],
  };
  return new ConfigField<number | undefined>({
    doc,
    json,
    wanted,
    read: (value, at) => {
      if (value === "") return undefined;
      const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
      const fits = typeof number === "number" && Number.isFinite(number) &&
        (type === "number" || Number.isSafeInteger(number)) &&
        (min === undefined || number >= min) && (max === undefined || number <= max) &&
        (above === undefined || number > above);
      return fits ? number : at.wanted(wanted, value);
    },
  });
}

/** Readings per second; 0 reads a recording as fast as the mapper takes it. */
function frequency(of: string, doc: string) {
  const path = `${of}[data_frequency_hz]`;
  return new ConfigField<number | undefined>({
    doc,
    json: { minimum: 0, maximum: FREQUENCY_MAX_HZ, anyOf: [{ type: "integer" }, { type: "string" }] },
    wanted: "a number of readings in a second",
    read: (value, at) => {
      if (value === "") return undefined;
      if (typeof value === "object" || !/^-?\d+$/.test(String(value))) {
        return at.error(`found ${show(value)}: ${path} must only contain digits`);
      }
      if (Number(value) < 0) return at.error(`found ${show(value)}: ${path} cannot be less than zero`);
      if (Number(value) > FREQUENCY_MAX_HZ) return at.wanted(`at most ${FREQUENCY_MAX_HZ}`, value);
      return Number(value);
    },
  });
}

const cameraField = object({
  name: text("the lidar: a camera that gives point clouds").default("").names("camera"),
  dataFrequencyHz: frequency("camera", "scans in a second; 0 replays a recording").default(LIDAR_HZ),
}).with((camera, at) => camera.name === "" ? at.error('"camera[name]" is required') : camera);

const movementSensorField = object({
  name: text("a movement sensor with an IMU, odometry or both").default("").names("movement_sensor"),
  dataFrequencyHz: frequency(
    "movement_sensor",
    `readings in a second; absent means ${MOVEMENT_SENSOR_HZ}, or 0 with a camera of 0`,
  ),
});

const startingPoseField = text(
  'where the robot begins in the existing map, in metres and radians: "X:1.5, Y:2, Theta:0.7"',
).with((written, at) => {
  const [, x = NaN, y = NaN, yaw = NaN] = (STARTING_POSE.exec(written) ?? []).map(Number);
  const pose = { x, y, yaw };
  if ([x, y, yaw].every(Number.isFinite)) return pose;
  return at.wanted('a pose such as "X:1.5, Y:2, Theta:0.7"', written);
});

const flagField = new ConfigField<boolean | undefined>({
  doc: "optimise an existing map once before it is used",
  json: { anyOf: [{ type: "boolean" }, { type: "string" }] },
  wanted: "true or false",
  read: (value, at) => {
    const word = typeof value === "object" ? undefined : String(value).toLowerCase();
    return word === "true" || (word === "false" || word === "" ? false : at.wanted("true or false", value));
  },
}).default(false);

const params = {
  optimizeEveryNNodes: whole("nodes between two optimisations of the map; 0: none, and no loop closures", {
    min: 0,
  }).default(3),
  numRangeData: whole("scans in a submap", { min: 1, max: 100_000 }).default(30),
  missingDataRayLengthMeters: decimal("replaces ranges beyond the maximum", {
    above: 0,
    max: 1000,
  }).aka("missing_data_ray_length").default(25),
  maxRangeMeters: decimal("greatest range that counts", { above: 0, max: 1000 }).aka("max_range").default(25),
  minRangeMeters: decimal("smallest range that counts", { min: 0, max: 1000 }).aka("min_range").default(0.2),
  maxSubmapsToKeep: whole("submaps of its own that a localizing service keeps", { min: 2, max: 1000 })
    .default(3),
  freshSubmapsCount: whole("when updating: the newest submaps to keep of each place", { min: 1, max: 1000 })
    .default(3),
  minCoveredAreaMetersSquared: decimal("when updating: a submap that alone covers less is removed", {
    min: 0,
  })
    .aka("min_covered_area").default(1),
  minAddedSubmapsCount: whole("when updating: new submaps before old ones are removed", { min: 0, max: 1000 })
    .default(1),
  occupiedSpaceWeight: decimal("weight of the points when a loop closure is refined", { min: 0 }).default(20),
  translationWeight: decimal("weight of the place that was found, in that", { min: 0 }).default(10),
  rotationWeight: decimal("weight of the rotation that was found, in that", { min: 0 }).default(1),
  optimizeOnStart: flagField,
  initialStartingPose: startingPoseField,
};

const modeField = text("the number of dimensions: 2d").required().with((mode, at) =>
  mode === "2d" ? mode : at.error(`${MODEL_NAME} does not have a 'mode: ${mode}'`)
);

/** Without the object every parameter has its default. With it, the mode is required. */
const paramsField = object({ mode: modeField, ...params }).with((found, at) => {
  if (found.minRangeMeters < found.maxRangeMeters) return found;
  return at.error(
    `min_range_meters ${found.minRangeMeters} is not below max_range_meters ${found.maxRangeMeters}`,
  );
});
const noParams = object(params).orEmpty();

const shape = {
  useCloudSlam: bool("leave the mapping to the cloud: only data is captured here").required(),
  camera: cameraField.required(),
  movementSensor: movementSensorField,
  enableMapping: bool("make or extend a map; false: only find the position on an existing one").default(true),
  existingMap: mapPath(
    "a map to extend or to find the position on: ${packages.slam_map.NAME}/internalState.pbstream, or a path",
  ),
  configParams: paramsField,
  saveMap: mapPath(
    "path for saving the map, periodically and at the end; absent means that the map is not saved",
  ),
  postprocessFolders: list(
    text(),
    "further folders with .pcd files that the command postprocess_path may read, beside those of the maps",
  ).default([]),
  saveEverySec: whole("seconds between two saves", { min: 1, max: 86_400 }).default(SAVE_EVERY_SEC),
};
const fields = object(shape).required();

/** The mode of the mapper. */
export type MappingKind = "create" | "update" | "localize";

/** The attributes, checked with each other. */
export const attributes = fields.with((found, at) => settled(found, at));

export type Settings = NonNullable<Infer<typeof attributes>>;

function settled(found: Infer<typeof fields>, at: DecodeContext) {
  const { camera, enableMapping, existingMap } = found;
  const isOnline = camera.dataFrequencyHz !== 0;
  if (!enableMapping && !isOnline) {
    return at.error(
      "camera[data_frequency_hz] is 0 and enable_mapping is false: localizing in offline mode is unsupported",
    );
  }
  if (!enableMapping && existingMap === "") {
    return at.error("enable_mapping is false without existing_map: localizing requires an existing map");
  }
  const mapping = existingMap === "" ? "create" : "update";
  const mode: MappingKind = enableMapping ? mapping : "localize";
  const sensorHz = found.movementSensor?.dataFrequencyHz;
  const hasSensor = found.movementSensor !== undefined && found.movementSensor.name !== "";
  if (hasSensor && !isOnline && (sensorHz ?? 0) !== 0) {
    return at.error("In offline mode, but movement sensor data frequency is nonzero");
  }
  if (hasSensor && isOnline && sensorHz === 0) {
    return at.error("In online mode, but movement sensor data frequency is zero");
  }
  if (hasSensor && !isOnline && sensorHz === undefined) {
    at.at("movement_sensor").warn("data_frequency_hz is 0, like that of the camera");
  }
  return {
    ...found,
    mode,
    isOnline,
    movementSensor: hasSensor
      ? { name: found.movementSensor.name, dataFrequencyHz: isOnline ? sensorHz ?? MOVEMENT_SENSOR_HZ : 0 }
      : undefined,
    configParams: found.configParams ?? noParams.decode(undefined, at),
  };
}

export function optionsOf({ configParams: params }: Pick<Settings, "configParams">): MapperOptions {
  return {
    optimizeEveryNodes: params.optimizeEveryNNodes,
    scansPerSubmap: params.numRangeData,
    minRangeM: params.minRangeMeters,
    maxRangeM: params.maxRangeMeters,
    missingDataRayLengthM: params.missingDataRayLengthMeters,
    maxSubmapsToKeep: params.maxSubmapsToKeep,
    freshSubmapsCount: params.freshSubmapsCount,
    minCoveredAreaM2: params.minCoveredAreaMetersSquared,
    minAddedSubmapsCount: params.minAddedSubmapsCount,
    occupiedSpaceWeight: params.occupiedSpaceWeight,
    translationWeight: params.translationWeight,
    rotationWeight: params.rotationWeight,
  };
}

/** The parameters alone, which may be missing, with the mode or without. Throws `invalid_argument` with every problem. */
export function mapperOptions(config: JsonObject): MapperOptions {
  const at = new DecodeContext();
  const field = "mode" in config ? paramsField : noParams;
  const configParams = field.decode(config, at);
  if (configParams && !at.failed) return optionsOf({ configParams });
  const problems = at.problems.map(({ path, message }) => path === "" ? message : `${path}: ${message}`);
  throw new SvcError("invalid_argument", `slam_config: ${problems.join("; ")}`);
}

function mapPath(doc: string) {
  return text(doc).default("").with((path, at) => {
    if (path === "" || path.endsWith(MAP_ENDING)) return path;
    const name = at.path.endsWith("save_map") ? "save map" : "existing map";
    return at.error(`SLAM Service configuration error: ${name} is not a ${MAP_ENDING} file`);
  });
}
