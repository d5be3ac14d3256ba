/**
 * Makes a map inside a content process, from the files and readings that a machine has captured. They come in the order
 * of their times, and each is fully processed before the next, so that the same data always gives the same map.
 */

import { unpacked } from "../../base/files/archive.ts";
import { collectBytes, joinedBytes } from "../../base/files/byte_reader.ts";
import { SvcError } from "../../base/error.ts";
import { viewpointOf } from "../../geometry/cloud/viewpoint.ts";
import { mapCloud, paintMap } from "../../slam/map_picture.ts";
import { Mapper } from "../../slam/mapper.ts";
import type { MapperOptions } from "../../slam/mapping.ts";
import type { Pose2d } from "../../slam/pose2d.ts";
import { readScanCloud } from "../../slam/scan_cloud.ts";
import { mapFile, readMap } from "../../slam/pbstream/map_file.ts";
import { MAP_FILE, type Movements } from "../mapping/map_requests.ts";

/** Limits of an existing map's package. */
const MAP_FILES = { filesMax: 1_000, bytesMax: 1024 ** 3 };

export class MapMaker {
  private constructor(private readonly mapper: Mapper, private readonly options: MapperOptions) {}

  /** Begins a new map, or extends the one in a package. */
  static async begin(options: MapperOptions, archive?: AsyncIterable<Uint8Array>): Promise<MapMaker> {
    const map = archive && await readMap(mapIn(archive));
    return new MapMaker(new Mapper({ mode: map ? "update" : "create", options, map }), options);
  }

  /** Adds a scan. Throws `invalid_argument` for an invalid scan. */
  scan(timeS: number, file: Uint8Array): Pose2d | undefined {
    const scan = readScanCloud(file, viewpointOf(file));
    if (scan.points.length === 0) throw new SvcError("invalid_argument", "the scan has no points");
    if (!this.mapper.addScan({ timeS, ...scan })) {
      throw new SvcError("invalid_argument", "the scan is not newer than the one before it");
    }
    while (this.mapper.work());
    return this.mapper.pose();
  }

  move({ imu, odometry }: Movements): void {
    for (const reading of imu) this.mapper.addImu(reading);
    for (const reading of odometry) this.mapper.addOdometry(reading);
  }

  /** The map as a PCD file. Throws `unavailable` while it is empty. */
  cloud(): Uint8Array {
    const picture = paintMap(this.mapper.state().submaps);
    if (picture.width > 0) return mapCloud(picture);
    throw new SvcError("unavailable", "the map is empty so far: no scan has been taken in");
  }

  /** The fully optimised map as a `.pbstream` file. */
  async file(): Promise<Uint8Array> {
    this.mapper.finish();
    return joinedBytes(await Array.fromAsync(mapFile(this.mapper.state(), this.options)));
  }
}

/** The map in a package. Throws `failed_precondition` if there is none. */
async function* mapIn(archive: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let found: Uint8Array | undefined;
  for await (const { path, bytes, content } of unpacked(archive, MAP_FILES)) {
    if (path.split("/").at(-1) === MAP_FILE) found = await collectBytes(content, bytes);
  }
  if (!found) throw new SvcError("failed_precondition", `the package has no ${MAP_FILE}, wanted a map`);
  yield found;
}
