import { assertAlmostEquals, assertEquals, assertGreater, assertLess } from "@std/assert";
import type { Pose2d } from "../pose2d.ts";
import { OdometryFusion } from "./fusion.ts";
import type { OdometryVerdict } from "./odometry/proof.ts";
import { surfaceBetween } from "./surface.ts";
import { type Symmetric, ZERO } from "./symmetric.ts";

const HERE = { x: 0, y: 0, yaw: 0 };
/** What a hundred points on walls across, along, and both ways say. */
const POINTS = 100 / 0.03 ** 2;
const ALL_ROUND = { ...ZERO, xx: POINTS, yy: POINTS, tt: 9 * POINTS };
const BARE_CORRIDOR = { ...ALL_ROUND, xx: 0 };

function both(verdict: OdometryVerdict) {
  return { translation: verdict, rotation: verdict };
}

/** Steps of 5 cm by odometry, each matched `off` from there; returns where the robot ends. */
function driven(
  information: Symmetric,
  off: Pose2d,
  steps: number,
  verdict: OdometryVerdict = "refuted",
  verdicts = both(verdict),
): Pose2d {
  const fusion = new OdometryFusion();
  let pose: Pose2d = HERE;
  for (let step = 0; step < steps; step++) {
    const predicted = { x: pose.x + 0.05, y: pose.y, yaw: pose.yaw };
    const matched = { x: predicted.x + off.x, y: predicted.y + off.y, yaw: predicted.yaw + off.yaw };
    pose = fusion.fuse(
      { last: pose, predicted, verdicts, scanCount: 90, sinceS: 0.1 },
      matched,
      information,
    );
  }
  return pose;
}

Deno.test("OdometryFusion: along a bare corridor odometry counts alone, whatever the match says", () => {
  const { x, y } = driven(BARE_CORRIDOR, { x: -0.05, y: 0, yaw: 0 }, 100);
  assertAlmostEquals(x, 5, 1e-6);
  assertAlmostEquals(y, 0, 1e-6);
});

Deno.test("OdometryFusion: a match that knows all directions corrects odometry that slips", () => {
  // A tenth of each step is slip.
  const { x } = driven(ALL_ROUND, { x: -0.005, y: 0, yaw: 0 }, 100);
  assertLess(x, 4.75);
  assertGreater(x, 4.45);
});

Deno.test("OdometryFusion: matches that err alike hardly move odometry that nothing refutes", () => {
  for (const verdict of ["open", "proven"] as const) {
    assertAlmostEquals(driven(ALL_ROUND, { x: -0.005, y: 0, yaw: 0.002 }, 100, verdict).x, 5, 0.1);
  }
});

Deno.test("OdometryFusion: matches that err alike turn a robot whose turns by odometry are proven by no hundredth of a degree a metre", () => {
  const verdicts = { translation: "open", rotation: "proven" } as const;
  const { x, y, yaw } = driven(ALL_ROUND, { x: -0.01, y: 0.01, yaw: 0.002 }, 400, "open", verdicts);
  assertAlmostEquals(x, 20, 0.03);
  assertAlmostEquals(y, 0, 0.06);
  assertLess(yaw, 20 * 0.01 * Math.PI / 180);
});

Deno.test("OdometryFusion: a match far off is a failure of odometry, and taken over", () => {
  const fusion = new OdometryFusion();
  const { x, y } = fusion.fuse(
    {
      last: HERE,
      predicted: { x: 0.05, y: 0, yaw: 0 },
      verdicts: both("refuted"),
      scanCount: 90,
      sinceS: 0.1,
    },
    { x: 0.5, y: 0.3, yaw: 0 },
    ALL_ROUND,
  );
  assertAlmostEquals(x, 0.5, 0.03);
  assertAlmostEquals(y, 0.3, 0.03);
});

/** Where matches that are this far off, one each `sinceS`, put a robot that stands by odometry. */
function standing(
  information: Symmetric,
  offs: readonly Pose2d[],
  verdict: OdometryVerdict = "open",
  sinceS = 0.1,
  isStanding = false,
): Pose2d {
  const fusion = new OdometryFusion(), verdicts = both(verdict);
  let pose: Pose2d = HERE;
  for (const off of offs) {
    const predicted = { last: pose, predicted: pose, verdicts, scanCount: 90, sinceS, isStanding };
    pose = fusion.fuse(predicted, off, information);
  }
  return pose;
}

Deno.test("OdometryFusion: matches of a narrow view far off say nothing until several in a row are as far off", () => {
  const narrow = { ...ZERO, xx: POINTS / 30, yy: POINTS, tt: POINTS };
  for (const off of [{ x: 0, y: 0.4, yaw: 0 }, { x: 0, y: -0.3, yaw: 0.3 }]) {
    const elsewhere = { x: 0, y: -off.y, yaw: -off.yaw };
    assertLess(Math.abs(standing(narrow, [off]).y), 0.02);
    assertLess(Math.abs(standing(narrow, [off, elsewhere, off]).y), 0.06);
    assertLess(Math.abs(standing(narrow, [off, off, off, off]).y), 0.08);
    assertAlmostEquals(standing(narrow, new Array(7).fill(off)).y, off.y, 0.05);
    assertAlmostEquals(standing(narrow, [off, off, off], "open", 3).y, off.y, 0.05);
    assertLess(Math.abs(standing(narrow, [off, off, off], "proven", 3).y), 0.06);
    assertAlmostEquals(standing(ALL_ROUND, [off]).y, off.y, 0.05);
  }
});

