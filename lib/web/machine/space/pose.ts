/** Poses of the machine as three.js has them: metres and quaternions, z up. Pure. */

import { Quaternion, Vector3 } from "three";

/** Millimetres, and an orientation vector with its angle in degrees. */
export interface WirePose {
  readonly x: number;
  readonly y: number;
  readonly z: number;
  readonly oX: number;
  readonly oY: number;
  readonly oZ: number;
  readonly theta: number;
}

export interface MetricPose {
  readonly position: Vector3;
  readonly quaternion: Quaternion;
}

export const METRES = 0.001;
const Z = new Vector3(0, 0, 1);
const Y = new Vector3(0, 1, 0);
/** So near to the z axis a vector has no direction in the plane. */
const POLE = 1e-4;

/** The vector says where the z axis points, theta how far the frame is turned about it. */
export function poseInMetres(pose: WirePose | undefined): MetricPose {
  const { x, y, z, oX, oY, oZ, theta } = pose ?? { x: 0, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };
  const length = Math.hypot(oX, oY, oZ) || 1;
  const up = Math.min(1, Math.max(-1, (oZ || (oX || oY ? 0 : 1)) / length));
  const longitude = 1 - Math.abs(up) > POLE ? Math.atan2(oY, oX) : 0;
  const quaternion = new Quaternion().setFromAxisAngle(Z, longitude)
    .multiply(new Quaternion().setFromAxisAngle(Y, Math.acos(up)))
    .multiply(new Quaternion().setFromAxisAngle(Z, theta * Math.PI / 180));
  return { position: new Vector3(x, y, z).multiplyScalar(METRES), quaternion };
}
