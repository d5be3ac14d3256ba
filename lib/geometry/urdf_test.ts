import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { forwardKinematics, modelGeometries, modelWarnings, parseKinematics } from "./kinematics.ts";
import { poseAt, posesAlmostEqual } from "./pose.ts";

const ROBOT = `<?xml version="1.0"?>
<!-- two turns, a slide and a fixed tool -->
<robot name="lifter">
  <link name="world"/>
  <link name="base"><collision><origin xyz="0 0 0.05"/><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
  <link name="arm"><collision><geometry><cylinder radius="0.02" length="0.3"/></geometry></collision></link>
  <link name="wrist"/>
  <link name="carriage"><collision><geometry><sphere radius="0.01"/></geometry></collision></link>
  <link name="tool"><collision><geometry><mesh filename="tool.stl"/></geometry></collision></link>
  <joint name="mount" type="fixed"><parent link="world"/><child link="base"/></joint>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="arm"/>
    <origin xyz="0 0 0.1" rpy="0 0 1.5707963267948966"/>
    <axis xyz="0 0 1"/><limit lower="-1.5707963267948966" upper="3.141592653589793" effort="1" velocity="1"/>
  </joint>
  <joint name="roll" type="continuous"><parent link="arm"/><child link="wrist"/><origin xyz="0.3 0 0"/></joint>
  <joint name="lift" type="prismatic">
    <parent link="wrist"/><child link="carriage"/><axis xyz="0 0 1"/><limit lower="0" upper="0.5"/>
  </joint>
  <joint name="flange" type="fixed"><parent link="carriage"/><child link="tool"/><origin xyz="0 0 0.02"/></joint>
</robot>`;

function parse(xml: string) {
  return parseKinematics(new TextEncoder().encode(xml), "urdf");
}

Deno.test("URDF: converts metres and radians to millimetres and degrees", async () => {
  const model = await parse(ROBOT);
  assertEquals(model.name, "lifter");
  assertEquals(model.source.format, "urdf");
  assertEquals(model.config.kinematic_param_type, "SVA");
  assertEquals(model.joints, [
    { id: "shoulder", type: "revolute", min: -90, max: 180 },
    { id: "roll", type: "revolute", min: -36_000, max: 36_000 },
    { id: "lift", type: "prismatic", min: 0, max: 500 },
  ]);
  assert(posesAlmostEqual(forwardKinematics(model, [0, 0, 0]), { ...poseAt(0, 300, 120), theta: 90 }));
  assert(posesAlmostEqual(forwardKinematics(model, [-90, 0, 200]), poseAt(300, 0, 320)));
  // Rolled about X by 90 degrees, the lift moves along -Y.
  const rolled = forwardKinematics(model, [-90, 90, 200]);
  assert(Math.hypot(rolled.x - 300, rolled.y + 220, rolled.z - 100) < 1e-6);
});

Deno.test("URDF: reads each collision shape and leaves out meshes", async () => {
  const bodies = modelGeometries(await parse(ROBOT), [0, 0, 0]);
  assertEquals(bodies.map(({ label, shape }) => [label, shape]), [
    ["lifter:base", { type: "box", dimsMm: { x: 200, y: 200, z: 100 } }],
    ["lifter:arm", { type: "capsule", radiusMm: 20, lengthMm: 340 }],
    ["lifter:carriage", { type: "sphere", radiusMm: 10 }],
  ]);
  assert(posesAlmostEqual(bodies[0].center, poseAt(0, 0, 50)));
});

const moving = (name: string, type: string, ends: [string, string], inner: string) =>
  `<joint name="${name}" type="${type}"><parent link="${ends[0]}"/><child link="${
    ends[1]
  }"/>${inner}</joint>`;
const robot = (links: string[], ...joints: string[]) =>
  `<robot name="r">${links.map((name) => `<link name="${name}"/>`).join("")}${joints.join("")}</robot>`;

Deno.test("URDF: a joint and a link may share a name, whatever their kinds", async () => {
  const turn = '<axis xyz="0 0 1"/><limit lower="-1" upper="1"/>';
  const model = await parse(robot(
    ["base", "arm", "arm_link", "gripper", "tip"],
    moving("arm", "revolute", ["base", "arm"], `<origin xyz="0 0 0.1"/>${turn}`),
    moving("arm_origin", "fixed", ["arm", "arm_link"], '<origin xyz="0.2 0 0"/>'),
    moving("gripper", "fixed", ["arm_link", "gripper"], '<origin xyz="0.3 0 0"/>'),
    moving("tip", "prismatic", ["gripper", "tip"], '<axis xyz="1 0 0"/><limit lower="0" upper="1"/>'),
  ));
  assertEquals(model.joints.map(({ id }) => id), ["arm", "tip"]);
  assert(posesAlmostEqual(forwardKinematics(model, [0, 100]), poseAt(600, 0, 100)));
  assert(posesAlmostEqual(forwardKinematics(model, [90, 0]), { ...poseAt(0, 500, 100), theta: 90 }));
});

