import { assertAlmostEquals, assertEquals } from "@std/assert";
import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "../../pose2d.ts";
import { obstaclesAt, rangeTo } from "../../simulation/building.ts";
import { OdometryProof, type OdometryVerdicts } from "./proof.ts";
import { UNSCALED } from "./scale.ts";

const CORNERS = [[-2, -2], [6, -2], [6, 1], [4, 1], [4, 2.5], [-2, 2.5]];
const ROOM = obstaclesAt({
  walls: CORNERS.map(([fromX, fromY], k) => {
    const [toX, toY] = CORNERS[(k + 1) % CORNERS.length];
    return { fromX, fromY, toX, toY };
  }),
  doors: [],
  people: [],
}, 0);

/** What a lidar sees: x, y, … in the frame of the robot. */
function seenFrom({ x, y, yaw }: Pose2d, viewDeg = 360): Float64Array {
  const points: number[] = [];
  for (let degree = -viewDeg / 2; degree < viewDeg / 2; degree += viewDeg / 180) {
    const angle = degree * Math.PI / 180, range = rangeTo(ROOM, x, y, yaw + angle);
    points.push(range * Math.cos(angle), range * Math.sin(angle));
  }
  return Float64Array.from(points);
}

/** The verdicts after steps of 30 cm that odometry and the matches measure as these, from an earlier verdict on. */
function verdictsOf(
  odometry: Pose2d,
  matches: Pose2d,
  steps: number,
  proof = new OdometryProof(),
): OdometryVerdicts {
  const motions = [odometry];
  let pose = IDENTITY_2D, matched = IDENTITY_2D;
  for (let step = 0; step < steps; step++) {
    proof.add({ seen: seenFrom(pose), timeS: step, pose, matched }, (fromS, toS) => {
      return motions.slice(fromS, toS).reduce(compose2d, IDENTITY_2D);
    });
    motions.push(odometry);
    pose = compose2d(pose, STEP);
    matched = compose2d(matched, matches);
  }
  return proof.verdicts;
}

const STEP = { x: 0.3, y: 0, yaw: 0.05 };
const SHORT = { x: 0.26, y: 0, yaw: 0.05 };
const CROOKED = { x: 0.3, y: 0, yaw: 0.07 };

Deno.test("OdometryProof: odometry is proven where the matches err again and again", () => {
  assertEquals(verdictsOf(STEP, SHORT, 16).translation, "proven");
  assertEquals(verdictsOf(STEP, CROOKED, 16).rotation, "proven");
});

Deno.test("OdometryProof: odometry that slips or turns wrongly is refuted after three comparisons", () => {
  assertEquals(verdictsOf(SHORT, STEP, 7), { translation: "refuted", rotation: "open" });
  assertEquals(verdictsOf(CROOKED, STEP, 7).rotation, "refuted");
});

Deno.test("OdometryProof: nothing is said of odometry that is as good as the matches, or after too little", () => {
  assertEquals(verdictsOf(STEP, STEP, 16), { translation: "open", rotation: "open" });
  assertEquals(verdictsOf(SHORT, STEP, 4), { translation: "open", rotation: "open" });
});

Deno.test("OdometryProof: odometry whose errors stay small is proven, although the matches are as good", () => {
  const step = { x: 0.15, y: 0, yaw: 0.15 };
  const verdictsAfter = (steps: number, odometry = step) => {
    const proof = new OdometryProof();
    turnedBy(step, odometry, steps, proof, 360);
    return proof.verdicts;
  };
  assertEquals(verdictsAfter(44), { translation: "open", rotation: "open" });
  assertEquals(verdictsAfter(56), { translation: "proven", rotation: "proven" });
  assertEquals(verdictsAfter(56, { ...step, yaw: 0.151 }).rotation, "refuted");
});

Deno.test("OdometryProof: where it is not known exactly how late odometry is, the beginning of a turn refutes nothing", () => {
  const verdictAfter = (deviationS: number) => {
    const proof = new OdometryProof();
    let pose = IDENTITY_2D;
    for (let k = 0; k < 24; k++) {
      // It begins to turn quickly before every fourth scan, and stops before the next but one.
      const turned = k % 4 === 2 ? 0.1 : 0, offRad = k % 4 === 2 ? 0.025 : -0.025;
      const odometryBetween = (fromS: number, toS: number) =>
        toS - fromS < 0.5
          ? { x: 0, y: 0, yaw: toS === k ? turned : 0.1 - turned }
          : { x: 0.15 * (toS - fromS), y: 0, yaw: 0.26 * (toS - fromS) + offRad };
      proof.add(
        { seen: seenFrom(pose), timeS: k, pose, matched: pose },
        odometryBetween,
        UNSCALED,
        deviationS,
      );
      pose = compose2d(pose, { x: 0.15, y: 0, yaw: 0.26 });
    }
    return proof.verdicts.rotation;
  };
  assertEquals(verdictAfter(0), "refuted");
  assertEquals(verdictAfter(0.025), "open");
});

