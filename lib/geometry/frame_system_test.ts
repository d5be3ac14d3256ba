import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { armModel, gantryModel } from "./arm_models.ts";
import {
  buildFrameSystem,
  frameNames,
  type FramePart,
  transformBetween,
  transformPose,
} from "./frame_system.ts";
import { forwardKinematics, placeEnd } from "./kinematics.ts";
import {
  composePoses,
  IDENTITY_POSE,
  type Pose,
  poseAt,
  posesAlmostEqual,
  toPose,
  transformPoint,
} from "./pose.ts";
import { randomFrom } from "./random.ts";

function part(name: string, parent: string, pose: Pose = IDENTITY_POSE): FramePart {
  return { name, parent, pose };
}

function origin(referenceFrame: string) {
  return { referenceFrame, pose: IDENTITY_POSE };
}

const table = part("table", "world", { ...poseAt(1000, 0, 500), theta: 90 });
const cup = part("cup", "table", poseAt(100, 0, 10));
const camera = part("camera", "world", { ...poseAt(0, 0, 2000), oZ: -1 });

Deno.test("transformPose: converts poses between fixed frames", () => {
  const system = buildFrameSystem([cup, camera, table]);
  assertEquals(system.parts.map(({ name }) => name), ["camera", "table", "cup"]);
  const inWorld = transformPose(system, origin("cup"), "world");
  assertEquals(inWorld.referenceFrame, "world");
  assert(posesAlmostEqual(inWorld.pose, { ...poseAt(1000, 100, 510), theta: 90 }));
  assert(posesAlmostEqual(transformPose(system, origin("cup"), "table").pose, cup.pose));
  // The camera looks down, turned about Y: its -X is the world's +X.
  const seen = transformPose(system, origin("cup"), "camera").pose;
  assertAlmostEquals(Math.hypot(seen.x + 1000, seen.y - 100, seen.z - 1490), 0, 1e-9);
  assert(
    posesAlmostEqual(transformPose(system, { referenceFrame: "camera", pose: seen }, "").pose, inWorld.pose),
  );
  assert(posesAlmostEqual(transformPose(system, origin("cup"), "cup").pose, IDENTITY_POSE));
  assertAlmostEquals(
    transformPoint(transformBetween(system, "table", "world"), { x: 1, y: 0, z: 0 }).y,
    1,
    1e-9,
  );
});

Deno.test("transformPose: a part attached to an arm's link moves with the link", () => {
  const kinematics = armModel("ur5e", "arm");
  const system = buildFrameSystem([
    part("sticker", "arm:upper_arm_link", poseAt(50, 0, 0)),
    part("nowhere", "arm:no_such_link"),
    part("lost", "table:leg"),
    { ...part("arm", "world", poseAt(0, 0, 700)), kinematics },
    table,
  ]);
  assertEquals(system.unlinked, ["nowhere", "lost"]);
  const joints = [90, -45, 30, 0, 0, 0];
  const inputs = new Map([["arm", joints]]);
  const at = (frame: string) => transformPose(system, origin(frame), "world", { inputs }).pose;
  const link = kinematics.frames.findIndex(({ id }) => id === "upper_arm_link");
  const expected = composePoses(poseAt(0, 0, 700), toPose(placeEnd(kinematics, joints, link)));
  assert(posesAlmostEqual(at("arm:upper_arm_link"), expected));
  assert(posesAlmostEqual(at("sticker"), composePoses(expected, poseAt(50, 0, 0))));
});

Deno.test("transformPose: a part on an arm moves with its end, a part on its origin does not", () => {
  const kinematics = armModel("xarm6", "arm");
  const system = buildFrameSystem([
    part("pad", "arm_origin", poseAt(0, 50, 0)),
    part("gripper", "arm", poseAt(0, 0, 120)),
    { ...part("arm", "world", poseAt(0, 0, 700)), kinematics },
  ]);
  assertEquals(system.unlinked, []);
  assertEquals(frameNames(system).slice(0, 3), ["world", "arm_origin", "arm"]);
  const joints = [10, 20, -30, 40, 50, 60];
  const inputs = new Map([["arm", joints]]);
  const end = composePoses(poseAt(0, 0, 700), forwardKinematics(kinematics, joints));
  const at = (frame: string) => transformPose(system, origin(frame), "world", { inputs }).pose;
  assert(posesAlmostEqual(at("arm"), end));
  assert(posesAlmostEqual(at("arm_origin"), poseAt(0, 0, 700)));
  assert(posesAlmostEqual(at("pad"), poseAt(0, 50, 700)));
  assert(posesAlmostEqual(at("gripper"), composePoses(end, poseAt(0, 0, 120))));
  assert(
    posesAlmostEqual(
      transformPose(system, origin("arm"), "arm_origin").pose,
      forwardKinematics(kinematics, [0, 0, 0, 0, 0, 0]),
    ),
  );
  assertThrows(
    () => transformPose(system, origin("arm"), "world", { inputs: new Map([["arm", [1]]]) }),
    SvcError,
    "wanted 6",
  );
});

