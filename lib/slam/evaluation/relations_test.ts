import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { readRecording, recordingNames, RECORDINGS } from "../../../tests/support/recordings.ts";
import { compose2d } from "../pose2d.ts";
import { pointsOf, readCarmenLog } from "./carmen.ts";
import { readRelations, scoreRelations } from "./relations.ts";

Deno.test("scoreRelations: a matching trajectory has zero error, and a wrong relation its own", () => {
  const step = { x: 1, y: 0.5, yaw: 0.3 };
  const second = compose2d({ x: 3, y: 4, yaw: 3 }, step);
  const trajectory = [
    { timeS: 10, pose: { x: 3, y: 4, yaw: 3 } },
    { timeS: 20, pose: second },
    { timeS: 30, pose: compose2d(second, { x: 3, y: 0, yaw: Math.PI / 2 }) },
  ];
  const right = { firstS: 10, secondS: 20, pose: step };
  assertAlmostEquals(scoreRelations(trajectory, [right]).translationM.max, 0, 1e-9);
  const wrong = { firstS: 20, secondS: 30, pose: { x: 3, y: 2, yaw: 0 } };
  const score = scoreRelations(trajectory, [right, wrong]);
  assertEquals([score.used, score.overMetre], [2, 1]);
  assertAlmostEquals(score.translationM.mean, 1, 1e-9);
  assertAlmostEquals(score.translationM.deviation, 1, 1e-9);
  assertAlmostEquals(score.rotationDeg.max, 90, 1e-9);
});

Deno.test("scoreRelations: interpolates between poses and skips relations far beyond the ends", () => {
  const trajectory = [
    { timeS: 0, pose: { x: 0, y: 0, yaw: 0 } },
    { timeS: 10, pose: { x: 10, y: 0, yaw: 0 } },
  ];
  const relations = [
    { firstS: 2.5, secondS: 7.5, pose: { x: 5, y: 0, yaw: 0 } },
    { firstS: 0, secondS: 12, pose: { x: 12, y: 0, yaw: 0 } },
  ];
  const { used, translationM } = scoreRelations(trajectory, relations);
  assertEquals(used, 1);
  assertAlmostEquals(translationM.max, 0, 1e-12);
});

Deno.test("readRelations and readCarmenLog: errors name the line", () => {
  assertEquals(readRelations("# one\n1 2 3 4 0 0 0 5\n").length, 1);
  assertThrows(() => readRelations("1 2 3 4 0 0 0 5\n1 2 3\n"), RangeError, "line 2: no relation");
  const flaser = (ranges: string) => `PARAM x\nFLASER ${ranges} 1 2 3 4 5 6 7 host 7\n`;
  const { scans } = readCarmenLog(flaser("2 1.5 81.9"));
  assertEquals([scans[0].timeS, scans[0].laser, scans[0].odometry.x], [7, { x: 1, y: 2, yaw: 3 }, 4]);
  assertThrows(() => readCarmenLog(flaser("99999999999 1")), RangeError, "line 2: FLASER of");
  assertThrows(() => readCarmenLog(flaser("200 1")), RangeError, "has 12 fields only");
  assertThrows(() => readCarmenLog(flaser("2 1 nan")), RangeError, `line 2: "nan" is no number`);
  assertThrows(() => readCarmenLog("ODOM 1 2\n"), RangeError, "line 1: ODOM has");
});

Deno.test("pointsOf: beams go from right to left", () => {
  const points = pointsOf(Float32Array.from({ length: 181 }, () => 2), { x: 0.5, y: 0, yaw: 0 });
  assertAlmostEquals(points[0], 0.5, 1e-6);
  assertAlmostEquals(points[1], -2, 1e-6);
  assertAlmostEquals(points[3 * 90], 2.5, 1e-6);
  assertAlmostEquals(points[3 * 180 + 1], 2, 1e-6);
});

const names = recordingNames(RECORDINGS);
/** Mean and deviation of raw odometry in metres, as published for these recordings. */
const RAW_ODOMETRY: { readonly [name: string]: readonly [number, number] } = {
  "aces": [0.549, 2.674],
  "intel": [7.370, 14.349],
  "mit-csail": [1.682, 5.292],
};

for (const [name, [mean, deviation]] of Object.entries(RAW_ODOMETRY)) {
  Deno.test({
    // The reason to be ignored: the recordings are no part of the source tree.
    name: `relations: raw odometry of ${name} scores as published`,
    ignore: !names.includes(name),
    fn() {
      const { log, relations } = readRecording(RECORDINGS, name);
      const trajectory = log.scans.map(({ timeS, odometry }) => ({ timeS, pose: odometry }))
        .sort((a, b) => a.timeS - b.timeS);
      const score = scoreRelations(trajectory, relations);
      assertEquals(score.used, relations.length);
      assertAlmostEquals(score.translationM.mean, mean, 0.001);
      assertAlmostEquals(score.translationM.deviation, deviation, 0.001);
    },
  });
}
