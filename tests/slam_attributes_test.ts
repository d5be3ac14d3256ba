/**
 * Every attribute of the mapping service through a whole machine's configuration: the specification's words, what it
 * is when it is left out, what it may be at its edges, and the one error for each way in which it is wrong.
 */

import { assertEquals } from "@std/assert";
import { MODELS } from "../drivers/mod.ts";
import type { Settings } from "../drivers/slam/mapper/settings.ts";
import { APIS } from "../lib/api/mod.ts";
import type { Json, JsonObject } from "../lib/base/schema/schema.ts";
import { decodeConfig } from "../lib/machine/config/config.ts";
import { Registry } from "../lib/resource/registry.ts";

interface AttributeRow {
  /** As the specification has it. */
  readonly words: string;
  /** What it is when it is left out; absent: it must be there. */
  readonly usual?: unknown;
  /** What must be there instead of nothing. */
  readonly needed?: string;
  /** What it may be: as configured, and as the service then has it. */
  readonly right: readonly (readonly [Json, unknown])[];
  readonly wrong: readonly (readonly [Json, string])[];
  readonly of: (settings: Settings) => unknown;
}

const MODE = { mode: "2d" };
const CAMERA = { name: "lidar", data_frequency_hz: 5 };
const SERVICE: JsonObject = { use_cloud_slam: true, camera: CAMERA, config_params: MODE };
const MAP = "/maps/hall.pbstream";
const HZ = (of: string) => `${of}[data_frequency_hz]`;

const ATTRIBUTES: { readonly [name: string]: AttributeRow } = {
  use_cloud_slam: {
    words: "boolean | Required | When true, local mapping is disabled in favor of cloud mapping",
    needed: "true or false",
    right: [[true, true], [false, false]],
    wrong: [["yes", 'found "yes", wanted true or false'], [1, "found 1, wanted true or false"]],
    of: ({ useCloudSlam }) => useCloudSlam,
  },
  camera: {
    words: "object | Required | { name: string, data_frequency_hz: integer } ... Suggested 5 Hz",
    needed: "an object",
    right: [
      [{ name: "lidar" }, { name: "lidar", dataFrequencyHz: 5 }],
      [{ name: "lidar", data_frequency_hz: 0 }, { name: "lidar", dataFrequencyHz: 0 }],
      [{ name: "lidar", data_frequency_hz: "1000" }, { name: "lidar", dataFrequencyHz: 1000 }],
    ],
    wrong: [
      [{}, '"camera[name]" is required'],
      [{ name: "lidar", data_frequency_hz: -1 }, `${HZ("camera")} cannot be less than zero`],
      [{ name: "lidar", data_frequency_hz: 2.5 }, `${HZ("camera")} must only contain digits`],
      [{ name: "lidar", data_frequency_hz: 1001 }, "found 1001, wanted at most 1000"],
    ],
    of: ({ camera }) => camera,
  },
  movement_sensor: {
    words: "object | Optional | an IMU movement sensor ... Suggested 20 Hz",
    usual: undefined,
    right: [
      [{ name: "imu" }, { name: "imu", dataFrequencyHz: 20 }],
      [{ name: "imu", data_frequency_hz: 1 }, { name: "imu", dataFrequencyHz: 1 }],
      [{ name: "" }, undefined],
    ],
    wrong: [
      [{ name: "imu", data_frequency_hz: 0 }, "In online mode, but movement sensor data frequency is zero"],
      [{ name: "imu", data_frequency_hz: "x" }, `${HZ("movement_sensor")} must only contain digits`],
      [{ name: "imu", data_frequency_hz: -2 }, `${HZ("movement_sensor")} cannot be less than zero`],
    ],
    of: ({ movementSensor }) => movementSensor,
  },
  enable_mapping: {
    words: "boolean | Optional | When true, the map is built in addition to localizing. Default true.",
    usual: true,
    right: [[true, true]],
    wrong: [
      ["no", 'found "no", wanted true or false'],
      [false, "enable_mapping is false without existing_map: localizing requires an existing map"],
    ],
    of: ({ enableMapping }) => enableMapping,
  },
  existing_map: {
    words: "string | Optional | a local path to a .pbstream file",
    usual: "",
    right: [[MAP, MAP]],
    wrong: [
      ["map.pcd", "SLAM Service configuration error: existing map is not a .pbstream file"],
      [5, "found 5, wanted a string"],
    ],
    of: ({ existingMap }) => existingMap,
  },
  config_params: {
    words: "object | Optional | Algorithm tuning",
    right: [[MODE, "2d"]],
    wrong: [
      [{}, "missing required field, wanted a string"],
      [{ mode: "3d" }, "svc:slam:cartographer does not have a 'mode: 3d'"],
      ["2d", 'found "2d", wanted an object'],
    ],
    of: ({ configParams }) => "mode" in configParams ? configParams.mode : undefined,
  },
};

type Params = Settings["configParams"];

/** A number of `config_params`: its default, and the greatest and least that it may be; beyond, errors. */
function number(
  words: string,
  key: keyof Params,
  usual: number,
  [least, greatest]: readonly [number, number?],
  wanted: string,
  below = least - 1,
): AttributeRow {
  const right = [least, String(least), usual, ...greatest === undefined ? [] : [greatest]];
  const wrong = [below, "far", ...greatest === undefined ? [] : [2 * greatest]];
  return {
    words,
    usual,
    right: right.map((one) => [one, Number(one)] as const),
    wrong: wrong.map((one) => [one, `found ${JSON.stringify(one)}, wanted ${wanted}`] as const),
    of: ({ configParams }) => configParams[key],
  };
}

