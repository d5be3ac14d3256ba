/**
 * A SLAM service without sensors: simulates a machine that circles in a room with a finished map.
 *
 * Each request for the map moves the machine on by one place, as the published model does.
 */

import { gzipSync } from "node:zlib";
import { type Slam, SlamApi, type SlamProperties } from "../../lib/api/services/slam.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import type { Pose } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

const CHUNK_BYTES = 64 * 1024;
/** Number of places on the way around the room, a circle of the radius below. */
const POSITIONS = 16;
const RADIUS_MM = 1500;
/** Distance between two points of a wall. */
const SPACING_M = 0.005;
/** The map's certainty of its walls, from 0 to 100, stored in place of the colour. */
const PROBABILITY = 100;

/** Corners of the walls in metres: the room, and a pillar in its middle. */
const WALLS: readonly (readonly (readonly [x: number, y: number])[])[] = [
  [[-4, -3], [4, -3], [4, 3], [-4, 3]],
  [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]],
];

const PROPERTIES: SlamProperties = {
  cloudSlam: false,
  mappingMode: "localize_only",
  internalStateFileType: ".pbstream",
  sensors: [
    { name: "my-camera", type: "camera" },
    { name: "my-movement-sensor", type: "movement_sensor" },
  ],
};

class Fake extends BaseResource implements Slam {
  readonly #map = mapFile();
  readonly #state = stateFile();
  #place = -1;

  constructor(name: ResourceName) {
    super(name);
  }

  getPosition(): Promise<Pose> {
    const angle = Math.max(0, this.#place) * 2 * Math.PI / POSITIONS;
    return Promise.resolve({
      x: RADIUS_MM * Math.cos(angle),
      y: RADIUS_MM * Math.sin(angle),
      z: 0,
      oX: 0,
      oY: 0,
      oZ: 1,
      // The machine faces along the circle.
      theta: angle * 180 / Math.PI + 90,
    });
  }

  async *getPointCloudMap(): AsyncIterable<Uint8Array> {
    this.#place = (this.#place + 1) % POSITIONS;
    yield* chunks(this.#map);
  }

  async *getInternalState(): AsyncIterable<Uint8Array> {
    yield* chunks(this.#state);
  }

  getProperties(): Promise<SlamProperties> {
    return Promise.resolve(PROPERTIES);
  }
}

export const FakeSlam = model({
  api: SlamApi,
  name: "rdk:builtin:fake",
  doc: "A SLAM service without sensors: shows a machine that circles in a room with a known map.",
  attributes: object({}).required(),
  construct: ({ name }) => new Fake(name),
});

function* chunks(file: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < file.length; at += CHUNK_BYTES) yield file.subarray(at, at + CHUNK_BYTES);
}

function mapFile(): Uint8Array {
  const points: (readonly [number, number])[] = [];
  for (const corners of WALLS) {
    for (const [index, [x, y]] of corners.entries()) {
      const [toX, toY] = corners[(index + 1) % corners.length] ?? [x, y];
      const count = Math.round(Math.hypot(toX - x, toY - y) / SPACING_M);
      for (let step = 0; step < count; step++) {
        points.push([x + (toX - x) * step / count, y + (toY - y) * step / count]);
      }
    }
  }
  return writePcd(createCloud({
    x: Float32Array.from(points, ([x]) => x),
    y: Float32Array.from(points, ([, y]) => y),
    z: new Float32Array(points.length),
    rgb: new Uint32Array(points.length).fill(PROBABILITY),
  }));
}

/** A `.pbstream` file of a map without trajectories: format version 2, an empty pose graph, no options. */
function stateFile(): Uint8Array {
  const magic = [0xdb, 0x01, 0xf5, 0x5b, 0x7b, 0x1f, 0x1d, 0x7b];
  const messages = [[0x08, 0x02], [0x0a, 0x00], [0x12, 0x00]];
  return Uint8Array.from([
    ...magic,
    ...messages.flatMap((message) => {
      const packed = gzipSync(Uint8Array.from(message));
      const length = new Uint8Array(8);
      new DataView(length.buffer).setBigUint64(0, BigInt(packed.length), true);
      return [...length, ...packed];
    }),
  ]);
}
