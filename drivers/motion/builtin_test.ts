import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Arm } from "../../lib/api/actuators/arm.ts";
import { ArmApi } from "../../lib/api/actuators/arm.ts";
import { GantryApi } from "../../lib/api/actuators/gantry.ts";
import { GenericApi } from "../../lib/api/actuators/generic.ts";
import { GripperApi } from "../../lib/api/actuators/gripper.ts";
import {
  type Constraints,
  type Motion,
  MotionApi,
  type Movement,
  type WorldState,
} from "../../lib/api/services/motion.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import type { Geometry } from "../../lib/geometry/geometry.ts";
import { type Pose, poseAt, posesAlmostEqual } from "../../lib/geometry/pose.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Machine } from "../../lib/machine/graph/machine.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { FakeArm } from "../arm/fake.ts";
import { FakeGantry } from "../gantry/fake.ts";
import { FakeGeneric } from "../generic/fake.ts";
import { FakeGripper } from "../gripper/fake.ts";
import { BuiltinMotion } from "./builtin.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";

const APIS = [ArmApi, GantryApi, GenericApi, GripperApi, MotionApi];
const registry = new Registry(APIS, [FakeArm, FakeGantry, FakeGeneric, FakeGripper, BuiltinMotion]);

const part = (
  type: string,
  name: string,
  parent: string,
  frame: JsonObject = {},
  attributes: JsonObject = {},
) => ({
  name,
  api: `rdk:component:${type}`,
  model: "fake",
  attributes,
  frame: { parent, ...frame },
});
const at = (x: number, y: number, z: number): JsonObject => ({ translation: { x, y, z } });
const block = (x: number, y: number, z: number): JsonObject => ({ geometry: { type: "box", x, y, z } });

/** An arm on a table, with a gripper on its end. */
const CELL: readonly JsonObject[] = [
  part("arm", "a", "world", {}, { "arm-model": "ur5e" }),
  part("gripper", "g", "a", { ...at(0, 0, 100), ...block(80, 80, 100) }),
  part("generic", "table", "world", { ...at(0, 0, -20), ...block(2000, 2000, 40) }),
];

const DOWN: Pose = { ...poseAt(450, 0, 300), oZ: -1 };
const START = [0, -120, -90, -60, 90, 0];

interface Bench {
  readonly machine: Machine;
  readonly motion: Motion;
  readonly arm: Arm;
  /** The pose of the gripper. */
  place(): Promise<Pose>;
}

async function withCell(
  work: (bench: Bench) => Promise<void>,
  more: readonly JsonObject[] = [],
  services: readonly JsonObject[] = [],
): Promise<void> {
  const clock = new SystemClock();
  const host = new FakeHost();
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host });
  const json = { components: [...CELL, ...more], services };
  const { config, problems } = await decodeConfig(json, registry, host);
  assertEquals(problems, []);
  await machine.apply(config);
  assertEquals([...machine.nodes].flatMap(({ error }) => error ?? []), []);
  const motion = machine.find(MotionApi.name, "builtin") as Motion;
  const arm = machine.find(ArmApi.name, "a") as Arm;
  await arm.moveToJointPositions(START);
  try {
    await work({ machine, motion, arm, place: async () => (await motion.getPose("g", "", [])).pose });
  } finally {
    await machine.close();
  }
}

function to(
  pose: Pose,
  { world = {}, constraints = {}, component = "g" }: {
    world?: Partial<WorldState>;
    constraints?: Partial<Constraints>;
    component?: string;
  } = {},
): Movement {
  return {
    componentName: component,
    destination: { referenceFrame: "world", pose },
    worldState: { obstacles: [], transforms: [], ...world },
    constraints: { linear: [], pseudolinear: [], orientation: [], allowedCollisions: [], ...constraints },
  };
}

function obstacle(center: Pose, [x, y, z]: readonly number[], label = "crate"): Partial<WorldState> {
  const geometry: Geometry = { center, label, shape: { type: "box", dimsMm: { x, y, z } } };
  return { obstacles: [{ referenceFrame: "world", geometries: [geometry] }] };
}

