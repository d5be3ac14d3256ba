import { assertEquals, assertThrows } from "@std/assert";
import { TransformSchema } from "../../../proto/gen/common_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { FramePart } from "../../geometry/frame_system.ts";
import type { Geometry, GeometryShape } from "../../geometry/geometry.ts";
import { poseAt } from "../../geometry/pose.ts";
import { create, fromBinary, type JsonObject, toBinary } from "../../wire/rpc/proto.ts";
import { fromTransformMessage, toTransformMessage } from "./geometry.ts";

/** As another machine receives it. */
function received(part: FramePart, metadata?: JsonObject): FramePart {
  const init = toTransformMessage(part);
  const message = create(TransformSchema, metadata ? { ...init, metadata } : init);
  return fromTransformMessage(fromBinary(TransformSchema, toBinary(TransformSchema, message)));
}

const at = (x: number, label: string, shape: GeometryShape): Geometry => ({
  center: poseAt(x, 0, 0),
  label,
  shape,
});
const FRAME = { name: "cart", parent: "world", pose: poseAt(1, 2, 3) };
const BOX = at(1, "top", { type: "box", dimsMm: { x: 1, y: 2, z: 3 } });

Deno.test("a frame arrives with all of its shapes, whatever they are", () => {
  const more: Geometry[] = [
    at(2, "leg", { type: "capsule", radiusMm: 1.5, lengthMm: 7 }),
    at(3, "", { type: "sphere", radiusMm: 4 }),
    at(4, "arm", { type: "mesh", contentType: "ply", mesh: new Uint8Array([1, 0, 255]) }),
    at(5, "fog", { type: "point_cloud", pcd: new Uint8Array([9]) }),
    BOX,
  ];
  const whole = { ...FRAME, geometry: BOX, moreGeometries: more };
  assertEquals(received(whole), whole);
  assertEquals(received({ ...FRAME, geometry: BOX }), { ...FRAME, geometry: BOX });
  assertEquals(received({ ...FRAME, geometry: undefined }), { ...FRAME, geometry: undefined });
});

Deno.test("metadata of others are no shapes, and broken shapes are refused with their frame", () => {
  const plain = { ...FRAME, geometry: BOX };
  for (const metadata of [{ color: { r: 1 } }, { more_geometries: "many" }] as JsonObject[]) {
    assertEquals(received(plain, metadata), plain);
  }
  for (const one of [{ sphere: { radiusMm: "big" } }, {}, 7] as JsonObject[]) {
    const refused = () => received(plain, { more_geometries: [one] });
    const { code } = assertThrows(refused, SvcError, "frame cart: unusable metadata.more_geometries");
    assertEquals(code, "invalid_argument");
  }
});
