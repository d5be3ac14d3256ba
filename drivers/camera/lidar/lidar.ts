/**
 * What all lidars share: a camera whose point cloud is one turn of the lidar, and whose picture shows it from above.
 *
 * Points are in the lidar's frame: x ahead, y to the left, z up.
 */

import type { Camera, CameraProperties, Images } from "../../../lib/api/sensors/camera.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { type ColorImage, encodeImage, MIME } from "../../../lib/geometry/image/image.ts";
import { writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../../lib/geometry/cloud/point_cloud.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import { BaseComponent, type Call } from "../../../lib/resource/resource.ts";
import { chosenSources } from "../sources.ts";

/** The picture: pixels on each side, and the smallest distance in metres from side to side. */
const PICTURE_PX = 400;
const PICTURE_M = 10;
const BACKGROUND = [16, 20, 28] as const;
const RETURN = [120, 220, 120] as const;
const LIDAR = [240, 90, 70] as const;

/** One turn of a lidar, in its frame. */
export interface LidarTurn {
  /** The returns in metres: x, y, x, y, … */
  readonly points: Float32Array;
  /** When each return was measured, in seconds relative to the time of the reading; undefined: all at that time. */
  readonly offsetsS?: Float32Array;
}

export abstract class Lidar extends BaseComponent implements Camera {
  constructor(name: ResourceName, protected readonly clock: Clock, private readonly scansPerSecond?: number) {
    super(name);
  }

  protected abstract scan(call?: Call): Promise<LidarTurn>;

  /** The turn that pictures show; a lidar that replays a recording does not go on for them. */
  protected shown(call?: Call): Promise<LidarTurn> {
    return this.scan(call);
  }

  async getPointCloud(call?: Call): Promise<Uint8Array> {
    const { points, offsetsS } = await this.scan(call);
    const time = call?.withTimes ? offsetsS : undefined;
    const x = points.filter((_, index) => index % 2 === 0);
    const y = points.filter((_, index) => index % 2 === 1);
    return writePcd(createCloud({ x, y, z: new Float32Array(x.length), time }));
  }

  async getImages(sourceNames: readonly string[] = [], call?: Call): Promise<Images> {
    const [sourceName = "scan"] = chosenSources(this.name, ["scan"], sourceNames);
    const image = encodeImage({ kind: "color", image: pictureOf((await this.shown(call)).points) }, MIME.png);
    return { images: [{ sourceName, mimeType: MIME.png, image }], capturedAtMs: this.clock.nowMs() };
  }

  getProperties(): Promise<CameraProperties> {
    return Promise.resolve({ supportsPcd: true, mimeTypes: [MIME.png], frameRate: this.scansPerSecond });
  }
}

/** The points from above; the direction ahead is at the top. */
function pictureOf(points: Float32Array): ColorImage {
  const rgba = new Uint8Array(4 * PICTURE_PX * PICTURE_PX);
  const paint = (x: number, y: number, [red, green, blue]: readonly [number, number, number]) => {
    if (x < 0 || y < 0 || x >= PICTURE_PX || y >= PICTURE_PX) return;
    rgba.set([red, green, blue, 255], 4 * (y * PICTURE_PX + x));
  };
  for (let at = 0; at < rgba.length; at += 4) rgba.set([...BACKGROUND, 255], at);
  let farthest = PICTURE_M / 2;
  for (const coordinate of points) {
    if (Number.isFinite(coordinate)) farthest = Math.max(farthest, Math.abs(coordinate));
  }
  const middle = PICTURE_PX / 2;
  const pixelsPerM = (middle - 2) / farthest;
  for (let n = 0; n + 1 < points.length; n += 2) {
    paint(
      Math.round(middle - (points[n + 1] ?? 0) * pixelsPerM),
      Math.round(middle - (points[n] ?? 0) * pixelsPerM),
      RETURN,
    );
  }

  for (const x of [-1, 0, 1]) for (const y of [-1, 0, 1]) paint(middle + x, middle + y, LIDAR);
  return { width: PICTURE_PX, height: PICTURE_PX, rgba };
}