async function refusal(run: Promise<unknown>): Promise<string> {
  const { code, message } = await assertRejects(() => run, SvcError);
  return `${code}: ${message}`;
}

Deno.test("motion: a builtin service exists by default and survives changes of other resources", () =>
  withCell(async ({ machine, motion }) => {
    const apply = async (components: readonly JsonObject[], services: readonly JsonObject[] = []) => {
      const { config } = await decodeConfig(
        { components: [...components], services: [...services] },
        registry,
        {
          env: () => undefined,
        },
      );
      await machine.apply(config);
    };
    assertEquals(machine.names.map(({ full }) => full).at(-1), "rdk:service:motion/builtin");
    await apply([]);
    assert(machine.find(MotionApi.name, "builtin") === motion);
    const own = { api: MotionApi.name, model: "builtin", attributes: { collision_buffer_mm: 5 } };
    await apply([], [own]);
    assert(machine.find(MotionApi.name, "builtin") !== motion);
    await apply([], [{ ...own, name: "mover" }]);
    assertEquals(machine.names.map(({ short }) => short), ["mover"]);
  }));

Deno.test("motion: a gripper on an arm reaches its pose, and a pose that touches the table is refused", () =>
  withCell(async ({ motion, place }) => {
    assertEquals(await motion.move(to(DOWN)), true);
    assert(posesAlmostEqual(await place(), DOWN, { mm: 0.1, deg: 0.1 }));
    const logged = await refusal(motion.move(to({ ...DOWN, z: -60 })));
    assert(/^failed_precondition: moving a to .* would touch .*table/.test(logged), logged);
    assert(posesAlmostEqual(await place(), DOWN, { mm: 0.1, deg: 0.1 }));
  }));

Deno.test("motion: the path goes around an obstacle, and a linear constraint refuses it", () =>
  withCell(async ({ motion, place }) => {
    await motion.move(to({ ...DOWN, y: -350 }));
    const between = obstacle(poseAt(500, 0, 150), [400, 60, 300]);
    const goal = { ...DOWN, y: 350, z: 150 };
    const straight = { linear: [{ lineToleranceMm: 1 }] };
    const logged = await refusal(motion.move(to(goal, { world: between, constraints: straight })));
    assert(/% of the straight line there it would touch .*crate/.test(logged), logged);
    assertEquals(await motion.move(to(goal, { world: between })), true);
    assert(posesAlmostEqual(await place(), goal, { mm: 0.1, deg: 0.1 }));
  }));

Deno.test("motion: an obstacle that touches the gripper at the start is refused unless allowed", () =>
  withCell(async ({ motion, place }) => {
    await motion.move(to(DOWN));
    const around = obstacle(poseAt(450, 0, 320), [30, 30, 30]);
    const logged = await refusal(motion.move(to({ ...DOWN, z: 350 }, { world: around })));
    assertEquals(logged, "failed_precondition: moving g: g touches crate where it is now");
    const allowedCollisions = [{ frame1: "crate", frame2: "g" }];
    const allowed = { world: around, constraints: { allowedCollisions } };
    assertEquals(await motion.move(to({ ...DOWN, z: 400 }, allowed)), true);
    assertEquals(Math.round((await place()).z), 400);
  }));

Deno.test("motion: a held object moves along and is checked for collisions", () =>
  withCell(async ({ motion }) => {
    await motion.move(to(DOWN));
    const shape = { type: "capsule", radiusMm: 10, lengthMm: 200 } as const;
    const pole = { center: poseAt(0, 0, 100), label: "", shape };
    const transforms = [{ name: "pole", parent: "g", pose: poseAt(0, 0, 0), geometry: pole }];
    const low = { ...DOWN, z: 150 };
    const logged = await refusal(motion.move(to(low, { world: { transforms } })));
    assert(logged.includes("table with pole") || logged.includes("pole with table"), logged);
    assertEquals(await motion.move(to(low)), true);
  }));

