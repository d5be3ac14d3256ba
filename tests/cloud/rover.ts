/** A simulated robot whose captured data are in a control plane, for mapping; and maps that are uploaded. */

import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { packed } from "../../lib/base/files/archive.ts";
import { BinaryData } from "../../lib/cloud/data/binary_data.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import type { StoredFile } from "../../lib/cloud/store/files.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { geoPointAt } from "../../lib/geometry/geo.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { building, STARTS } from "../../lib/slam/simulation/building.ts";
import { scanAt, SimulatedRobot } from "../../lib/slam/simulation/robot.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import type { ServedCloud, World } from "./world.ts";

const SCAN_S = 0.2;
const ODOMETRY_S = 0.1;
/** As requests for mapping name them. */
export const SENSORS = [
  { sourceComponentName: "lidar", type: "rdk:component:camera", dataFrequencyHz: "5" },
  { sourceComponentName: "wheels", type: "movement_sensor", dataFrequencyHz: "10" },
];

/** Stores one captured value. */
export type Arrival = () => Promise<void>;

/** A robot in the hall, whose data come to the control plane as its machine would have synced them. */
export class Rover {
  readonly #robot = new SimulatedRobot({
    building: building("hall", 0),
    start: { ...STARTS.hall, yaw: 0 },
    wheelSlip: 0.02,
    seed: 1,
  });
  readonly #random = randomFrom(2);
  readonly #startS: number;
  #atS = 0;

  constructor(
    private readonly cloud: Pick<ServedCloud, "store" | "files">,
    private readonly world: World,
    agoS = 3_600,
  ) {
    this.#startS = Math.round(Date.now() / 1000) - agoS;
  }

  /** The time after its last measurement. */
  get now() {
    return toTimestamp((this.#startS + this.#atS + ODOMETRY_S / 2) * 1000);
  }

  /** Its pose from its start. */
  get pose() {
    const { x, y, yaw } = this.#robot.truth(this.#atS);
    return { x: x - STARTS.hall.x, y: y - STARTS.hall.y, yaw };
  }

  /** Drives on for some seconds. Its data arrive in the order of capture, or as `order` puts them. */
  async drive(seconds: number, order = (arrivals: Arrival[]) => arrivals): Promise<void> {
    const untilS = this.#atS + seconds;
    this.#robot.drive(this.#atS, { linearMps: 0.3, angularRps: 0.1 });
    const arrivals: Arrival[] = [];
    for (let step = 1; this.#atS + step * ODOMETRY_S <= untilS + 1e-9; step++) {
      const atS = this.#atS + step * ODOMETRY_S;
      arrivals.push(...this.#odometry(atS));
      if (step % Math.round(SCAN_S / ODOMETRY_S) === 0) arrivals.push(this.#scan(atS));
    }
    for (const arrive of order(arrivals)) await arrive();
    this.#atS = untilS;
  }

  #odometry(atS: number): Arrival[] {
    const { x, y, yaw } = this.#robot.odometry(atS);
    const coordinate = { ...geoPointAt({ eastM: x, northM: y }) };
    const orientation = { o_x: 0, o_y: 0, o_z: 1, theta: yaw * 180 / Math.PI };
    return [
      () => this.readings(atS, "Position", { coordinate, altitude_m: 0 }),
      () => this.readings(atS + 0.002, "Orientation", { orientation }),
    ];
  }

  async readings(atS: number, methodName: string, payload: Record<string, unknown>): Promise<void> {
    const capturedUs = this.#microsAt(atS);
    const reading = { capturedUs, receivedUs: capturedUs, payload } as never;
    const origin = this.#origin("movement_sensor", "wheels", methodName);
    await storeReadings(this.cloud, origin, [reading], [], 0);
  }

  #scan(atS: number): Arrival {
    const lidar = { beams: 180, maxRangeM: 20, noiseM: 0.01 };
    const seen = { timeS: atS, at: this.#robot.truth(atS) };
    const cloud = cloudOf(scanAt(this.#robot.building, seen, lidar, this.#random));
    return () => this.file(atS, cloud);
  }

  get startUs(): number {
    return this.#microsAt(0);
  }

  async file(atS: number, bytes: Uint8Array): Promise<void> {
    await this.stored(atS, await this.cloud.files.put(pieces(bytes)));
  }

  async stored(atS: number, file: StoredFile): Promise<void> {
    await this.cloud.store.transaction((sql) =>
      new BinaryData(sql).add(
        {
          origin: this.#origin("camera", "lidar", "NextPointCloud"),
          capturedUs: this.#microsAt(atS),
          fileName: "",
          fileExt: ".pcd",
          mimeType: "pointcloud/pcd",
          tags: [],
          datasetIds: [],
          boxes: [],
          classifications: [],
        },
        file,
        0,
      )
    );
  }

  #microsAt(atS: number): number {
    return Math.round((this.#startS + atS) * 1e6);
  }

  #origin(type: string, componentName: string, methodName: string) {
    const { organization, location, machine, part } = this.world;
    return {
      organizationId: organization,
      locationId: location,
      machineId: machine,
      machineName: "rover",
      partId: part,
      partName: "rover-main",
      componentType: `rdk:component:${type}`,
      componentName,
      methodName,
      parameters: "{}",
    };
  }
}

export async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** A point cloud of the hall, seen from one place. */
export function hallCloud(): Uint8Array {
  const lidar = { beams: 720, maxRangeM: 40, noiseM: 0.01 };
  return cloudOf(
    scanAt(building("hall", 0), { timeS: 0, at: { ...STARTS.hall, yaw: 0 } }, lidar, randomFrom(3)),
  );
}

function cloudOf({ points }: { readonly points: ArrayLike<number> }): Uint8Array {
  const column = (from: number) => Float32Array.from(points).filter((_, index) => index % 2 === from);
  const [x, y] = [column(0), column(1)];
  return writePcd(createCloud({ x, y, z: new Float32Array(x.length) }));
}

/** Adds a version of a map with these files to the registry. */
export async function uploadMap(
  channel: Channel,
  organizationId: string,
  [name, version]: readonly [name: string, version: string],
  files: Readonly<Record<string, Uint8Array>>,
): Promise<void> {
  const contents = Object.entries(files).map(([path, content]) => (
    { path, bytes: content.length, content: [content] }
  ));
  const info = { organizationId, name, version, type: PackageType.SLAM_MAP };
  await client(PackageService, channel).createPackage((async function* () {
    yield { package: { case: "info" as const, value: info } };
    for await (const value of packed(contents)) yield { package: { case: "contents" as const, value } };
  })());
}
