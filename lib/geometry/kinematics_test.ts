import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { armModel } from "./arm_models.ts";
import { checkJoints, decodeSva, forwardKinematics, modelGeometries, parseSva } from "./kinematics.ts";
import { poseAt, posesAlmostEqual } from "./pose.ts";

const Z = { x: 0, y: 0, z: 1 };

function bytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
}

/** A column, a turn about Z, an arm of 100 mm, a slide along X, a tip. */
const crane = {
  name: "crane",
  kinematic_param_type: "SVA",
  links: [
    { id: "tip", parent: "slide", geometry: { r: 5, translation: { z: -10 } } },
    {
      id: "column",
      parent: "world",
      translation: { z: 50 },
      geometry: { x: 10, y: 10, z: 50, translation: { z: 25 } },
    },
    { id: "arm", parent: "turn", translation: { x: 100 } },
  ],
  joints: [
    { id: "slide", type: "prismatic", parent: "arm", axis: { x: 2 }, min: 0, max: 40 },
    { id: "turn", type: "revolute", parent: "column", axis: Z, min: -90, max: 90 },
  ],
};

Deno.test("parseSva: reads frames in any order and sorts joints from the base outwards", () => {
  const model = parseSva(bytes(crane));
  assertEquals(model.joints.map(({ id }) => id), ["turn", "slide"]);
  assertEquals(model.name, "crane");
  assertEquals<unknown>(model.config, crane);
  assertEquals(model.source, { format: "sva", bytes: bytes(crane) });
  assert(posesAlmostEqual(forwardKinematics(model, [0, 0]), poseAt(100, 0, 50)));
  assert(posesAlmostEqual(forwardKinematics(model, [90, 20]), { ...poseAt(0, 120, 50), theta: 90 }));
  assert(posesAlmostEqual(forwardKinematics(model, [180, 0]), { ...poseAt(-100, 0, 50), theta: 180 }));
  assertEquals(parseSva(bytes(crane), "other").name, "other");
});

Deno.test("modelGeometries: a link's body is relative to its parent and moves with it", () => {
  const model = decodeSva(crane);
  const bodies = modelGeometries(model, [90, 20]);
  assertEquals(bodies.map(({ label, shape }) => [label, shape.type]), [
    ["crane:column", "box"],
    ["crane:tip", "sphere"],
  ]);
  assert(posesAlmostEqual(bodies[0].center, poseAt(0, 0, 25)));
  assert(posesAlmostEqual(bodies[1].center, { ...poseAt(0, 120, 40), theta: 90 }));
});

Deno.test("checkJoints: refuses positions beyond the limits and a wrong number of joints", () => {
  const model = decodeSva(crane);
  checkJoints(model, [-90, 40]);
  assertThrows(
    () => checkJoints(model, [91, 0]),
    SvcError,
    "joint 0 (turn) of crane to 91 degrees, wanted from -90 to 90",
  );
  assertThrows(() => checkJoints(model, [0, NaN]), SvcError, "joint 1 (slide) of crane to NaN mm");
  assertThrows(() => checkJoints(model, [0]), SvcError, "1 joint positions for crane, wanted 2");
  assertThrows(() => forwardKinematics(model, [1, 2, 3]), SvcError, "wanted 2");
});

Deno.test("decodeSva: Denavit-Hartenberg rows turn about Z, then shift and tilt", () => {
  const row = { a: 100, d: 10, alpha: 90, min: -180, max: 180 };
  const model = decodeSva({
    kinematic_param_type: "DH",
    dhParams: [{ ...row, id: "one", parent: "world" }, { ...row, id: "two", parent: "one" }],
  }, "dh");
  assertEquals(model.joints.map(({ id }) => id), ["one_j", "two_j"]);
  // The second d goes along the tilted Z, which is -Y after the first row at 0 degrees.
  const end = forwardKinematics(model, [0, 0]);
  assertAlmostEquals(Math.hypot(end.x - 200, end.y + 10, end.z - 10), 0, 1e-9);
});

