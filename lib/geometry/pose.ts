/**
 * Poses: positions and rotations, and the algebra on them.
 *
 * A pose has two forms. `Pose` is the published one (viam.common.v1.Pose): millimetres, and an orientation
 * vector whose `theta` is in degrees. Users write it and the wire carries it, so its units stay. All
 * arithmetic uses `RigidTransform`: millimetres and a unit quaternion, for which composition is exact and
 * cheap. Rotations that do not leave the program are in radians, or in degrees if the name of the type says
 * so.
 *
 * An orientation vector (oX, oY, oZ) gives the direction of the local Z axis, and theta turns about it: the
 * rotation Rz(longitude)·Ry(colatitude)·Rz(theta). Close to the poles the longitude has no meaning, so theta
 * there is the whole turn about Z. The conversion to an orientation vector and back loses nothing, even near
 * the poles.
 */

/** Three coordinates, in the unit that the holder names. */
export interface Vec3 {
  /** Along the X axis. */
  readonly x: number;
  /** Along the Y axis. */
  readonly y: number;
  /** Along the Z axis. */
  readonly z: number;
}

/** A rotation; of length 1 everywhere in this program. `q` and `-q` are the same rotation. */
export interface Quaternion extends Vec3 {
  /** The real part: the cosine of half the angle. */
  readonly w: number;
}

/**
 * The direction of the local Z axis and the turn about it in degrees. Any length is valid; length 0 means +Z.
 */
export interface OrientationVector {
  /** X of the direction. */
  readonly oX: number;
  /** Y of the direction. */
  readonly oY: number;
  /** Z of the direction. */
  readonly oZ: number;
  /** The turn about the direction, in degrees. */
  readonly theta: number;
}

/** Position in millimetres and orientation vector in degrees: the fields of viam.common.v1.Pose. */
export interface Pose extends Vec3, OrientationVector {}

/** Maps points of a frame to its parent: turns by `rotation`, then moves by `translation` (millimetres). */
export interface RigidTransform {
  /** In millimetres, after the rotation. */
  readonly translation: Vec3;
  /** About the origin. */
  readonly rotation: Quaternion;
}

/** Turns in radians: yaw about Z, then pitch about the new Y, then roll about the newest X. */
export interface EulerAngles {
  readonly roll: number;
  readonly pitch: number;
  readonly yaw: number;
}

/** A turn by `theta` radians about the axis (x, y, z). */
export interface AxisAngles extends Vec3 {
  readonly theta: number;
}

export const ORIGIN: Vec3 = { x: 0, y: 0, z: 0 };
export const NO_ROTATION: Quaternion = { w: 1, x: 0, y: 0, z: 0 };
export const IDENTITY: RigidTransform = { translation: ORIGIN, rotation: NO_ROTATION };
export const IDENTITY_POSE: Pose = { x: 0, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 0 };

/** The published bound: within it, as 1 − |oZ|, a direction counts as the pole. */
const POLE_RADIUS = 1e-4;
/** The same bound on sin² of the angle to the pole, which needs no normalised vector. */
const POLE_SIN_SQUARED = 1 - (1 - POLE_RADIUS) ** 2;
/** At a pitch closer to ±90° than this (as 1 − |sin|), roll and yaw share a single degree of freedom. */
const GIMBAL_EPSILON = 1e-12;

export const radians = (deg: number): number => deg * Math.PI / 180;
export const degrees = (rad: number): number => rad * 180 / Math.PI;

/** A pose in millimetres without rotation. */
export function poseAt(xMm: number, yMm: number, zMm: number): Pose {
  return { ...IDENTITY_POSE, x: xMm, y: yMm, z: zMm };
}

export function fromPose(pose: Pose): RigidTransform {
  return { translation: { x: pose.x, y: pose.y, z: pose.z }, rotation: quaternionFromVector(pose) };
}

export function toPose({ translation: { x, y, z }, rotation }: RigidTransform): Pose {
  return { x, y, z, ...vectorFromQuaternion(rotation) };
}