Deno.test("OdometryFusion: the few points along a corridor that may be people overrule no odometry at once", () => {
  const along = (share: number) => ({ ...ZERO, xx: share * POINTS, yy: POINTS, tt: POINTS });
  const ahead = { x: 0.5, y: 0, yaw: 0 };
  assertLess(standing(along(0.06), [ahead, ahead]).x, 0.1);
  assertAlmostEquals(standing(along(0.3), [ahead]).x, ahead.x, 0.1);
});

Deno.test("OdometryFusion: after a pause, one match of the few points along a corridor overrules no odometry", () => {
  const crowd = { ...ZERO, xx: 0.065 * POINTS, yy: POINTS, tt: POINTS }, off = { x: 0.5, y: 0, yaw: 0 };
  for (const verdict of ["open", "proven"] as const) {
    assertLess(standing(crowd, [HERE, off, HERE], verdict, 3).x, 0.05);
  }
  assertGreater(standing(crowd, [HERE, off, off], "open", 3).x, 0.2);
});

Deno.test("OdometryFusion: one match of a narrow view does not move a robot that stands, nor one whose odometry is frozen", () => {
  const narrow = { ...ZERO, xx: POINTS / 30, yy: POINTS, tt: POINTS }, off = { x: -0.1, y: 0, yaw: 0 };
  assertAlmostEquals(standing(narrow, [off], "refuted", 1, true).x, 0, 0.01);
  assertAlmostEquals(standing(ALL_ROUND, [off], "refuted", 1, true).x, 0, 0.01);
  assertAlmostEquals(standing(narrow, new Array(7).fill(off), "refuted", 1, true).x, off.x, 0.03);
  assertAlmostEquals(
    standing(narrow, [off], "refuted").x,
    off.x,
    0.05,
    "its changes count no more than a match",
  );
});

Deno.test("OdometryFusion: proven odometry outlasts a few scans of a narrow view that fit at the next niche", () => {
  const narrow = { ...ZERO, xx: POINTS / 30, yy: POINTS, tt: POINTS }, off = { x: 0, y: 0.4, yaw: 0 };
  const standingFor = (scans: number) => standing(narrow, new Array(scans).fill(off), "proven").y;
  assertLess(Math.abs(standingFor(4)), 0.1);
  assertAlmostEquals(standingFor(30), off.y, 0.1);
});

Deno.test("OdometryFusion: a match off by a little overrules right odometry only after six in a row, if it came at once", () => {
  const off = { x: 0, y: 0.2, yaw: 0 },
    growing = Array.from({ length: 40 }, (_, k) => ({ ...off, y: 0.005 * k }));
  assertLess(standing(ALL_ROUND, new Array(4).fill(off), "proven").y, 0.02);
  assertAlmostEquals(standing(ALL_ROUND, new Array(8).fill(off), "proven").y, off.y, 0.03);
  assertLess(standing(ALL_ROUND, growing, "proven").y, 0.04);
});

Deno.test("OdometryFusion: one match far off, as in a crowd, overrules no right odometry, but two alike do", () => {
  const off = { x: 0.4, y: 0, yaw: 0 }, elsewhere = { x: -0.5, y: 0, yaw: 0 };
  assertLess(Math.abs(standing(ALL_ROUND, [off], "proven").x), 0.02);
  assertLess(Math.abs(standing(ALL_ROUND, [off, elsewhere, HERE, off], "proven").x), 0.02);
  assertAlmostEquals(standing(ALL_ROUND, [off, off], "proven").x, off.x, 0.05);
});

Deno.test("OdometryFusion: a scan without any wall leaves the pose to odometry", () => {
  assertEquals(driven(ZERO, { x: 1, y: 1, yaw: 1 }, 4), { x: 0.2, y: 0, yaw: 0 });
});

Deno.test("surfaceBetween: draws a wall between neighbouring beams, but not across an edge or a gap", () => {
  /** Beams a degree apart that meet a wall at this range for each degree; none at 0. */
  const pointsAt = (rangeM: (degree: number) => number) => {
    const ends = Array.from({ length: 41 }, (_, k) => k - 20).flatMap((degree) => {
      const range = rangeM(degree), angle = degree * Math.PI / 180;
      return range === 0 ? [] : [range * Math.cos(angle), range * Math.sin(angle)];
    });
    return Float64Array.from(ends);
  };
  // A degree is 17 cm wide at ten metres: three points between each two beams.
  assertEquals(surfaceBetween(pointsAt(() => 10), HERE).length / 2, 40 * 3);
  assertEquals(surfaceBetween(pointsAt((degree) => degree < 0 ? 10 : 12), HERE).length / 2, 19 * 3 + 20 * 4);
  assertEquals(surfaceBetween(pointsAt((degree) => degree === 0 ? 0 : 10), HERE).length / 2, 38 * 3);
  // Two metres away the beams leave no gap.
  assertEquals(surfaceBetween(pointsAt(() => 2), HERE).length, 0);
  // The order of the points does not matter.
  const points = pointsAt(() => 10), turned = new Float64Array(points.length);
  for (let k = 0; k < points.length; k += 2) turned.set(points.subarray(k, k + 2), points.length - 2 - k);
  assertEquals(surfaceBetween(turned, HERE).length / 2, 40 * 3);
});
