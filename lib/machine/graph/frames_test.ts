import { assert, assertAlmostEquals, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { readPcd, writePcd } from "../../geometry/cloud/pcd.ts";
import { createCloud } from "../../geometry/cloud/point_cloud.ts";
import { IDENTITY_POSE, poseAt } from "../../geometry/pose.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Component } from "../../resource/resource.ts";
import { type Bench, bench, component } from "../../../tests/support/machine_bench.ts";
import type { RemoteConfig } from "../config/config.ts";
import { remoteFrames } from "./remote_frames.ts";

const BALL = { type: "sphere", radiusMm: 7 } as const;

const at = (parent: string, x: number, more: JsonObject = {}): JsonObject => ({
  frame: { parent, translation: { x, y: 0, z: 0 }, ...more },
});

/** An arm 100 mm along x, a camera 10 mm on from its end (500, 0, 300), a table and something nowhere. */
const MACHINE: JsonObject = {
  components: [
    component("generic", "cam", at("a", 10)),
    component("arm", "a", at("world", 100)),
    component(
      "generic",
      "table",
      at("world", -5, { id: "desk", geometry: { type: "box", x: 1, y: 2, z: 3 } }),
    ),
    component("generic", "adrift", at("nowhere", 0)),
    component("generic", "bodiless"),
  ],
};

async function placeOf({ robot }: Bench, name: string, frame = ""): Promise<number[]> {
  const { pose } = await robot.getPose({ componentName: name, destinationFrame: frame });
  assertEquals(pose!.referenceFrame, frame || "world");
  const { x, y, z } = pose!.pose!;
  return [x, y, z].map((mm) => Math.round(mm * 1000) / 1000 + 0);
}

Deno.test("GetPose: a component on an arm moves with the arm's joints", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  assertEquals(await placeOf(machine, "cam"), [610, 0, 300]);
  machine.joints.set("a", 90);
  assertEquals(await placeOf(machine, "cam"), [600, 10, 300]);
  assertEquals(await placeOf(machine, "cam", "desk"), [605, 10, 300]);
  assertEquals(await placeOf(machine, "a_origin"), [100, 0, 0]);
  const { pose } = await machine.robot.transformPose({
    source: { referenceFrame: "cam", pose: { x: 1, y: 0, z: 0, oZ: 1 } },
    destination: "world",
  });
  assertAlmostEquals(pose!.pose!.y, 11);
  assertAlmostEquals(pose!.pose!.theta, 90);
  await machine.close();
});

Deno.test("Frames.frameOf: a resource's frame has its own name, or the resource's", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  const frameOf = (type: string, name: string) =>
    machine.machine.frames.frameOf(ResourceName.of(`rdk:component:${type}`, name));
  assertEquals([frameOf("generic", "cam"), frameOf("generic", "table"), frameOf("arm", "a")], [
    ...["cam", "desk", "a"],
  ]);
  assertEquals([frameOf("generic", "bodiless"), frameOf("motor", "cam")], [undefined, undefined]);
  await machine.close();
});

Deno.test("GetPose: an arm whose joints cannot be read fails only the frames attached to it", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  machine.faults.add("a");
  assertEquals(await placeOf(machine, "desk"), [-5, 0, 0]);
  assertEquals(await placeOf(machine, "a_origin"), [100, 0, 0]);
  const error = await assertRejects(() => placeOf(machine, "cam"), SvcError);
  assertEquals([error.code, error.message], [
    "unavailable",
    "reading the joints of rdk:component:arm/a: no answer",
  ]);
  await machine.close();
});

Deno.test("GetPose: an arm without kinematics is left out with its children, and logged once", async () => {
  const machine = bench();
  await machine.apply({
    components: [
      component("arm", "a", { ...at("world", 100), attributes: { broken: true } }),
      component("generic", "cam", at("a", 10)),
      component("generic", "table", at("world", 0)),
    ],
  });
  for (let time = 0; time < 2; time++) assertEquals(await placeOf(machine, "table"), [0, 0, 0]);
  const warnings = machine.records.filter(({ logger, level }) =>
    logger === "rdk.framesystem" && level === "warn"
  );
  assertEquals(warnings.length, 2);
  assertStringIncludes(
    warnings[0].message,
    "the frame of rdk:component:arm/a is ignored: its kinematics are not",
  );
  assertStringIncludes(warnings[1].message, "frame of cam is not linked to the world");
  const error = await assertRejects(() => placeOf(machine, "cam"), SvcError);
  assertEquals(error.code, "unknown");
  assertStringIncludes(error.message, 'frame with name "cam" not in frame system, known are world, table');
  await machine.close();
});

