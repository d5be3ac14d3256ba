import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { type ConfigField, DecodeContext } from "../base/schema/schema.ts";
import { transformGeometry } from "./geometry.ts";
import { IDENTITY_POSE, poseAt, posesAlmostEqual, rotate } from "./pose.ts";
import { frameField, geometryField, orientationField } from "./schema.ts";

function decode<T>(field: ConfigField<T>, value: unknown): NonNullable<T> {
  const at = new DecodeContext("frame");
  const decoded = field.decode(value, at);
  assertEquals(at.problems, []);
  return decoded as NonNullable<T>;
}

function firstProblem(field: ConfigField<unknown>, value: unknown): string {
  const at = new DecodeContext("frame");
  field.decode(value, at);
  assert(at.problems.length > 0, `no problem found in ${JSON.stringify(value)}`);
  return `${at.problems[0].path}: ${at.problems[0].message}`;
}

Deno.test("orientationRow: every published orientation type decodes to the same rotation", () => {
  const forms: [string, unknown][] = [
    ["ov_degrees", { th: 90, x: 0, y: 0, z: 5 }],
    ["ov_radians", { th: Math.PI / 2, z: 1 }],
    ["euler_angles", { yaw: Math.PI / 2 }],
    ["axis_angles", { th: Math.PI / 2, z: 2 }],
    ["quaternion", { W: 1, X: 0, Y: 0, Z: 1 }],
    ["quaternion", { w: 3, z: 3 }],
  ];
  for (const [type, value] of forms) {
    const turned = rotate(decode(orientationField, { type, value }), { x: 1, y: 0, z: 0 });
    assertAlmostEquals(turned.y, 1, 1e-12, type);
  }
  assertEquals(decode(orientationField, {}), { w: 1, x: 0, y: 0, z: 0 });
  assertEquals(decode(orientationField, { type: "", value: {} }), { w: 1, x: 0, y: 0, z: 0 });
});

Deno.test("orientationRow: an error has the path of the wrong value", () => {
  assertMatch(
    firstProblem(orientationField, { type: "oiler_angles", value: {} }),
    /^frame\.type: .*euler_angles/,
  );
  assertMatch(firstProblem(orientationField, { type: "ov_degrees" }), /^frame\.value: missing/);
  assertMatch(
    firstProblem(orientationField, { type: "ov_degrees", value: { th: 3 } }),
    /^frame\.value: .*all 0/,
  );
  assertMatch(
    firstProblem(orientationField, { type: "ov_degrees", value: { th: "word", z: 1 } }),
    /^frame\.value\.th/,
  );
  assertMatch(firstProblem(orientationField, { type: "quaternion", value: {} }), /wanted a rotation/);
});

Deno.test("geometryRow: decodes each shape and infers a missing type", () => {
  const shape = (value: unknown) => decode(geometryField, value).shape;
  const box = { type: "box", dimsMm: { x: 1, y: 2, z: 3 } } as const;
  assertEquals(shape({ type: "box", x: 1, y: 2, z: 3 }), box);
  assertEquals(shape({ x: 1, y: 2, z: 3 }), box);
  assertEquals(shape({ r: 4 }), { type: "sphere", radiusMm: 4 });
  assertEquals(shape({ r: 4, l: 10 }), { type: "capsule", radiusMm: 4, lengthMm: 10 });
  assertEquals(shape({ type: "capsule", r: 4, l: 8 }), { type: "sphere", radiusMm: 4 });
  assertEquals(shape({ type: "point" }), { type: "sphere", radiusMm: 0 });
  assertEquals(shape({ type: "mesh", mesh_data: "cGx5" }), {
    type: "mesh",
    contentType: "ply",
    mesh: new TextEncoder().encode("ply"),
  });
  assertMatch(firstProblem(geometryField, {}), /neither a type nor a size/);
  assertMatch(firstProblem(geometryField, { type: "box", x: 1 }), /1 x 0 x 0 mm/);
  assertMatch(firstProblem(geometryField, { type: "capsule", r: 4, l: 7 }), /twice r/);
  assertMatch(firstProblem(geometryField, { r: -1 }), /^frame\.r: /);
  assertMatch(firstProblem(geometryField, { type: "mesh", mesh_data: "?" }), /^frame\.mesh_data: not base64/);
  assertMatch(firstProblem(geometryField, { type: "mesh" }), /^frame\.mesh_data: found nothing/);
});

Deno.test("transformGeometry: keeps the label and moves with the frame", () => {
  const geometry = decode(geometryField, { r: 1, label: "ball", translation: { x: 10 } });
  const moved = transformGeometry(geometry, { ...IDENTITY_POSE, z: 5, theta: 90 });
  assertEquals(moved.label, "ball");
  assert(posesAlmostEqual(moved.center, { ...IDENTITY_POSE, y: 10, z: 5, theta: 90 }));
});

Deno.test("frameRow: decodes parent, pose and optional geometry", () => {
  const frame = decode(frameField, {
    parent: "world",
    translation: { x: 1, y: 2, z: 3 },
    orientation: { type: "ov_degrees", value: { x: 1, y: 0, z: 0, th: 30 } },
    geometry: { type: "sphere", r: 9 },
  });
  assertEquals([frame.parent, frame.id, frame.geometry?.shape.type], ["world", undefined, "sphere"]);
  assertAlmostEquals(frame.pose.oX, 1, 1e-12);
  assertAlmostEquals(frame.pose.theta, 30, 1e-9);
  assertEquals(decode(frameField, { parent: "arm" }).pose, poseAt(0, 0, 0));
  assertEquals(decode(frameField, {}).parent, "");
  assertMatch(firstProblem(frameField, { translation: { x: "1" } }), /^frame\.translation\.x: /);
});
