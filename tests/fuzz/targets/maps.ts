/** Maps, recordings and the mapper. */

import { gunzipSync, gzipSync } from "node:zlib";
import { unpackLz4 } from "../../../lib/slam/bags/lz4.ts";
import { readBag } from "../../../lib/slam/bags/bag_file.ts";
import { pointsOf } from "../../../lib/slam/evaluation/carmen.ts";
import { readLogFile } from "../../../lib/slam/evaluation/log_file.ts";
import { readRelations } from "../../../lib/slam/evaluation/relations.ts";
import { readSensorFacts } from "../../../lib/slam/evaluation/sensor.ts";
import { Mapper } from "../../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";
import { mapFile, readMap } from "../../../lib/slam/pbstream/map_file.ts";
import { readScanCloud } from "../../../lib/slam/scan_cloud.ts";
import { writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../../lib/geometry/cloud/point_cloud.ts";
import { sampleMap } from "../../support/map_states.ts";
import { bytesIn, pieces } from "../../support/pieces.ts";
import { joined } from "../damage.ts";
import { bytesOf, type Target, textIn } from "../target.ts";

const DATA = new URL("../../data/slam/", import.meta.url);
const MAGIC_BYTES = 8;
const LENGTH_BYTES = 8;
const SCANS = 4;
const POINTS = 60;
/** What no lidar should send. */
const NONSENSE = [NaN, Infinity, -Infinity, 0, -0, 1e-30, 1e9, -1e30, 3.4e38];

let made: Promise<Uint8Array<ArrayBuffer>> | undefined;
const sample = () => made ??= bytesIn(mapFile(sampleMap(), MAPPER_DEFAULTS));

/** The messages of a map file, each still packed, after the magic number. */
function packedMessages(file: Uint8Array): Uint8Array[] {
  const view = new DataView(file.buffer, file.byteOffset);
  const messages: Uint8Array[] = [];
  for (let at = MAGIC_BYTES; at < file.length;) {
    const length = Number(view.getBigUint64(at, true));
    messages.push(file.subarray(at + LENGTH_BYTES, at + LENGTH_BYTES + length));
    at += LENGTH_BYTES + length;
  }
  return messages;
}

/** A map file whose message of that number has the content that follows it: damage that gets past the checksum. */
async function readWithMessage(bytes: Uint8Array): Promise<void> {
  const file = await sample();
  const messages = packedMessages(file);
  messages[bytes[0] % messages.length] = gzipSync(bytes.subarray(1));
  const parts = messages.flatMap((message) => {
    const length = new Uint8Array(LENGTH_BYTES);
    new DataView(length.buffer).setBigUint64(0, BigInt(message.length), true);
    return [length, message];
  });
  await readMap(pieces(joined(file.subarray(0, MAGIC_BYTES), ...parts)));
}

/** One file, whatever its name. */
function only(bytes: Uint8Array) {
  return {
    readFile: () => Promise.resolve(new Uint8Array(bytes)),
    fileSize: () => Promise.resolve(bytes.length),
    async *readPieces() {
      yield new Uint8Array(bytes);
    },
    stat: () => Promise.resolve(undefined),
    readFolder: () => Promise.resolve([]),
  };
}

async function readLog(bytes: Uint8Array): Promise<void> {
  const { scans } = await readLogFile(only(bytes), "damaged.clf");
  for (const { ranges, sensor } of scans) pointsOf(ranges, sensor);
}

/** Scans, odometry and IMU readings whose numbers the bytes choose: usual ones, or what no sensor should give. */
function mapNonsense(bytes: Uint8Array): void {
  let at = 0;
  const byte = () => bytes[at++ % bytes.length] ?? 0;
  const number = (scale: number) => {
    const chosen = byte();
    return chosen >= 250 ? NONSENSE[byte() % NONSENSE.length] : scale * (chosen / 125 - 1);
  };
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  for (let scan = 0; scan < SCANS; scan++) {
    const timeS = byte() >= 200 ? number(10) : 1e9 + scan * 0.2;
    mapper.addOdometry({ timeS, pose: { x: number(3), y: number(3), yaw: number(3) } });
    mapper.addImu({
      timeS,
      linearAcceleration: [number(1), number(1), 9.8],
      angularVelocity: [number(1), number(1), number(1)],
    });
    mapper.addScan({ timeS, points: Float32Array.from({ length: 3 * POINTS }, () => number(10)) });
    while (mapper.work());
  }
  mapper.finish();
  mapper.state();
}

const files = (...names: string[]) => Promise.all(names.map((name) => Deno.readFile(new URL(name, DATA))));

/** An error that a reader made, and not the engine. */
function isRangeRefusal(error: unknown): boolean {
  return error instanceof RangeError &&
    !/call stack|array (buffer )?(length|allocation)|out of bounds/i.test(error.message);
}

export const MAPS: readonly Target[] = [
  {
    name: "maps/pbstream",
    covers: ["slam/pbstream/", "slam/map_state.ts"],
    samples: async () => [await sample()],
    read: (bytes) => readMap(pieces(bytes)),
  },
  {
    name: "maps/pbstream-message",
    covers: ["slam/pbstream/", "slam/map_state.ts"],
    samples: async () =>
      packedMessages(await sample()).map((one, at) => joined(Uint8Array.of(at), gunzipSync(one))),
    read: readWithMessage,
  },
  {
    name: "maps/carmen",
    covers: ["slam/evaluation/"],
    samples: async () => [(await Deno.readFile(new URL("office.clf", DATA))).subarray(0, 6000)],
    words: ["ROBOTLASER1 ", "RLASER ", "FLASER ", "PARAM ", "ODOM ", "inf", "nan", "-0"],
    read: readLog,
  },
  ...[".mcap", ".bag"].map((ending): Target => ({
    name: `maps/${ending.slice(1)}`,
    covers: ["slam/bags/", "@mcap"],
    samples: async () => {
      const names: string[] = [];
      for (const folder of ["", "turn/"]) {
        for await (const { name, isFile } of Deno.readDir(new URL(folder, DATA))) {
          if (isFile && name.endsWith(ending)) names.push(`${folder}${name}`);
        }
      }
      return (await files(...names.sort())).map((bytes) => bytes.subarray(0, 48 * 1024));
    },
    words: ["sensor_msgs/LaserScan", "nav_msgs/Odometry", "#ROSBAG V2.0\n", "compression=bz2", "op=\x05"],
    read: (bytes) => readBag(only(bytes), `recording${ending}`),
  })),
  {
    name: "maps/lz4",
    covers: ["slam/bags/lz4.ts"],
    samples: () => [Uint8Array.of(0x40, 1, 2, 3, 4, 0x1f, 5, 4, 0, 3, 0x10, 7)],
    read: (bytes) => unpackLz4(bytes, 1000),
    isRefusal: isRangeRefusal,
  },
  {
    name: "maps/relations",
    covers: ["slam/evaluation/relations.ts"],
    samples: () => [bytesOf("1.5 2.5 0.1 0.2 0 0 0 0.3\n")],
    read: (bytes) => readRelations(textIn(bytes)),
    isRefusal: isRangeRefusal,
  },
  {
    name: "maps/sensor",
    covers: ["slam/evaluation/sensor.ts"],
    samples:
      () => [bytesOf('{"lidar": {"x": 1, "y": 0, "yaw_deg": 3}, "first_beam_deg": -90, "step_deg": 0.5}')],
    read: (bytes) => readSensorFacts(textIn(bytes)),
    isRefusal: isRangeRefusal,
  },
  {
    name: "maps/scan",
    covers: ["slam/scan_cloud.ts", "geometry/cloud/pcd.ts"],
    samples: () => {
      const column = () => Float32Array.from({ length: 40 }, (_, at) => Math.sin(at));
      return [writePcd(createCloud({ x: column(), y: column(), z: column() }), "binary")];
    },
    read: (bytes) => readScanCloud(bytes),
  },
  {
    name: "maps/mapper",
    covers: ["lib/slam/"],
    samples: () => [1, 2, 3].map((step) => Uint8Array.from({ length: 400 }, (_, at) => step * at * at)),
    read: mapNonsense,
  },
];
