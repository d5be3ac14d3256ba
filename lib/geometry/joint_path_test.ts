import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../base/error.ts";
import { armModel } from "./arm_models.ts";
import { type Body, bodyOf, inContact, movedBody } from "./contact.ts";
import { freeWay, type Reach, straightWay } from "./joint_path.ts";
import { checkJoints, forwardKinematics, linkGeometries, placeEnd, placeFrames } from "./kinematics.ts";
import { distanceBetween, fromPose, IDENTITY, type Pose, poseAt, posesAlmostEqual } from "./pose.ts";

const arm = armModel("ur5e", "arm");
const START = [0, -120, -90, -60, 90, 0];
const LINE = { distanceMm: 0.1, angleDeg: 0.1 };

/** A box in the base frame, as an obstacle of an arm. */
function box(center: Pose, [x, y, z]: readonly number[], label = "box"): Reach["touched"] {
  const body = bodyOf({ center, label, shape: { type: "box", dimsMm: { x, y, z } } });
  const links = linkGeometries(arm).map(({ frame, geometry }) => ({ frame, body: bodyOf(geometry) }));
  return (positions) => {
    const places = placeFrames(arm, positions);
    const touches = (link: Body, frame: number) =>
      inContact(movedBody(link, places[frame] ?? IDENTITY), body);
    return links.some((link) => touches(link.body, link.frame)) ? label : undefined;
  };
}

function reach(goal: Pose, touched: Reach["touched"] = () => undefined): Reach {
  return { model: arm, start: START, goal, touched, pause: () => Promise.resolve() };
}

/** The end's pose with each joint moved. */
function ending(...moved: number[]): Pose {
  return forwardKinematics(arm, START.map((position, index) => position + (moved[index] ?? 0)));
}

function checkFree(way: readonly (readonly number[])[], { goal, touched }: Reach): void {
  assert(posesAlmostEqual(forwardKinematics(arm, way.at(-1)!), goal, { mm: 0.1, deg: 0.1 }));
  let from: readonly number[] = START;
  for (const to of way) {
    checkJoints(arm, to);
    for (let share = 0; share <= 1; share += 0.002) {
      assertEquals(
        touched(from.map((position, index) => position + share * (to[index] - position))),
        undefined,
      );
    }
    from = to;
  }
}

Deno.test("freeWay: moves the joints straight without obstacles", async () => {
  const asked = reach(ending(40, -10, 20));
  const way = await freeWay(asked);
  assertEquals(way.length, 1);
  checkFree(way, asked);
});

Deno.test("freeWay: finds the same way around obstacles every time", async () => {
  const { x, y } = ending(50);
  const room = [
    box(poseAt(x, y, 0), [60, 60, 700], "pillar"),
    box(poseAt(0, 0, 800), [3_000, 3_000, 20], "ceiling"),
    box(poseAt(-600, 0, 0), [20, 3_000, 3_000], "wall"),
  ];
  const asked = reach(ending(100), (positions) => {
    return room.map((touched) => touched(positions)).find((found) => found !== undefined);
  });
  const way = await freeWay(asked);
  assert(way.length > 1);
  checkFree(way, asked);
  assertEquals(await freeWay(asked), way);
});

Deno.test("freeWay: an unreachable goal is an error that names the obstacle", async () => {
  const goal = ending(40);
  const wrapped = reach(goal, box(poseAt(goal.x, goal.y, goal.z), [100, 100, 100], "crate"));
  const inside = await assertRejects(() => freeWay(wrapped), SvcError, "it would touch crate");
  assertEquals(inside.code, "failed_precondition");
  await assertRejects(() => freeWay(reach(poseAt(5_000, 0, 0))), SvcError, "out of reach");
});

Deno.test("straightWay: the arm's end stays on its line and turns evenly", async () => {
  const from = ending();
  const goal = { ...ending(15, 8, 5, 10), z: from.z - 60 };
  const asked = reach(goal);
  const way = await straightWay(asked, LINE);
  checkFree(way, asked);
  const [start, end] = [fromPose(from), fromPose(goal)];
  const whole = distanceBetween(start, end);
  for (const positions of way) {
    const place = placeEnd(arm, positions);
    const [before, after] = [distanceBetween(start, place), distanceBetween(place, end)];
    assert(before.distanceMm + after.distanceMm - whole.distanceMm < 0.05);
    assert(before.angleRad + after.angleRad - whole.angleRad < 1e-3);
  }
});

Deno.test("straightWay: refuses a line that touches an obstacle or leaves reach, with the place", async () => {
  const from = ending();
  const goal = { ...from, x: from.x + 150 };
  const wall = box(poseAt(from.x + 150, from.y, from.z), [20, 300, 300], "wall");
  const touching = await assertRejects(() => straightWay(reach(goal, wall), LINE), SvcError);
  assert(
    /^moving arm to .* at [\d.]+ % of the straight line there it would touch wall$/.test(touching.message),
  );
  const beyond = reach({ ...from, x: from.x + 3_000 });
  await assertRejects(() => straightWay(beyond, LINE), SvcError, "it cannot follow at");
  const exact = reach(goal);
  await assertRejects(
    () => straightWay(exact, { distanceMm: 0, angleDeg: 0 }),
    SvcError,
    "wanted at most 0 mm",
  );
});

Deno.test("freeWay: ends when pause rejects", async () => {
  const gone = new SvcError("canceled", "gone");
  const goal = ending(100);
  const middle = ending(50);
  const pillar = box(poseAt(middle.x, middle.y, 0), [60, 60, 600]);
  const asked = { ...reach(goal, pillar), pause: () => Promise.reject(gone) };
  assertEquals(await assertRejects(() => freeWay(asked)), gone);
});