Deno.test("OdometryProof: a small error counts once it comes again and again", () => {
  const almost = { x: 0.297, y: 0, yaw: 0.05 };
  assertEquals(verdictsOf(almost, almost, 7).translation, "open");
  assertEquals(verdictsOf(almost, almost, 24).translation, "refuted");
});

Deno.test("OdometryProof: errors of both directions refute nothing, although more of them point ahead", () => {
  const errorsM = [0, 0.012, 0, 0.012, 0, 0.012, 0, -0.02];
  const proof = new OdometryProof(), motions: Pose2d[] = [];
  let pose = IDENTITY_2D, matched = IDENTITY_2D;
  for (let step = 0; step < 60; step++) {
    proof.add({ seen: seenFrom(pose), timeS: step, pose, matched }, (fromS, toS) => {
      return motions.slice(fromS, toS).reduce(compose2d, IDENTITY_2D);
    });
    const motion = { ...STEP, x: STEP.x + errorsM[step % errorsM.length] };
    motions.push(motion);
    pose = compose2d(pose, STEP);
    matched = compose2d(matched, motion);
    assertEquals(proof.verdicts.translation, "open", `after ${step} steps`);
  }
});

Deno.test("OdometryProof: begins with earlier verdicts, and forgets them when odometry counts for another time", () => {
  const proof = new OdometryProof({ translation: "refuted", rotation: "proven" });
  assertEquals(verdictsOf(STEP, STEP, 2, proof), { translation: "refuted", rotation: "proven" });
  proof.reset();
  assertEquals(proof.verdicts, { translation: "open", rotation: "open" });
});

Deno.test("OdometryProof: ways and turns that are wrong by the same share have a factor", () => {
  const proof = new OdometryProof(), far = { x: 0.3 * 1.06, y: 0, yaw: 0.1 * 1.05 };
  turnedBy({ x: 0.3, y: 0, yaw: 0.1 }, far, 40, proof, 360);
  const scale = proof.scaleAfter(UNSCALED);
  assertAlmostEquals(scale.translation, 1 / 1.06, 0.01);
  assertAlmostEquals(scale.rotation, 1 / 1.05, 0.01);
  proof.resetVerdicts();
  assertEquals(proof.scaleAfter(UNSCALED), scale);
  proof.reset();
  assertEquals(proof.scaleAfter(UNSCALED), UNSCALED);
});

Deno.test("OdometryProof: ways that are wrong by the same share have a factor after two comparisons over more than a metre", () => {
  const factorAfter = (steps: number, yaw = 0) => {
    const proof = new OdometryProof(), step = { x: 0.3, y: 0, yaw };
    turnedBy(step, { ...step, x: 0.3 * 1.06 }, steps, proof, 360);
    return proof.scaleAfter(UNSCALED).translation;
  };
  assertEquals(factorAfter(4), 1);
  assertAlmostEquals(factorAfter(6), 1 / 1.06, 0.01);
  assertEquals(factorAfter(6, 0.1), 1, "a turn may be the cause");
});

Deno.test("OdometryProof: a narrow view shows turns that are wrong by the same share, too", () => {
  const proof = new OdometryProof(), step = { x: 0, y: 0, yaw: 0.15 };
  turnedBy(step, { ...step, yaw: 0.15 * 1.05 }, 40, proof, 60);
  assertAlmostEquals(proof.scaleAfter(UNSCALED).rotation, 1 / 1.05, 0.01);
});

/** Drives steps that odometry measures as others, with a lidar of this view, while the matches are right. */
function turnedBy(
  step: Pose2d,
  odometry: Pose2d,
  steps: number,
  proof: OdometryProof,
  viewDeg: number,
): void {
  let pose = IDENTITY_2D, by = IDENTITY_2D;
  const poses = [by];
  for (let k = 0; k < steps; k++) {
    const seen = seenFrom(pose, viewDeg);
    proof.add({ seen, timeS: k, pose, matched: pose }, (fromS, toS) => between2d(poses[fromS], poses[toS]));
    pose = compose2d(pose, step);
    by = compose2d(by, odometry);
    poses.push(by);
  }
}
