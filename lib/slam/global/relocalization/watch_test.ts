import { assertEquals } from "@std/assert";
import { PlaceWatch } from "./watch.ts";

const GOOD = { fit: 0.9, known: 1, knownFit: 0.9, through: 0.03 };
const ELSEWHERE = { fit: -0.1, known: 0.7, knownFit: -0.1, through: 0.35 };
const CROWD = { fit: 0.05, known: 1, knownFit: 0.05, through: 0.02 };
const OFF_THE_MAP = { fit: 0.2, known: 0.1, knownFit: -0.5, through: 0.3 };

/** The number of the scan, a tenth of a second after the one before, with which the robot counts as carried away. */
function alarmOf(fits: readonly (typeof GOOD)[], watch = new PlaceWatch()): number {
  return fits.findIndex((fit, k) => watch.wantsScan(k / 10) && watch.addScan(k / 10, fit));
}

Deno.test("place watch: scans of another place count in a row, some time apart", () => {
  assertEquals(alarmOf(Array(20).fill(ELSEWHERE)), 6);
  assertEquals(
    alarmOf([...Array(6).fill(ELSEWHERE), ...Array(3).fill(GOOD), ...Array(20).fill(ELSEWHERE)]),
    15,
  );
});

Deno.test("place watch: people around the robot, and places beyond the map, say nothing", () => {
  assertEquals(alarmOf(Array(100).fill(CROWD)), -1);
  assertEquals(alarmOf(Array(100).fill(OFF_THE_MAP)), -1);
});

Deno.test("place watch: nodes that fit worse than usual count without scans between them", () => {
  const watch = new PlaceWatch();
  watch.reset(0.9);
  const poor = { ...GOOD, fit: 0.6, knownFit: 0.6 };
  assertEquals([poor, poor, GOOD, poor, poor, poor].map((fit) => watch.addNode(fit)), [
    false,
    false,
    false,
    false,
    false,
    true,
  ]);
});