/** Applies `inner` first, then `outer`: a frame's pose in the world from its parent's pose and its own. */
export function compose(outer: RigidTransform, inner: RigidTransform): RigidTransform {
  return {
    translation: transformPoint(outer, inner.translation),
    rotation: normalized(multiply(outer.rotation, inner.rotation)),
  };
}

export function invert({ translation, rotation }: RigidTransform): RigidTransform {
  const back = conjugate(rotation);
  return { translation: scale(rotate(back, translation), -1), rotation: back };
}

export function transformPoint(by: RigidTransform, point: Vec3): Vec3 {
  return add(rotate(by.rotation, point), by.translation);
}

export function composePoses(outer: Pose, inner: Pose): Pose {
  return toPose(compose(fromPose(outer), fromPose(inner)));
}

/** The pose of `to` as seen from `from`: `composePoses(from, poseBetween(from, to))` is `to`. */
export function poseBetween(from: Pose, to: Pose): Pose {
  return toPose(compose(invert(fromPose(from)), fromPose(to)));
}

/**
 * The distance between two placements: the straight line between the origins, and the angle of the single
 * turn between them.
 */
export function distanceBetween(
  a: RigidTransform,
  b: RigidTransform,
): { distanceMm: number; angleRad: number } {
  const turn = multiply(conjugate(a.rotation), b.rotation);
  return {
    distanceMm: length(subtract(b.translation, a.translation)),
    angleRad: 2 * Math.atan2(length(turn), Math.abs(turn.w)),
  };
}

export function posesAlmostEqual(a: Pose, b: Pose, { mm = 1e-3, deg = 1e-3 } = {}): boolean {
  const { distanceMm, angleRad } = distanceBetween(fromPose(a), fromPose(b));
  return distanceMm <= mm && degrees(angleRad) <= deg;
}

/** The rotation of an orientation vector in degrees. */
export function quaternionFromVector({ oX, oY, oZ, theta }: OrientationVector): Quaternion {
  // With q = Rz(lon)·Ry(lat)·Rz(theta), only half the sum and half the difference of theta and lon are
  // needed.
  const lon = Math.atan2(oY, oX);
  const halfLat = Math.atan2(Math.hypot(oX, oY), oX === 0 && oY === 0 && oZ === 0 ? 1 : oZ) / 2;
  const half = radians(theta) / 2;
  let sum = half + lon / 2;
  let difference = half - lon / 2;
  if (atPole({ oX, oY, oZ })) {
    if (oZ >= 0) [sum, difference] = [half, half - lon];
    else [sum, difference] = [half + lon, half];
  }

  const [c, s] = [Math.cos(halfLat), Math.sin(halfLat)];
  return {
    w: c * Math.cos(sum),
    x: s * Math.sin(difference),
    y: s * Math.cos(difference),
    z: c * Math.sin(sum),
  };
}

/** The orientation vector of a rotation, theta in [-180, 180) degrees. */
export function vectorFromQuaternion({ w, x, y, z }: Quaternion): OrientationVector {
  const direction = {
    oX: 2 * (x * z + w * y) + 0,
    oY: 2 * (y * z - w * x) + 0,
    oZ: 1 - 2 * (x * x + y * y),
  };
  const sum = Math.atan2(z, w);
  const difference = Math.atan2(x, y);
  const thetaAtPole = direction.oZ >= 0 ? 2 * sum : 2 * difference;
  const theta = atPole(direction) ? thetaAtPole : sum + difference;
  return { ...direction, theta: degrees(wrapped(theta)) };
}

export function quaternionFromEuler({ roll, pitch, yaw }: EulerAngles): Quaternion {
  const about = (axis: "x" | "y" | "z", rad: number): Quaternion => {
    return { ...NO_ROTATION, w: Math.cos(rad / 2), [axis]: Math.sin(rad / 2) };
  };
  return multiply(multiply(about("z", yaw), about("y", pitch)), about("x", roll));
}