Deno.test("FrameSystemConfig: lists the linked parts, parents first, with shapes and kinematics", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  const { frameSystemConfigs } = await machine.robot.frameSystemConfig({
    supplementalTransforms: [{
      referenceFrame: "tip",
      poseInObserverFrame: { referenceFrame: "cam", pose: { x: 1 } },
    }],
  });
  const parts = frameSystemConfigs.map(({ frame, kinematics }) => {
    const { referenceFrame, poseInObserverFrame, physicalObject } = frame!;
    return [
      referenceFrame,
      poseInObserverFrame!.referenceFrame,
      physicalObject?.geometryType.case,
      kinematics?.name ?? kinematics,
    ];
  });
  assertEquals(parts, [
    ["a", "world", undefined, "fake"],
    ["desk", "world", "box", undefined],
    ["cam", "a", "sphere", undefined],
    ["tip", "cam", undefined, undefined],
  ]);
  assert(Array.isArray(frameSystemConfigs[0].kinematics?.joints));
  await machine.close();
});

Deno.test("a remote's part has all the shapes that its component reports", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  const camera = machine.machine.find("rdk:component:generic", "cam") as Component;
  const ball = (x: number) => ({ center: poseAt(x, 0, 0), label: `b${x}`, shape: BALL });
  camera.getGeometries = () => Promise.resolve([ball(1), ball(2), ball(3)]);
  const { frameSystemConfigs } = await machine.robot.frameSystemConfig({});
  const frame = { parent: "world", pose: IDENTITY_POSE };
  const remote = { name: "far", prefix: "r-", frame } as RemoteConfig;
  const problems: string[] = [];
  const placed = remoteFrames(remote, frameSystemConfigs, (problem) => problems.push(problem));
  const part = placed.find(({ part }) => part.name === "r-cam")!.part;
  assertEquals([part.geometry, part.moreGeometries, problems], [ball(1), [ball(2), ball(3)], []]);
  await machine.close();
});

Deno.test("TransformPose: uses supplemental frames for its request alone, and refuses misplaced ones", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  const source = { referenceFrame: "tip", pose: { oZ: 1 } };
  const tip = (parent: string, name = "tip") => ({
    referenceFrame: name,
    poseInObserverFrame: { referenceFrame: parent, pose: { x: 1, oZ: 1 } },
  });
  machine.joints.set("a", 90);
  const { pose } = await machine.robot.transformPose({
    source,
    destination: "world",
    supplementalTransforms: [tip("cam")],
  });
  assertAlmostEquals(pose!.pose!.y, 11);
  const refused: [object, string][] = [
    [{ source, destination: "world" }, 'frame with name "tip" not in frame system'],
    [{ source, destination: "world", supplementalTransforms: [tip("nothing")] }, "not linked to the world"],
    [
      { source, destination: "world", supplementalTransforms: [tip("cam", "")] },
      'frame with name "" cannot be used',
    ],
    [
      { source, destination: "world", supplementalTransforms: [{ referenceFrame: "tip" }] },
      "pose in frame was nil",
    ],
    [{ destination: "world" }, "pose in frame was nil"],
  ];
  for (const [request, message] of refused) {
    await assertRejects(() => machine.robot.transformPose(request), SvcError, message);
  }
  await assertRejects(() => machine.robot.getPose({}), SvcError, "must provide component name");
  await machine.close();
});

Deno.test("TransformPCD: transforms the points of a cloud, in metres, to another frame", async () => {
  const machine = bench();
  await machine.apply(MACHINE);
  const one = (value: number) => Float32Array.of(value);
  const pointCloudPcd = writePcd(createCloud({ x: one(1), y: one(2), z: one(3) }));
  const answer = await machine.robot.transformPCD({ pointCloudPcd, source: "cam" });
  const { x, y, z } = readPcd(answer.pointCloudPcd);
  assertEquals([x[0], y[0], z[0]].map((metres) => Math.round(metres * 1e6) / 1e6), [1.61, 2, 3.3]);
  await assertRejects(
    () => machine.robot.transformPCD({ pointCloudPcd }),
    SvcError,
    "must provide name of point cloud origin",
  );
  await machine.close();
});