Deno.test("transformPose: an arm on a gantry moves with the gantry", () => {
  const system = buildFrameSystem([
    { ...part("arm", "gantry"), kinematics: armModel("fake", "arm") },
    {
      ...part("gantry", "world", { ...IDENTITY_POSE, theta: 90 }),
      kinematics: gantryModel("gantry", [1000]),
    },
  ]);
  const inputs = new Map([["gantry", [250]]]);
  const { pose } = transformPose(system, origin("arm"), "world", { inputs });
  assert(posesAlmostEqual(pose, { ...poseAt(0, 750, 300), theta: 90 }));
});

Deno.test("buildFrameSystem: leaves out parts without a valid parent, with a warning", () => {
  const system = buildFrameSystem([
    table,
    part("world", "table"),
    part("lost", ""),
    part("orphan", "nobody"),
    part("a", "b"),
    part("b", "a"),
    part("self", "self"),
    part("table", "world"),
  ]);
  assertEquals(system.parts, [table]);
  assertEquals(system.unlinked, ["orphan", "a", "b", "self"]);
  assertEquals(system.warnings, [
    'frame of world is named "world", which is the name of the root, left out',
    "frame of lost has no parent, left out",
    "frame of table has the name of another part, left out",
    "frame of orphan is not linked to the world: nothing leads there from its parent nobody",
    "frame of a is not linked to the world: nothing leads there from its parent b",
    "frame of b is not linked to the world: nothing leads there from its parent a",
    "frame of self is not linked to the world: nothing leads there from its parent self",
  ]);
});

Deno.test("transformPose: an unknown frame is an error that lists the known frames", () => {
  const system = buildFrameSystem([table, cup]);
  const error = assertThrows(
    () => transformPose(system, origin("cip"), "world"),
    SvcError,
    'transforming from cip to world: frame with name "cip" not in frame system, known are world, table, cup',
  );
  assertEquals(error.code, "unknown");
  assertThrows(() => transformPose(system, origin("cup"), "moon"), SvcError, '"moon" not in frame system');
  assertThrows(() => transformPose(system, origin(""), "world"), SvcError, '"" not in frame system');
});

Deno.test("transformPose: supplemental frames apply to a single call", () => {
  const system = buildFrameSystem([table]);
  const supplemental = [part("spoon", "plate", poseAt(0, 5, 0)), part("plate", "table", poseAt(0, 0, 20))];
  const { pose } = transformPose(system, origin("spoon"), "table", { supplemental });
  assert(posesAlmostEqual(pose, poseAt(0, 5, 20)));
  assertThrows(
    () => transformPose(system, origin("spoon"), "table"),
    SvcError,
    '"spoon" not in frame system',
  );
  const wrong = (one: FramePart, message: string) => {
    const ask = () => transformPose(system, origin("table"), "world", { supplemental: [one] });
    assertEquals(assertThrows(ask, SvcError, message).code, "invalid_argument");
  };
  wrong(part("fork", "drawer"), "fork is not linked to the world");
  wrong(part("fork", "drawer"), "known are world, table");
  wrong(part("table", "world"), "table has the name of another part");
  wrong(part("fork", ""), "fork has no parent");
});

Deno.test("buildFrameSystem: the order of the parts does not matter", () => {
  const parts = Array.from(
    { length: 60 },
    (_, i) => part(`p${i}`, i === 0 ? "world" : `p${(i - 1) >> 1}`, poseAt(i, 1, 0)),
  );
  const random = randomFrom(3);
  const shuffled = parts.map((one) => ({ one, key: random() })).sort((a, b) => a.key - b.key).map(({ one }) =>
    one
  );
  const sorted = buildFrameSystem(parts).parts;
  assertEquals(buildFrameSystem(shuffled).parts, sorted);
  const seen = new Set(["world"]);
  for (const { name, parent } of sorted) {
    assert(seen.has(parent), `${name} stands before ${parent}`);
    seen.add(name);
  }
});

Deno.test("buildFrameSystem: handles a chain of 20,000 frames without recursion", () => {
  const parts = Array.from(
    { length: 20_000 },
    (_, i) => part(`p${i}`, i === 0 ? "world" : `p${i - 1}`, poseAt(1, 0, 0)),
  );
  const system = buildFrameSystem(parts);
  assertAlmostEquals(transformPose(system, origin("p19999"), "world").pose.x, 20_000, 1e-6);
});