Deno.test("decodeSva: mimic joints follow their joint, through other mimic joints too", () => {
  const joint = { type: "prismatic", axis: { x: 1 }, min: 0, max: 10 };
  const model = decodeSva({
    name: "fingers",
    joints: [
      { ...joint, id: "a", parent: "world" },
      { ...joint, id: "b", parent: "a", mimic: { joint: "a", multiplier: 2, offset: 1 } },
      { ...joint, id: "c", parent: "b", mimic: { joint: "b", multiplier: 10 } },
    ],
  });
  assertEquals(model.joints.length, 1);
  assert(posesAlmostEqual(forwardKinematics(model, [3]), poseAt(3 + 7 + 70, 0, 0)));
});

Deno.test("decodeSva: a branching model needs output_frames", () => {
  const links = [
    { id: "palm", parent: "world" },
    { id: "left", parent: "palm", translation: { y: 5 } },
    { id: "right", parent: "palm", translation: { y: -5 } },
  ];
  assertThrows(() => decodeSva({ name: "hand", links }), SvcError, "ends in left, right, wanted one end");
  const model = decodeSva({ name: "hand", links, output_frames: ["palm"] });
  assert(posesAlmostEqual(forwardKinematics(model, []), poseAt(0, 0, 0)));
  assertThrows(() => decodeSva({ links, output_frames: ["thumb"] }), SvcError, "output frame thumb is not");
});

Deno.test("parseSva: refuses broken models with the problem", () => {
  const link = (id: string, parent: string) => ({ id, parent });
  const joint = { id: "j", type: "revolute", parent: "world", axis: Z, min: 0, max: 1 };
  const cases: [unknown, string][] = [
    ["{", "not JSON"],
    [[], "found an empty array, wanted an object"],
    [{ links: [{}] }, "links.0.id: missing required field"],
    [{ links: [link("a", "b")] }, "frame a has parent b, which is not among a"],
    [{ links: [link("a", "b"), link("b", "a")] }, "frames a, b go round in a circle"],
    [{ links: [link("a", "world"), link("a", "world")] }, "two frames named a"],
    [{ links: [link("world", "")] }, 'a frame named "world"'],
    [{ joints: [{ ...joint, axis: { x: 0 } }] }, "joints.0.axis: x, y and z are all 0"],
    [{ joints: [{ ...joint, axis: undefined }] }, "joints.0.axis: missing"],
    [{ joints: [{ ...joint, type: "helical" }] }, "joints.0.type"],
    [{ joints: [{ ...joint, min: 2 }] }, "joint j has min 2 above max 1"],
    [{ joints: [{ ...joint, mimic: { joint: "k" } }] }, "joint j mimics k, which is not"],
    [{ joints: [{ ...joint, mimic: { joint: "j" } }] }, "joint j mimics itself"],
    [{ kinematic_param_type: "XYZ" }, "kinematic_param_type"],
    [
      { links: Array.from({ length: 1001 }, (_, i) => link(`l${i}`, "world")) },
      "1001 frames, wanted at most 1000",
    ],
  ];
  for (const [config, message] of cases) {
    const error = assertThrows(() => parseSva(bytes(config), "arm"), SvcError, message);
    assertEquals(error.code, "invalid_argument");
    assert(error.message.startsWith("reading kinematics of arm: "), error.message);
  }
  assertThrows(() => parseSva(new Uint8Array(5 * 2 ** 20)), SvcError, "wanted at most 4194304");
});

Deno.test("decodeSva: an empty model is a fixed point", () => {
  const model = decodeSva({ name: "nothing" });
  assert(posesAlmostEqual(forwardKinematics(model, []), poseAt(0, 0, 0)));
  assertEquals(modelGeometries(model, []), []);
});

Deno.test("forwardKinematics: whole turns of the joints give the same pose", () => {
  const arm = armModel("ur5e");
  const joints = [10, -80, 70, 30, 20, 5];
  assert(
    posesAlmostEqual(forwardKinematics(arm, joints), forwardKinematics(arm, joints.map((deg) => deg - 360))),
  );
});