Deno.test("URDF: a joint that mimics one of the other kind moves in metres per radian, or radians per metre", async () => {
  const turn = '<axis xyz="0 0 1"/><limit lower="-3" upper="3"/>', slide = turn.replace("0 0 1", "1 0 0");
  const model = await parse(robot(
    ["base", "wheel", "rack"],
    moving("turn", "revolute", ["base", "wheel"], turn),
    moving(
      "rack",
      "prismatic",
      ["wheel", "rack"],
      `${slide}<mimic joint="turn" multiplier="0.02" offset="0.1"/>`,
    ),
  ));
  assertEquals(model.joints.map(({ id }) => id), ["turn"]);
  // Half a turn moves the rack by 0.02 m for each radian.
  assert(Math.abs(forwardKinematics(model, [180]).x + (100 + 20 * Math.PI)) < 1e-6);
  const screw = await parse(robot(
    ["base", "rack", "wheel", "tip"],
    moving("slide", "prismatic", ["base", "rack"], slide),
    moving("screw", "revolute", ["rack", "wheel"], `${turn}<mimic joint="slide" multiplier="10"/>`),
    moving(
      "copy",
      "continuous",
      ["wheel", "tip"],
      '<axis xyz="0 0 1"/><mimic joint="screw" multiplier="2"/>',
    ),
  ));
  // 10 mm turn the screw by 0.1 radian, and its copy twice as far.
  assert(Math.abs(forwardKinematics(screw, [10]).theta - 0.3 * 180 / Math.PI) < 1e-6);
});

Deno.test("URDF: white space and a byte order mark may stand before the declaration", async () => {
  for (const before of ["\n", "  \r\n\t", "\ufeff", "\ufeff\n"]) {
    assertEquals((await parse(before + ROBOT)).name, "lifter", JSON.stringify(before));
  }
});

Deno.test("URDF: a quaternion places a joint and a body as roll, pitch and yaw do", async () => {
  const quarter = Math.SQRT1_2;
  const placed = (origin: string) =>
    parse(
      `<robot name="r" version="1.1"><link name="a"/><link name="b"><collision><origin ${origin}/><geometry>
      <box size="0.1 0.2 0.3"/></geometry></collision></link>${
        moving("j", "fixed", ["a", "b"], `<origin xyz="0.1 0 0" ${origin}/>`)
      }</robot>`,
    );
  const cases: [string, string][] = [
    ["0 0 0 1", "0 0 0"],
    [`0 0 ${quarter} ${quarter}`, `0 0 ${Math.PI / 2}`],
    [`${quarter} 0 0 ${-quarter}`, `${-Math.PI / 2} 0 0`],
    ["0 2 0 2", `0 ${Math.PI / 2} 0`],
  ];
  for (const [quaternion, rpy] of cases) {
    const [found, wanted] = [await placed(`quat_xyzw="${quaternion}"`), await placed(`rpy="${rpy}"`)];
    assert(posesAlmostEqual(forwardKinematics(found, []), forwardKinematics(wanted, [])), quaternion);
    const [body, wantedBody] = [modelGeometries(found, [])[0], modelGeometries(wanted, [])[0]];
    assert(posesAlmostEqual(body.center, wantedBody.center), quaternion);
  }

  const refused: [string, string][] = [
    ['rpy="0 0 0" quat_xyzw="0 0 0 1"', "<origin> has rpy and quat_xyzw, wanted one of them"],
    ['quat_xyzw="0 0 1"', '<origin quat_xyzw="0 0 1">, wanted 4 numbers'],
    ['quat_xyzw="0 0 0 0"', "wanted a rotation"],
  ];
  for (const [origin, message] of refused) await assertRejects(() => placed(origin), SvcError, message);
});

Deno.test("URDF: a capsule is a body, whose length leaves out its round ends", async () => {
  const body = async (shape: string) => {
    const link = `<link name="a"><collision><geometry>${shape}</geometry></collision></link>`;
    return modelGeometries(await parse(`<robot name="r" version="1.1">${link}</robot>`), [])[0]?.shape;
  };
  assertEquals(await body('<capsule radius="0.05" length="0.5"/>'), {
    type: "capsule",
    radiusMm: 50,
    lengthMm: 600,
  });
  assertEquals(
    await body('<capsule radius="0.02" length="0.3"/>'),
    await body('<cylinder radius="0.02" length="0.3"/>'),
  );
  assertEquals(await body('<capsule radius="0.03" length="0"/>'), await body('<sphere radius="0.03"/>'));
});

