import { assertEquals } from "@std/assert";
import { TransformSchema } from "../../../proto/gen/common_pb.ts";
import { GetPosesResponseSchema } from "../../../proto/gen/pose_tracker_pb.ts";
import { GetObjectPointCloudsResponseSchema } from "../../../proto/gen/vision_pb.ts";
import { ResourceName } from "../../resource/name.ts";
import { create } from "../../wire/rpc/proto.ts";
import { farFrame, nameFrames, nearFrame } from "./far_names.ts";

const PREFIXED = ResourceName.of("rdk:service:motion", "far:r_m", "m");
const BARE = ResourceName.of("rdk:service:motion", "far:m", "m");
const OWN = ResourceName.of("rdk:service:motion", "m");

Deno.test("farFrame and nearFrame: a remote's frames have its prefix here, and its world its name", () => {
  const near = ["r_arm", "r_arm_origin", "r_arm:link", "far_world", "world", "arm", ""];
  assertEquals(near.map((frame) => farFrame(PREFIXED, frame)), [
    ...["arm", "arm_origin", "arm:link", "world", "world", "arm", ""],
  ]);
  assertEquals(near.map((frame) => farFrame(BARE, frame)), near.with(3, "world"));
  const far = ["arm", "arm:link", "world", "other_world", ""];
  assertEquals(far.map((frame) => nearFrame(PREFIXED, frame)), [
    ...["r_arm", "r_arm:link", "far_world", "r_other_world", ""],
  ]);
  assertEquals(far.map((frame) => nearFrame(BARE, frame)), far.with(2, "far_world"));
  assertEquals([...near, ...far].map((frame) => farFrame(OWN, nearFrame(OWN, frame))), [...near, ...far]);
});

Deno.test("nameFrames: frames of a message, of its members, lists, maps and choices", () => {
  const poses = create(GetPosesResponseSchema, {
    bodyPoses: { tag: { referenceFrame: "cam", pose: { x: 1 } }, cup: { referenceFrame: "world" } },
  });
  nameFrames(PREFIXED, GetPosesResponseSchema, poses);
  assertEquals(Object.entries(poses.bodyPoses).map(([body, { referenceFrame }]) => [body, referenceFrame]), [
    ["tag", "r_cam"],
    ["cup", "far_world"],
  ]);

  const objects = create(GetObjectPointCloudsResponseSchema, {
    objects: [{ geometries: { referenceFrame: "cam", geometries: [{ label: "cam" }] } }],
  });
  nameFrames(PREFIXED, GetObjectPointCloudsResponseSchema, objects);
  const [{ geometries }] = objects.objects;
  assertEquals([geometries?.referenceFrame, geometries?.geometries[0].label], ["r_cam", "cam"]);

  const removed = create(TransformSchema, {
    physicalObject: { geometryType: { case: "sphere", value: { radiusMm: 1 } } },
  });
  nameFrames(PREFIXED, TransformSchema, removed);
  assertEquals(removed.referenceFrame, "");
});
