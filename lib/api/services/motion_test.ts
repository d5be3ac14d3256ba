import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { poseAt } from "../../geometry/pose.ts";
import { ResourceName } from "../../resource/name.ts";
import { BaseResource, type Call } from "../../resource/resource.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { type Motion, MotionApi, type PlanHistory, type PlanStatus } from "./motion.ts";

const NAME = ResourceName.of(MotionApi.name, "m");

/** Records its calls, and has one plan. */
class Noting extends BaseResource implements Motion {
  readonly asked: unknown[] = [];
  readonly status: PlanStatus = { state: "failed", timeMs: 1_700_000_000_250, reason: "a wall" };
  readonly history: PlanHistory = {
    current: {
      id: "p2",
      executionId: "e1",
      componentName: "base",
      steps: [{ base: poseAt(1, 2, 3) }, { base: poseAt(4, 5, 6) }],
      status: this.status,
      history: [{ state: "in_progress", timeMs: 1_700_000_000_000, reason: undefined }],
    },
    replaced: [{
      id: "p1",
      executionId: "e1",
      componentName: "base",
      steps: [],
      status: this.status,
      history: [],
    }],
  };

  #note<T>(method: string, args: unknown, call: Call | undefined, answer: T): Promise<T> {
    this.asked.push([method, args, call?.extra]);
    return Promise.resolve(answer);
  }

  move: Motion["move"] = (args, call) => this.#note("move", args, call, true);
  moveOnMap: Motion["moveOnMap"] = (args, call) => this.#note("moveOnMap", args, call, "e1");
  moveOnGlobe: Motion["moveOnGlobe"] = (args, call) => this.#note("moveOnGlobe", args, call, "e2");
  getPose: Motion["getPose"] = (name, frame, supplemental, call) =>
    this.#note("getPose", [name, frame, supplemental], call, {
      referenceFrame: "world",
      pose: poseAt(7, 8, 9),
    });
  stopPlan: Motion["stopPlan"] = (name, call) => this.#note("stopPlan", name, call, undefined);
  listPlanStatuses: Motion["listPlanStatuses"] = (onlyActive, call) =>
    this.#note("listPlanStatuses", onlyActive, call, [
      { planId: "p2", executionId: "e1", componentName: "base", status: this.status },
    ]);
  getPlan: Motion["getPlan"] = (which, call) => this.#note("getPlan", which, call, this.history);
}

Deno.test("MotionApi: every argument and answer passes through client and server", async () => {
  const motion = new Noting(NAME);
  const table = new ServiceTable(new FakeClock());
  table.add(MotionApi.serve(() => motion));
  const channel = memoryChannel(table);
  const far = MotionApi.client(NAME, channel);
  const extra = { timeout: 5 };
  const ball = { center: poseAt(1, 0, 0), label: "ball", shape: { type: "sphere", radiusMm: 5 } } as const;
  const held = { name: "held", parent: "arm", pose: poseAt(0, 0, 1), geometry: ball };
  const movement = {
    componentName: "arm",
    destination: { referenceFrame: "table", pose: poseAt(1, 2, 3) },
    worldState: { obstacles: [{ referenceFrame: "table", geometries: [ball] }], transforms: [held] },
    constraints: {
      linear: [{ lineToleranceMm: 0.5, orientationToleranceDegs: 2 }],
      pseudolinear: [{ lineToleranceFactor: 0.25, orientationToleranceFactor: 0.125 }],
      orientation: [{ orientationToleranceDegs: 4, ignoreTheta: true }],
      allowedCollisions: [{ frame1: "a", frame2: "b" }],
    },
  };
  const configuration = {
    obstacleDetectors: [{ visionService: "v", camera: "c" }],
    positionPollingFrequencyHz: 1,
    obstaclePollingFrequencyHz: 2,
    planDeviationM: 3,
    linearMPerSec: 4,
    angularDegsPerSec: 5,
  };
  const map = {
    componentName: "base",
    slamServiceName: "slam",
    destination: poseAt(5, 6, 0),
    obstacles: [ball],
    configuration,
  };
  const location = { latitude: 1, longitude: 2 };
  const globe = {
    componentName: "base",
    movementSensorName: "gps",
    destination: { latitude: 3, longitude: 4 },
    headingDeg: 90,
    obstacles: [{ location, geometries: [ball] }],
    boundingRegions: [{ location, geometries: [] }],
    configuration,
  };
  assertEquals(await far.move(movement, { extra }), true);
  assertEquals([await far.moveOnMap(map, { extra }), await far.moveOnGlobe(globe, { extra })], ["e1", "e2"]);
  const { pose } = await far.getPose("cam", "table", [held], { extra });
  assertEquals(pose, poseAt(7, 8, 9));
  await far.stopPlan("base", { extra });
  const [listed] = await far.listPlanStatuses(true, { extra });
  assertEquals([listed.planId, listed.status], ["p2", motion.status]);
  const which = { componentName: "base", lastPlanOnly: true, executionId: "e1" };
  assertEquals(await far.getPlan(which, { extra }), motion.history);
  assertEquals(motion.asked, [
    ["move", movement, extra],
    ["moveOnMap", map, extra],
    ["moveOnGlobe", globe, extra],
    ["getPose", ["cam", "table", [held]], extra],
    ["stopPlan", "base", extra],
    ["listPlanStatuses", true, extra],
    ["getPlan", which, extra],
  ]);
  channel.close();
});