Deno.test("motion: a component that no arm's end carries is refused with the reason", () =>
  withCell(async ({ motion }) => {
    const refused = (component: string) => refusal(motion.move(to(DOWN, { component })));
    const wanted = "wanted an arm, or a part attached to the end of one";
    assertEquals(
      await refused("table"),
      `failed_precondition: moving table: it is carried by no joints, ${wanted}`,
    );
    assertEquals(
      await refused("lamp"),
      `failed_precondition: moving lamp: it is carried by rdk:component:gantry/rail, ${wanted}`,
    );
    assertEquals(
      await refused("ring"),
      "unimplemented: moving ring: it is attached to forearm_link of a, wanted its end",
    );
    assertEquals((await refused("a_origin")).split(":")[0], "failed_precondition");
    const mesh = {
      center: poseAt(0, 0, 0),
      label: "bunny",
      shape: { type: "mesh", contentType: "ply", mesh: new Uint8Array() },
    } as const;
    const world = { obstacles: [{ referenceFrame: "world", geometries: [mesh] }] };
    assertEquals(
      await refusal(motion.move(to(DOWN, { world }))),
      'unimplemented: geometry "bunny" is a mesh, wanted a box, sphere or capsule',
    );
    assert(
      (await refusal(motion.move(to(DOWN, { constraints: { linear: [{ lineToleranceMm: -1 }] } }))))
        .startsWith("invalid_argument"),
    );
  }, [
    part("gantry", "rail", "world", at(0, 3000, 0)),
    part("generic", "lamp", "rail"),
    part("generic", "ring", "a:forearm_link"),
  ]));

Deno.test("motion: moveOnMap and moveOnGlobe are unimplemented, and there are no plans", () =>
  withCell(async ({ motion }) => {
    const where = { componentName: "b", slamServiceName: "s", destination: DOWN, obstacles: [] };
    assertEquals(
      await refusal(motion.moveOnMap(where)),
      "unimplemented: rdk:service:motion/builtin does not support MoveOnMap: it moves arms, and parts attached " +
        "to their ends; it has no planner for bases",
    );
    const place = { latitude: 0, longitude: 0 };
    const globe = {
      componentName: "b",
      movementSensorName: "m",
      destination: place,
      obstacles: [],
      boundingRegions: [],
    };
    assert((await refusal(motion.moveOnGlobe(globe))).startsWith("unimplemented: "));
    assertEquals(await motion.listPlanStatuses(false), []);
    assert((await refusal(motion.stopPlan("b"))).startsWith("unknown: there is no plan of b"));
  }));

Deno.test("motion: a new move replaces the running move, and an aborted call stops the arm", () =>
  withCell(async ({ motion, arm }) => {
    const { promise: moving, resolve: begun } = Promise.withResolvers<void>();
    let stops = 0;
    const stop = arm.stop.bind(arm);
    arm.stop = () => (stops++, stop());
    const go = arm.moveThroughJointPositions.bind(arm);
    arm.moveThroughJointPositions = (_positions, _options, call) => {
      begun();
      return new Promise((_, reject) =>
        call!.signal!.addEventListener("abort", () => reject(call!.signal!.reason))
      );
    };
    const first = motion.move(to(DOWN));
    await moving;
    arm.moveThroughJointPositions = go;
    const second = motion.move(to({ ...DOWN, z: 350 }));
    assertEquals([await first, await second, stops], [false, true, 0]);

    const gone = new AbortController();
    arm.moveThroughJointPositions = (_positions, _options, call) => {
      gone.abort(new SvcError("canceled", "gone"));
      return Promise.reject(call!.signal!.reason);
    };
    await assertRejects(() => motion.move(to(DOWN), { signal: gone.signal }), SvcError, "gone");
    assertEquals(stops, 1);
  }));

Deno.test("motion: an arm that cannot read its joints fails every move", () =>
  withCell(async ({ motion, arm }) => {
    arm.getJointPositions = () => Promise.reject(new SvcError("unavailable", "no answer"));
    assertEquals(
      await refusal(motion.move(to(DOWN))),
      "unavailable: reading the joints of rdk:component:arm/a: no answer",
    );
  }));

/** The service with ranges for joints, in radians. */
function ranged(input_range_override: JsonObject): readonly JsonObject[] {
  return [{ api: MotionApi.name, attributes: { input_range_override } }];
}

