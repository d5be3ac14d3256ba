/**
 * The short form of `deno task attack cloud`: every chain, and one request of the matrix in many, chosen by a seed.
 */

import { assert, assertEquals } from "@std/assert";
import { playCloud } from "./cloud.ts";

/** Tables that hold nothing of tenants, or only while a job of theirs is under way. */
const NOBODYS = [
  "secrets",
  "settings",
  "releases",
  "training_images",
  // Each of their rows is worked on and removed within seconds.
  "trigger_events",
  "pipeline_late",
];
const TELLING_MIN = 24;
/**
 * Processor time of svc-cloud's own thread in one stretch. `deno task attack cloud` asserts 200 ms; on a busy computer
 * the same work takes more of it, and each attack that this guards against took several seconds.
 */
const BUSY_MS_MAX = 500;
/** A model computes until then, and a busy computer starts the process of an honest one before. */
const INFERENCE_SECONDS = 15;

Deno.test("attack cloud: no call reads or changes data of another organization, and none stops the others", async () => {
  const seed = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);
  const report = await playCloud({
    oneIn: 100,
    seed,
    busyMsMax: BUSY_MS_MAX,
    inferenceSeconds: INFERENCE_SECONDS,
  });
  console.log(
    `seed ${seed}: ${report.calls} calls of ${report.served} methods, ${report.leaks.length} leaks`,
  );
  assertEquals(report.leaks, []);
  assertEquals(report.delays, []);
  // The attack must be able to find something: the owner sees it, and every table has something to lose.
  assert(report.telling >= TELLING_MIN, `${report.telling} methods told the owner something`);
  assertEquals(report.emptyTables.filter((name) => !NOBODYS.includes(name)), []);
});
