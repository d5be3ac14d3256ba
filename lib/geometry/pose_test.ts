import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import {
  type AxisAngles,
  axisAnglesFromQuaternion,
  compose,
  composePoses,
  degrees,
  distanceBetween,
  eulerFromQuaternion,
  fromPose,
  IDENTITY,
  IDENTITY_POSE,
  invert,
  normalized,
  type OrientationVector,
  type Pose,
  poseAt,
  poseBetween,
  posesAlmostEqual,
  type Quaternion,
  quaternionFromAxisAngles,
  quaternionFromEuler,
  quaternionFromVector,
  radians,
  rotate,
  rotationMatrix,
  toPose,
  transformPoint,
  vectorFromQuaternion,
} from "./pose.ts";
import { randomFrom } from "./random.ts";

const SEED = 20250101;

function quaternion(x: number, y: number, z: number, w: number): Quaternion {
  return { w, x, y, z };
}

function vector(oX: number, oY: number, oZ: number, theta: number): OrientationVector {
  return { oX, oY, oZ, theta };
}

function angleBetween(a: Quaternion, b: Quaternion): number {
  return distanceBetween({ ...IDENTITY, rotation: a }, { ...IDENTITY, rotation: b }).angleRad;
}

function randomRotation(random: () => number): Quaternion {
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return normalized(quaternion(gauss(), gauss(), gauss(), gauss()));
}

function randomPose(random: () => number): Pose {
  const at = () => (random() - 0.5) * 4000;
  return toPose({ translation: { x: at(), y: at(), z: at() }, rotation: randomRotation(random) });
}

Deno.test("quaternionFromVector: matches the published rotations", () => {
  const known: [OrientationVector, Quaternion][] = [
    [vector(0, -Math.SQRT1_2, Math.SQRT1_2, 90), quaternion(0.3826834323650898, 0, 0, 0.9238795325112867)],
    [
      vector(1, 0, 0, 141.639750618701),
      quaternion(0.6678555622436378, 0.23231217785607847, 0.667855562243638, 0.23231217785607852),
    ],
    [
      vector(-1, 0, 0, 141.639750618701),
      quaternion(-0.23231217785607844, 0.667855562243638, 0.23231217785607855, -0.667855562243638),
    ],
    [
      vector(-0.32439089809469324, -0.9441256803955101, -0.05828588895294498, -32.842873631968),
      quaternion(0.44844214211454825, 0.5727500237033498, -0.6484245535282075, 0.22450535384545364),
    ],
    [vector(0, 0, 1, -44.690708020204), quaternion(0, 0, -0.3801884151231614, 0.9249090598573131)],
    [vector(0, 0, -1, 141.639750618701), quaternion(0.9444903938312615, 0.3285390326284968, 0, 0)],
    [vector(0, 0, -1, 0), quaternion(0, 1, 0, 0)],
    [vector(999, 0, 0, 0), quaternion(0, Math.SQRT1_2, 0, Math.SQRT1_2)],
    [vector(0, 0, 0, 0), quaternion(0, 0, 0, 1)],
    [vector(0, 0, 0, 90), quaternion(0, 0, Math.SQRT1_2, Math.SQRT1_2)],
  ];
  for (const [given, wanted] of known) {
    assert(angleBetween(quaternionFromVector(given), wanted) < 1e-8, JSON.stringify(given));
  }
});

Deno.test("vectorFromQuaternion: matches the published orientation vectors", () => {
  const known: [Quaternion, OrientationVector][] = [
    [quaternion(0, 0, 0, 1), vector(0, 0, 1, 0)],
    [quaternion(Math.SQRT1_2, 0, 0, Math.SQRT1_2), vector(0, -1, 0, 90)],
    [quaternion(0, Math.SQRT1_2, 0, Math.SQRT1_2), vector(1, 0, 0, 0)],
    [quaternion(0, 0, Math.SQRT1_2, Math.SQRT1_2), vector(0, 0, 1, 90)],
    [quaternion(0, 0, 1, 0), vector(0, 0, 1, -180)],
    [
      quaternion(0.022260026714733816, 0.43967973954090955, 0.36042340565035597, 0.8223631719059993),
      vector(0.7391989197401165, 0.2803300858899107, 0.6123724356957945, 26.565051177078),
    ],
    [quaternion(-0.28, 0, 0, 0.96), vector(0, 0.5376, 0.8432, -90)],
    [quaternion(0, -0.28, 0, 0.96), vector(-0.5376, 0, 0.8432, -180)],
    [quaternion(-0.5, -0.5, -0.5, 0.5), vector(0, 1, 0, -180)],
    [quaternion(1, 0, 0, 0), vector(0, 0, -1, -180)],
    [quaternion(0, 1, 0, 0), vector(0, 0, -1, 0)],
  ];
  for (const [given, wanted] of known) {
    const found = vectorFromQuaternion(given);
    for (const key of ["oX", "oY", "oZ", "theta"] as const) {
      assertAlmostEquals(found[key], wanted[key], 1e-8, `${key} of ${JSON.stringify(given)}`);
    }
  }
  assert(Object.is(vectorFromQuaternion(quaternion(0, 0, 0, 1)).theta, 0), "theta is never -0");
});

