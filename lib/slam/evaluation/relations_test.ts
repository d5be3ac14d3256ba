import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { readRecording, recordingNames, RECORDINGS } from "../../../tests/support/recordings.ts";
import { compose2d } from "../pose2d.ts";
import { pointsOf, readCarmenLog } from "./carmen.ts";
import { readRelations, scoreRelations } from "./relations.ts";
import { lidarPoseOf, readSensorFacts } from "./sensor.ts";

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
  assertThrows(() => readCarmenLog(flaser("2 1 one")), RangeError, `line 2: "one" is no number`);
  assertThrows(() => readCarmenLog("ODOM 1 2\n"), RangeError, "line 1: ODOM has");
});

Deno.test("readCarmenLog: ROBOTLASER1 and RLASER bring the angles and the place of their laser", () => {
  const robot =
    "ROBOTLASER1 0 -1.5 3.0 1.5 30 0.01 0 3 2 31 4 1 7 0.2 0 0 0 0 0 0.1 0 0.5 0.5 0 12.5 host 12.5";
  const [scan] = readCarmenLog(robot).scans;
  assertEquals([scan.timeS, Array.from(scan.ranges), scan.laser.x], [12.5, [2, Infinity, 4], 0.2]);
  const points = pointsOf(scan.ranges, scan.sensor);
  assertAlmostEquals(points[0], 2 * Math.cos(-1.5), 1e-6);
  assertEquals(points[3], NaN);
  assertThrows(
    () => readCarmenLog(robot.replace("31 4 1", "31 4 9")),
    RangeError,
    "line 1: ROBOTLASER1 of 3 ranges",
  );
  const rear =
    readCarmenLog("PARAM robot_rearlaser_offset 0.3\nRLASER 2 inf 1 0 0 0 0 0 0 5 host 5\n").scans[0];
  assertEquals(rear.sensor?.lidar, { x: -0.3, y: 0, yaw: Math.PI });
  assertEquals(rear.ranges[0], Infinity);
});

Deno.test("readCarmenLog: a laser with the same place all along a turning way is there on the robot", () => {
  const log = (ahead: number, wander: number) => {
    return Array.from({ length: 20 }, (_, k) => {
      const yaw = 0.1 * k, x = 0.05 * k + wander * k * k;
      const laser = `${0.05 * k + ahead * Math.cos(yaw)} ${ahead * Math.sin(yaw)} ${yaw}`;
      return `FLASER 2 1 2 ${laser} ${x} 0 ${yaw} ${k} host ${k}\n`;
    }).join("");
  };
  assertAlmostEquals(readCarmenLog(log(0.25, 0)).scans[7].sensor!.lidar!.x, 0.25, 1e-9);
  assertEquals(readCarmenLog(log(0, 0)).scans[7].sensor, undefined);
  // Another program has corrected these.
  assertEquals(readCarmenLog(log(0.25, 0.001)).scans[7].sensor, undefined);
});

Deno.test("readSensorFacts: every key is optional, and errors name the key", () => {
  assertEquals(readSensorFacts("{}"), {
    lidar: undefined,
    firstBeamRad: undefined,
    stepRad: undefined,
    sweepS: undefined,
    isUpsideDown: undefined,
  });
  const { lidar, firstBeamRad, stepRad } = readSensorFacts(
    '{"lidar": {"x": 0.22, "yaw_deg": 180}, "first_beam_deg": -90, "step_deg": -0.5}',
  );
  assertEquals(lidar, { x: 0.22, y: 0, yaw: Math.PI });
  assertAlmostEquals(firstBeamRad!, -Math.PI / 2, 1e-12);
  assertAlmostEquals(stepRad!, -Math.PI / 360, 1e-12);
  assertThrows(
    () => readSensorFacts('{"lidar": {"x": "far"}}'),
    RangeError,
    'lidar.x: found "far", wanted a number',
  );
  assertThrows(() => readSensorFacts('{"lidar": {"z": 1}}'), RangeError, "lidar.z: an unknown key");
  assertThrows(() => readSensorFacts('{"upside_down": 1}'), RangeError, "upside_down: found 1");
  assertEquals(readSensorFacts('{"sweep_s": 0.18, "upside_down": true}').sweepS, 0.18);
  assertThrows(() => readSensorFacts('{"sweep_s": 2.1}'), RangeError, "sweep_s: found 2.1");
  assertThrows(() => readSensorFacts('{"sweep_s": -1}'), RangeError, "sweep_s: found -1");
  assertThrows(() => readSensorFacts('{"step_deg": 0}'), RangeError, "step_deg: found 0");
  assertThrows(() => readSensorFacts("[]"), RangeError, "the file: wanted an object");
  assertEquals(lidarPoseOf("0.2, -0.1,90"), { x: 0.2, y: -0.1, yaw: Math.PI / 2 });
  for (const bad of ["", "1,2", "1,2,x", "1,2,3,4", "1e9,0,0"]) assertEquals(lidarPoseOf(bad), undefined);
});

Deno.test("pointsOf: beams go from right to left", () => {
  const points = pointsOf(Float32Array.from({ length: 181 }, () => 2), { lidar: { x: 0.5, y: 0, yaw: 0 } });
  assertAlmostEquals(points[0], 0.5, 1e-6);
  assertAlmostEquals(points[1], -2, 1e-6);
  assertAlmostEquals(points[3 * 90], 2.5, 1e-6);
  assertAlmostEquals(points[3 * 180 + 1], 2, 1e-6);
  const hanging = pointsOf(Float32Array.of(2, 2), { firstBeamRad: -1, stepRad: 0.5, isUpsideDown: true });
  assertAlmostEquals(hanging[0], 2 * Math.cos(1), 1e-6);
  assertAlmostEquals(hanging[1], 2 * Math.sin(1), 1e-6);
  assertAlmostEquals(hanging[4], 2 * Math.sin(0.5), 1e-6);
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