Deno.test("URDF: every collision of a link is a body that moves with it", async () => {
  const collision = (shape: string, xyz = "0 0 0") =>
    `<collision><origin xyz="${xyz}"/><geometry>${shape}</geometry></collision>`;
  const sphere = (radius: number) => `<sphere radius="${radius}"/>`, mesh = '<mesh filename="arm.stl"/>';
  const model = await parse(`<robot name="r">
    <link name="base">${collision(sphere(0.1))}${collision(sphere(0.2), "0 0 1")}</link>
    <link name="arm">${collision(mesh)}${collision(sphere(0.3), "1 0 0")}${collision(sphere(0.4), "2 0 0")}${
    collision(sphere(0.5), "3 0 0")
  }</link><link name="arm_body"/>
    ${moving("turn", "revolute", ["base", "arm"], '<axis xyz="0 0 1"/><limit lower="-2" upper="2"/>')}${
    moving("tip", "fixed", ["arm", "arm_body"], '<origin xyz="4 0 0"/>')
  }</robot>`);
  assert(posesAlmostEqual(forwardKinematics(model, [90]), { ...poseAt(0, 4000, 0), theta: 90 }));

  const places = new Map(
    modelGeometries(model, [90]).map(({ label, shape, center }) => {
      const { x, y, z } = center;
      return [label, [
        shape.type === "sphere" ? shape.radiusMm : 0,
        ...[x, y, z].map((mm) => Math.round(mm) + 0),
      ]];
    }),
  );
  assertEquals(
    places,
    new Map([
      ["r:base", [100, 0, 0, 0]],
      ["r:base_body", [200, 0, 0, 1000]],
      ["r:arm", [300, 0, 1000, 0]],
      ["r:arm_body2", [400, 0, 2000, 0]],
      ["r:arm_body3", [500, 0, 3000, 0]],
    ]),
  );

  // The body that has no shape before it keeps the name of its link.
  const plain = await parse(
    `<robot name="r"><link name="a">${collision(mesh)}${collision(sphere(1))}</link></robot>`,
  );
  assertEquals(modelGeometries(plain, []).map(({ label }) => label), ["r:a"]);
});

Deno.test("URDF: joints whose limits are 0 to 0 are told", async () => {
  const limit = '<axis xyz="0 0 1"/><limit effort="1" velocity="1"/>';
  const model = await parse(robot(["a", "b"], moving("j", "revolute", ["a", "b"], limit)));
  assertEquals(modelWarnings(model), ["joint j of r cannot move: its limits are 0 to 0"]);
  assertEquals(modelWarnings(await parse(ROBOT)), []);
});

Deno.test("URDF: refuses files that are not a usable robot", async () => {
  const joint = (type: string, inner: string) =>
    `<robot><link name="a"/><link name="b"/><joint name="j" type="${type}">${inner}</joint></robot>`;
  const ends = '<parent link="a"/><child link="b"/>';
  const cases: [string, string][] = [
    ["", "reading URDF: "],
    ["not xml", "reading URDF: "],
    ["<robot><link></robot>", "reading URDF: "],
    ["<sdf/>", "found <sdf>, wanted <robot>"],
    ["<robot><link/></robot>", '<link name=""> has no name'],
    [joint("floating", ends), "joint j is of type floating"],
    [joint("revolute", ends), "joint j has no limit"],
    [joint("revolute", '<parent link="a"/>'), '<joint name="j"> has no child'],
    [joint("fixed", `${ends}<origin xyz="1 2"/>`), '<origin xyz="1 2">, wanted 3 numbers'],
    [joint("revolute", `${ends}<limit lower="x"/>`), '<limit lower="x">, wanted a number'],
    [joint("fixed", '<parent link="c"/><child link="b"/>'), "has parent c, which is not among"],
    [`<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><robot name="&b;"><link/></robot>`, "reading URDF: "],
    [`${"<robot>".repeat(20_000)}${"</robot>".repeat(20_000)}`, ""],
  ];
  for (const [xml, message] of cases) {
    if (message === "") assertEquals((await parse(xml)).joints, [], "deep nesting is only ignored");
    else assertEquals((await assertRejects(() => parse(xml), SvcError, message)).code, "invalid_argument");
  }
});
