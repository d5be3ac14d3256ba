import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { type Body, bodyOf, inContact, movedBody } from "./contact.ts";
import type { GeometryShape } from "./geometry.ts";
import {
  add,
  fromPose,
  IDENTITY_POSE,
  length,
  normalized,
  type Pose,
  poseAt,
  scale,
  subtract,
  toPose,
  type Vec3,
} from "./pose.ts";
import { randomFrom } from "./random.ts";

const body = (shape: GeometryShape, center: Pose = IDENTITY_POSE) => bodyOf({ center, label: "it", shape });
const box = (x: number, y: number, z: number): GeometryShape => ({ type: "box", dimsMm: { x, y, z } });
const sphere = (radiusMm: number): GeometryShape => ({ type: "sphere", radiusMm });
const capsule = (radiusMm: number, lengthMm: number): GeometryShape => ({
  type: "capsule",
  radiusMm,
  lengthMm,
});

Deno.test("inContact: is true when bodies overlap or are nearer than the margin", () => {
  const turned = { ...poseAt(100, 0, 0), theta: 45 };
  const cases: [what: string, a: Body, b: Body, gapMm: number][] = [
    ["spheres", body(sphere(30)), body(sphere(20), poseAt(60, 0, 0)), 10],
    ["a sphere over a face", body(box(100, 100, 100)), body(sphere(20), poseAt(10, 20, 80)), 10],
    ["a sphere off a corner", body(box(20, 20, 20)), body(sphere(5), poseAt(13, 14, 10)), 0],
    ["boxes side by side", body(box(20, 20, 20)), body(box(20, 20, 20), poseAt(33, 5, 5)), 13],
    ["a turned box", body(box(100, 100, 100)), body(box(20, 20, 20), turned), 50 - 10 * Math.SQRT2],
    [
      "crossed capsules",
      body(capsule(5, 100)),
      body(capsule(5, 100), { ...poseAt(0, 22, 0), oX: 1, oZ: 0 }),
      12,
    ],
    ["a capsule's end", body(capsule(10, 100)), body(box(10, 10, 10), poseAt(0, 0, 58)), 3],
  ];
  for (const [what, a, b, gapMm] of cases) {
    for (const [one, other] of [[a, b], [b, a]]) {
      assertEquals(inContact(one, other, gapMm + 0.01), true, what);
      assertEquals(inContact(one, other, gapMm - 0.01), false, what);
    }
  }
  assertEquals(inContact(body(box(100, 100, 100)), body(box(10, 10, 10))), true);
  assertEquals(inContact(body(box(100, 100, 100)), body(box(10, 10, 10), poseAt(49, 49, 49))), true);
});

Deno.test("inContact: agrees with a numerical gap between random boxes", () => {
  const random = randomFrom(7);
  const between = (from: number, to: number) => from + random() * (to - from);
  const anywhere = () => ({
    translation: { x: between(-90, 90), y: between(-90, 90), z: between(-90, 90) },
    rotation: normalized({ w: between(-1, 1), x: between(-1, 1), y: between(-1, 1), z: between(-1, 1) }),
  });
  const size = () => box(between(5, 80), between(5, 80), between(5, 80));
  for (let round = 0; round < 300; round++) {
    const [a, b] = [movedBody(body(size()), anywhere()), body(size(), toPose(anywhere()))];
    const gapMm = gap(a, b);
    assertEquals(inContact(a, b, gapMm + 0.5), true, `round ${round}: ${gapMm}`);
    if (gapMm > 1) assertEquals(inContact(a, b, gapMm - 0.5), false, `round ${round}: ${gapMm}`);
  }
});

/** Projects onto one box and the other in turn, which converges to the nearest points of both. */
function gap(a: Body, b: Body): number {
  let point = b.center;
  for (let turn = 0; turn < 3_000; turn++) point = onto(b, onto(a, point));
  return length(subtract(onto(a, point), point));
}

/** The corners of a box come in the order of its axes. */
function onto({ corners, center }: Body, point: Vec3): Vec3 {
  const way = subtract(point, center);
  return [4, 2, 1].map((index) => subtract(corners[index], corners[0])).reduce((sum, edge) => {
    const share = (way.x * edge.x + way.y * edge.y + way.z * edge.z) / length(edge) ** 2;
    return add(sum, scale(edge, Math.min(Math.max(share, -0.5), 0.5)));
  }, center);
}

Deno.test("movedBody: moves a body with its frame, and bodyOf refuses a mesh", () => {
  const moved = movedBody(
    body(sphere(10), poseAt(0, 0, 50)),
    fromPose({ ...poseAt(100, 0, 0), oX: 1, oZ: 0 }),
  );
  assertEquals(inContact(moved, body(sphere(1), poseAt(160, 0, 0))), true);
  assertEquals(inContact(moved, body(sphere(1), poseAt(162, 0, 0))), false);
  const mesh = { type: "mesh", contentType: "ply", mesh: new Uint8Array() } as const;
  const error = assertThrows(() => body(mesh), SvcError, 'geometry "it" is a mesh');
  assertEquals(error.code, "unimplemented");
});