const COUNT = "an integer of at least";
const PARAMS: { readonly [name: string]: AttributeRow } = {
  optimize_every_n_nodes: number(
    "3 | Trajectory nodes inserted before global optimization; 0 disables global SLAM",
    "optimizeEveryNNodes",
    3,
    [0],
    `${COUNT} 0`,
  ),
  num_range_data: number(
    "30 | Measurements per submap.",
    "numRangeData",
    30,
    [1, 100_000],
    `${COUNT} 1 and of at most 100000`,
  ),
  missing_data_ray_length_meters: number(
    "25 | Replaces lengths of ranges beyond max range; typically equal to max range.",
    "missingDataRayLengthMeters",
    25,
    [0.01, 1000],
    "a number of at most 1000 and greater than 0",
    0,
  ),
  max_range_meters: number(
    "25 | Maximum valid range; 25 for the longer-range LiDAR variant, 12 for the shorter-range one.",
    "maxRangeMeters",
    25,
    [0.21, 1000],
    "a number of at most 1000 and greater than 0",
    0,
  ),
  min_range_meters: number(
    "0.2 | Minimum valid range; 0.2 for the longer-range variant, 0.15 for the shorter-range one.",
    "minRangeMeters",
    0.2,
    [0],
    "a number of at least 0 and of at most 1000",
  ),
  max_submaps_to_keep: number(
    "3 | Localizing mode only.",
    "maxSubmapsToKeep",
    3,
    [2, 1000],
    `${COUNT} 2 and of at most 1000`,
  ),
  fresh_submaps_count: number(
    "3 | Updating mode only; submap history length.",
    "freshSubmapsCount",
    3,
    [1, 1000],
    `${COUNT} 1 and of at most 1000`,
  ),
  min_covered_area_meters_squared: number(
    "1.0 | Updating mode only; minimum overlap area for an old submap to be considered for deletion.",
    "minCoveredAreaMetersSquared",
    1,
    [0],
    "a number of at least 0",
  ),
  min_added_submaps_count: number(
    "1 | Updating mode only; minimum added submaps before deleting an old one is considered.",
    "minAddedSubmapsCount",
    1,
    [0, 1000],
    `${COUNT} 0 and of at most 1000`,
  ),
  occupied_space_weight: number(
    "20.0 | Higher makes prior scanned points harder to overwrite; relative to the other two weights.",
    "occupiedSpaceWeight",
    20,
    [0],
    "a number of at least 0",
  ),
  translation_weight: number(
    "10.0 | Higher makes scan matching less willing to translate prior scans.",
    "translationWeight",
    10,
    [0],
    "a number of at least 0",
  ),
  rotation_weight: number(
    "1.0 | Higher makes scan matching less willing to rotate prior scans.",
    "rotationWeight",
    1,
    [0],
    "a number of at least 0",
  ),
};

const registry = new Registry(APIS, MODELS);

/** The service's settings in a machine with a lidar, and all that is wrong with the configuration. */
async function configured(attributes: JsonObject): Promise<{ settings: Settings; logged: string[] }> {
  const json = {
    components: [
      { name: "rover", api: "rdk:component:base", model: "fake", attributes: { building: "hall" } },
      { name: "lidar", api: "rdk:component:camera", model: "svc:lidar:fake", attributes: { base: "rover" } },
      { name: "imu", api: "rdk:component:movement_sensor", model: "fake", attributes: { base: "rover" } },
    ],
    services: [{ name: "slam", api: "rdk:service:slam", model: "svc:slam:cartographer", attributes }],
  };
  const { config, problems } = await decodeConfig(json, registry, { env: () => undefined });
  const { decoded } = config.resources.find(({ name }) => name.short === "slam")!;
  return {
    settings: decoded as Settings,
    logged: problems.map(({ path, message }) => `${path}: ${message}`),
  };
}

function check(
  rows: typeof ATTRIBUTES,
  put: (name: string, value?: Json) => JsonObject,
  within: string,
): void {
  for (const [name, row] of Object.entries(rows)) {
    Deno.test(`mapping service: ${name}: ${row.words}`, async () => {
      const absent = await configured(put(name));
      const missing = `${within}${name}: missing required field, wanted ${row.needed}`;
      assertEquals(absent.logged, row.needed === undefined ? [] : [missing]);
      if ("usual" in row) assertEquals(row.of(absent.settings), row.usual);
      for (const [value, wanted] of row.right) {
        const { settings, logged } = await configured(put(name, value));
        assertEquals({ logged, value: row.of(settings) }, { logged: [], value: wanted });
      }
      for (const [value, wanted] of row.wrong) {
        const { logged } = await configured(put(name, value));
        assertEquals(logged.length, 1, logged.join("\n"));
        assertEquals(
          [logged[0].startsWith("services.0.attributes"), logged[0].endsWith(wanted)],
          [true, true],
          logged[0],
        );
      }
    });
  }
}

const without = (all: JsonObject, name: string) =>
  Object.fromEntries(Object.entries(all).filter(([key]) => key !== name)) as JsonObject;
check(
  ATTRIBUTES,
  (name, value) => value === undefined ? without(SERVICE, name) : { ...SERVICE, [name]: value },
  "services.0.attributes.",
);
check(
  PARAMS,
  (name, value) => ({ ...SERVICE, config_params: value === undefined ? MODE : { ...MODE, [name]: value } }),
  "services.0.attributes.config_params.",
);