Deno.test("vectorFromQuaternion: loses no precision, including at and near the poles", () => {
  const random = randomFrom(SEED);
  const edge = Math.acos(1 - 1e-4);
  for (let i = 0; i < 20_000; i++) {
    let q = randomRotation(random);
    if (i % 4 === 1) q = normalized({ ...q, x: q.x * 10 ** (-8 * random()), y: q.y * 10 ** (-8 * random()) });
    if (i % 4 === 2) q = normalized({ ...q, w: q.w * 10 ** (-8 * random()), z: q.z * 10 ** (-8 * random()) });
    if (i % 4 === 3) {
      const lat = i % 8 === 3 ? edge : Math.PI - edge;
      q = quaternionFromEuler({ roll: 0, pitch: lat + (i % 100 - 50) * 1e-16, yaw: random() * 6 });
      q = compose({ ...IDENTITY, rotation: q }, {
        ...IDENTITY,
        rotation: quaternionFromAxisAngles({ theta: random() * 6, x: 0, y: 0, z: 1 }),
      }).rotation;
    }
    const encoded = vectorFromQuaternion(q);
    assert(
      angleBetween(quaternionFromVector(encoded), q) < 1e-7,
      `seed ${SEED} step ${i}: ${JSON.stringify(q)}`,
    );
    assert(encoded.theta >= -180 && encoded.theta < 180);
    const z = rotate(q, { x: 0, y: 0, z: 1 });
    assertAlmostEquals(z.x, encoded.oX, 1e-12);
    assertAlmostEquals(z.y, encoded.oY, 1e-12);
    assertAlmostEquals(z.z, encoded.oZ, 1e-12);
  }
});

Deno.test("quaternionFromVector: keeps the direction for any theta", () => {
  for (const down of [1, -1]) {
    for (const tilt of [1e-4, 0.05, 0.5, 0.8, 0.81, 0.82, 2, 40].map(radians)) {
      for (let azimuth = 0; azimuth < 360; azimuth += 45) {
        for (const theta of [0, 90, -170]) {
          const lean = radians(azimuth);
          const given = vector(
            Math.sin(tilt) * Math.cos(lean),
            Math.sin(tilt) * Math.sin(lean),
            down * Math.cos(tilt),
            theta,
          );
          const z = rotate(quaternionFromVector(given), { x: 0, y: 0, z: 1 });
          assertAlmostEquals(Math.hypot(z.x - given.oX, z.y - given.oY, z.z - given.oZ), 0, 1e-9);
        }
      }
    }
  }
});

Deno.test("euler angles and axis angles: round-trip through quaternions", () => {
  const random = randomFrom(SEED);
  for (let i = 0; i < 5000; i++) {
    let q = randomRotation(random);
    if (i % 5 === 0) q = quaternionFromEuler({ roll: random() * 6, pitch: Math.PI / 2, yaw: random() * 6 });
    if (i % 5 === 1) q = quaternionFromEuler({ roll: random() * 6, pitch: -Math.PI / 2, yaw: random() * 6 });
    assert(angleBetween(quaternionFromEuler(eulerFromQuaternion(q)), q) < 1e-5, `euler, step ${i}`);
    assert(angleBetween(quaternionFromAxisAngles(axisAnglesFromQuaternion(q)), q) < 1e-9, `axis, step ${i}`);
  }
  const known = quaternionFromEuler({ roll: radians(30), pitch: radians(45), yaw: radians(60) });
  assertAlmostEquals(angleBetween(known, quaternion(0.0222600, 0.4396797, 0.3604234, 0.8223632)), 0, 1e-6);
  const x90: AxisAngles = { theta: Math.PI / 2, x: 3, y: 0, z: 0 };
  assertAlmostEquals(rotate(quaternionFromAxisAngles(x90), { x: 0, y: 1, z: 0 }).z, 1, 1e-12);
  assertEquals(axisAnglesFromQuaternion(IDENTITY.rotation), { theta: 0, x: 0, y: 0, z: 1 });
});

Deno.test("compose and invert: form a group and agree with the rotation matrix", () => {
  const random = randomFrom(SEED);
  for (let i = 0; i < 500; i++) {
    const [a, b, c] = [randomPose(random), randomPose(random), randomPose(random)];
    assert(posesAlmostEqual(composePoses(a, composePoses(b, c)), composePoses(composePoses(a, b), c)));
    assert(posesAlmostEqual(composePoses(a, poseBetween(a, b)), b, { mm: 1e-6, deg: 1e-5 }));
    assert(posesAlmostEqual(toPose(compose(fromPose(a), invert(fromPose(a)))), IDENTITY_POSE));
    const point = { x: random(), y: random(), z: random() };
    const [m, moved] = [rotationMatrix(fromPose(a).rotation), transformPoint(fromPose(a), point)];
    assertAlmostEquals(moved.x, m[0] * point.x + m[1] * point.y + m[2] * point.z + a.x, 1e-9);
    assertAlmostEquals(moved.z, m[6] * point.x + m[7] * point.y + m[8] * point.z + a.z, 1e-9);
  }
});

Deno.test("composePoses: a turned frame moves its children", () => {
  const turned: Pose = { x: 100, y: 0, z: 0, oX: 0, oY: 0, oZ: 1, theta: 90 };
  assert(posesAlmostEqual(composePoses(turned, poseAt(10, 0, 5)), { ...turned, y: 10, z: 5 }));
  const forward: Pose = { ...IDENTITY_POSE, oX: 1, oZ: 0 };
  assertAlmostEquals(composePoses(forward, poseAt(0, 0, 7)).x, 7, 1e-9);
  assert(!posesAlmostEqual(IDENTITY_POSE, poseAt(0.01, 0, 0)));
  assert(!posesAlmostEqual(IDENTITY_POSE, { ...IDENTITY_POSE, theta: 0.01 }));
  assertAlmostEquals(degrees(distanceBetween(IDENTITY, fromPose(turned)).angleRad), 90, 1e-9);
});
