/** Scans in the point cloud files of lidars. */

import { readPcd } from "../geometry/cloud/pcd.ts";
import { transformCloud } from "../geometry/cloud/point_cloud.ts";
import type { RigidTransform } from "../geometry/pose.ts";
import { type RangeScan, SCAN_POINTS_MAX } from "./mapping.ts";
import { singleAt } from "./points.ts";

/** Times that differ more from that of the reading come from another clock. */
const OFFSET_S_MAX = 10;
const M_PER_MM = 1e-3;

/**
 * The points of a scan in the robot's frame, on which the lidar has the pose `lidar` (millimetres), and the times of
 * the file's field `time`. Throws for a file that is not a point cloud.
 */
export function readScanCloud(file: Uint8Array, lidar?: RigidTransform): Omit<RangeScan, "timeS"> {
  const cloud = readPcd(file, { maxPoints: SCAN_POINTS_MAX });
  // The height of the lidar does not matter in the plane.
  const level = lidar && { ...lidar, translation: { ...lidar.translation, z: 0 } };
  const { x, y, z, time } = level ? transformCloud(cloud, level) : cloud;
  const points = new Float32Array(3 * x.length), offsetsS = new Float32Array(x.length);
  let count = 0, hasTimes = time !== undefined;
  for (let n = 0; n < x.length; n++) {
    const px = singleAt(x, n), py = singleAt(y, n), pz = singleAt(z, n);
    if (!Number.isFinite(px + py + pz)) continue;
    const offsetS = time?.[n] ?? 0;
    if (!(Math.abs(offsetS) <= OFFSET_S_MAX)) hasTimes = false;
    offsetsS[count] = offsetS;
    points[3 * count] = px;
    points[3 * count + 1] = py;
    points[3 * count++ + 2] = pz;
  }
  return {
    points: points.slice(0, 3 * count),
    ...(hasTimes ? { offsetsS: offsetsS.slice(0, count) } : {}),
    ...(level ? { origin: { x: level.translation.x * M_PER_MM, y: level.translation.y * M_PER_MM } } : {}),
  };
}