Deno.test("MotionApi: a remote's names have its prefix here, and none in calls to it", async () => {
  const motion = new Noting(NAME);
  const table = new ServiceTable(new FakeClock());
  table.add(MotionApi.serve(() => motion));
  const channel = memoryChannel(table);
  const here = MotionApi.client(ResourceName.of(MotionApi.name, "far:r_m", "m"), channel);
  const ball = { center: poseAt(1, 0, 0), label: "r_ball", shape: { type: "sphere", radiusMm: 5 } } as const;
  const held = (parent: string) => ({ name: "r_held", parent, pose: poseAt(0, 0, 1), geometry: undefined });
  const movement = (prefix: string, world: string) => ({
    componentName: `${prefix}arm`,
    destination: { referenceFrame: world, pose: poseAt(1, 2, 3) },
    worldState: {
      obstacles: [{ referenceFrame: `${prefix}table`, geometries: [ball] }],
      transforms: [held(`${prefix}arm:link`)],
    },
    constraints: {
      ...{ linear: [], pseudolinear: [], orientation: [] },
      allowedCollisions: [
        { frame1: "r_ball", frame2: "r_held" },
        { frame1: `${prefix}arm`, frame2: `${prefix}table` },
      ],
    },
  });
  const base = (prefix: string) => ({
    componentName: `${prefix}base`,
    obstacles: [],
    configuration: { obstacleDetectors: [{ visionService: `${prefix}v`, camera: `${prefix}c` }] },
  });
  const map = (prefix: string) => ({
    ...base(prefix),
    slamServiceName: `${prefix}slam`,
    destination: poseAt(5, 6, 0),
  });
  const globe = (prefix: string) => ({
    ...base(prefix),
    movementSensorName: `${prefix}gps`,
    destination: { latitude: 3, longitude: 4 },
    headingDeg: undefined,
    boundingRegions: [],
  });
  const which = { lastPlanOnly: true, executionId: undefined };

  await here.move(movement("r_", "far_world"));
  await here.moveOnMap(map("r_"));
  await here.moveOnGlobe(globe("r_"));
  const { referenceFrame } = await here.getPose("far:r_arm", "r_table", [held("far_world")]);
  await here.stopPlan("r_base");
  const [{ componentName }] = await here.listPlanStatuses(true);
  const { current, replaced } = await here.getPlan({ ...which, componentName: "r_base" });

  const asked = motion.asked.map((call) => (call as unknown[])[1]) as Record<string, unknown>[];
  assertEquals(asked[0], movement("", "world"));
  const { configuration, ...rest } = asked[1];
  const { configuration: wanted, ...mapped } = map("");
  assertEquals(rest, mapped);
  assertEquals((configuration as typeof wanted).obstacleDetectors, wanted.obstacleDetectors);
  assertEquals(asked[2].movementSensorName, "gps");
  assertEquals(asked[3], ["arm", "table", [held("world")]] as unknown);
  assertEquals(asked[4], "base" as unknown);
  assertEquals(asked[6], { ...which, componentName: "base" });

  assertEquals(referenceFrame, "far_world");
  assertEquals([componentName, current.componentName, replaced[0].componentName], [
    ...["r_base", "r_base", "r_base"],
  ]);
  assertEquals(current.steps.map((step) => Object.keys(step)), [["r_base"], ["r_base"]]);
  channel.close();
});