/** At a pitch of ±90°, only the difference of yaw and roll is known; roll is then 0. */
export function eulerFromQuaternion({ w, x, y, z }: Quaternion): EulerAngles {
  const sinPitch = 2 * (w * y - z * x);
  if (1 - Math.abs(sinPitch) < GIMBAL_EPSILON) {
    const up = Math.sign(sinPitch);
    return { roll: 0, pitch: up * Math.PI / 2, yaw: wrapped(-up * 2 * Math.atan2(x, w)) };
  }
  return {
    roll: Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
    pitch: Math.asin(sinPitch),
    yaw: Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
  };
}

/** An axis of length 0 means no rotation. */
export function quaternionFromAxisAngles({ theta, x, y, z }: AxisAngles): Quaternion {
  const axisLength = Math.hypot(x, y, z);
  if (axisLength === 0) return NO_ROTATION;
  const s = Math.sin(theta / 2) / axisLength;
  return { w: Math.cos(theta / 2), x: x * s, y: y * s, z: z * s };
}

/** The turn of at most 180° about a unit axis; no rotation is 0 about Z. */
export function axisAnglesFromQuaternion(q: Quaternion): AxisAngles {
  const sine = length(q);
  if (sine < 1e-12) return { theta: 0, x: 0, y: 0, z: 1 };
  const theta = 2 * Math.atan2(sine, Math.abs(q.w));
  return { theta: q.w < 0 ? -theta : theta, x: q.x / sine, y: q.y / sine, z: q.z / sine };
}

/** A 3×3 matrix, row by row. */
export type RotationMatrix = readonly [
  ...readonly [number, number, number],
  ...readonly [number, number, number],
  ...readonly [number, number, number],
];

export function rotationMatrix({ w, x, y, z }: Quaternion): RotationMatrix {
  // deno-fmt-ignore
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
    2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
    2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
  ];
}

/** Applies `b` first, then `a`. */
export function multiply(a: Quaternion, b: Quaternion): Quaternion {
  return {
    w: a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    x: a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
    y: a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
    z: a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
  };
}

export function conjugate({ w, x, y, z }: Quaternion): Quaternion {
  return { w, x: -x, y: -y, z: -z };
}

/** Scales to length 1; a quaternion of length 0 means no rotation. */
export function normalized({ w, x, y, z }: Quaternion): Quaternion {
  const norm = Math.hypot(w, x, y, z);
  return norm === 0 ? NO_ROTATION : { w: w / norm, x: x / norm, y: y / norm, z: z / norm };
}

export function rotate(q: Quaternion, v: Vec3): Vec3 {
  const twice = scale(cross(q, v), 2);
  return add(add(v, scale(twice, q.w)), cross(q, twice));
}

export const add = (a: Vec3, b: Vec3): Vec3 => ({ x: a.x + b.x, y: a.y + b.y, z: a.z + b.z });
export const subtract = (a: Vec3, b: Vec3): Vec3 => ({ x: a.x - b.x, y: a.y - b.y, z: a.z - b.z });
export const scale = (v: Vec3, by: number): Vec3 => ({ x: v.x * by, y: v.y * by, z: v.z * by });
export const length = (v: Vec3): number => Math.hypot(v.x, v.y, v.z);
export const cross = (a: Vec3, b: Vec3): Vec3 => ({
  x: a.y * b.z - a.z * b.y,
  y: a.z * b.x - a.x * b.z,
  z: a.x * b.y - a.y * b.x,
});

/**
 * Judges the vector as it travels, without normalising it, because encoder and decoder must agree on the
 * meaning of theta to the last bit.
 */
function atPole({ oX, oY, oZ }: Omit<OrientationVector, "theta">): boolean {
  const sideways = oX * oX + oY * oY;
  return sideways <= POLE_SIN_SQUARED * (sideways + oZ * oZ);
}

/** An angle in [-π, π), never -0. */
function wrapped(rad: number): number {
  const turn = rad - 2 * Math.PI * Math.round(rad / (2 * Math.PI));
  return (turn >= Math.PI ? turn - 2 * Math.PI : turn) + 0;
}