Deno.test("motion: input_range_override keeps joints in their ranges, named by number or by name", async () => {
  const start = [0, -100, 100, -90, -90, 0];
  const limit = (180 / Math.PI) * 0.2;
  for (const joint of ["0", "shoulder_pan_joint"]) {
    const services = ranged({ a: { [joint]: { min: -0.2, max: 0.2 } } });
    await withCell(
      async ({ motion, arm, place }) => {
        await arm.moveToJointPositions(start);
        // To the side, where only the first joint leads directly.
        const beside = await place();
        const away = { ...beside, x: beside.y - 100, y: Math.abs(beside.x) };
        for (const goal of [away, { ...away, y: -away.y }, { ...beside, z: beside.z - 20 }]) {
          await motion.move(to(goal)).catch((error) =>
            assertEquals(SvcError.from(error).code, "failed_precondition")
          );
          const [first] = await arm.getJointPositions();
          assert(Math.abs(first) <= limit + 1e-6, `${joint}: ${first}`);
        }
      },
      [],
      services,
    );
  }
});

Deno.test("motion: an unknown arm or joint in input_range_override is an error of the call", async () => {
  const range = { min: -0.2, max: 0.2 };
  const cases: [JsonObject, RegExp][] = [
    [{ b: { 0: range } }, /^unknown: input_range_override: there is no frame "b"$/],
    [
      { a: { 6: range } },
      /^unknown: input_range_override: a has no joint "6", wanted a number from 0 to 5 or one of/,
    ],
    [{ a: { elbow: range } }, /a has no joint "elbow"/],
    [{ table: { 0: range } }, /table has no joints/],
  ];
  for (const [ranges, expected] of cases) {
    await withCell(
      async ({ motion, place }) => {
        const logged = await refusal(motion.move(to(await place())));
        assert(expected.test(logged), logged);
      },
      [],
      ranged(ranges),
    );
  }
});

Deno.test("motion: an arm that somebody else has moved during the planning stays where it is", () =>
  withCell(async ({ motion, arm }) => {
    const bent = START.with(0, 30);
    const read = arm.getJointPositions.bind(arm);
    let reads = 0;
    Object.assign(arm, {
      getJointPositions: async () => {
        const here = await read();
        if (reads++ === 0) await arm.moveToJointPositions(bent);
        return here;
      },
    });
    assertEquals(
      await refusal(motion.move(to(DOWN))),
      "failed_precondition: moving g: joint 0 of a went from 0 to 30 while the way was planned; try again",
    );
    assertEquals(await read(), bent);
    assertEquals(await motion.move(to(DOWN)), true);
  }));

Deno.test("motion: a gripper that reports shapes and no kinematics is rigid, and all of its shapes count", () =>
  withCell(async ({ machine, motion, arm }) => {
    const shapes: Geometry[] = [
      { center: poseAt(0, 0, 0), label: "palm", shape: { type: "sphere", radiusMm: 10 } },
      {
        center: poseAt(0, 0, 150),
        label: "finger",
        shape: { type: "box", dimsMm: { x: 20, y: 20, z: 200 } },
      },
    ];
    Object.assign(machine.find(GripperApi.name, "bare"), {
      getKinematics: () => Promise.reject(new SvcError("unimplemented", "an older module")),
      getGeometries: () => Promise.resolve(shapes),
    });
    const world = obstacle(poseAt(450, 0, 150), [100, 100, 100]);
    const blocked = await refusal(motion.move(to(DOWN, { component: "bare", world })));
    assert(blocked.includes("it would touch crate with bare:finger"), blocked);
    assertEquals(await arm.getJointPositions(), START);
    assertEquals(await motion.move(to(DOWN, { component: "bare" })), true);
    const allowedCollisions = [{ frame1: "bare", frame2: "crate" }];
    assertEquals(
      await motion.move(to(DOWN, { component: "bare", world, constraints: { allowedCollisions } })),
      true,
    );
  }, [part("gripper", "bare", "a", at(0, 0, 100))]));
