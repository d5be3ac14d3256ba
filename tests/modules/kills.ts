/**
 * Kills a module of the published Python library again and again, at random moments of its life: while it starts, while
 * its resource is built, in the middle of calls, while it rests. Each time its resource must return, and every call must
 * end. Prints how long it took.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { pythonProgram } from "../interop/programs.ts";
import { until, within } from "../support/until.ts";
import { WeatherMachine } from "./weather_machine.ts";

/** Longest time from a return to the next kill: it reaches into the next start, which takes about half a second. */
const REST_MS = 1_500;

const [times = "100", seed = String(Date.now() % 1_000_000)] = Deno.args;
const python = await pythonProgram();
if ("missing" in python) {
  console.error(python.missing);
  Deno.exit(1);
}
const clock = new SystemClock();
const random = randomFrom(Number(seed));
console.log(`${times} kills, seed ${seed}`);
const machine = await WeatherMachine.start(python.found);
const returns: number[] = [];
try {
  await machine.write({ t1: { degrees: 25 }, t2: { uses: ["t1"] } });
  await until(() => machine.readings("t2"));
  for (let kill = 0; kill < Number(times); kill++) {
    const calls = Array.from({ length: 5 }, () => machine.readings("t1"));
    await clock.sleep(random() * REST_MS);
    await machine.killModule();
    const killedMs = clock.monotonicMs();
    await within("the end of all calls", Promise.all(calls));
    // Every second kill hits the start that follows the kill before.
    if (kill % 2 === 0) continue;
    await until(async () => (await machine.readings("t1"))?.degrees === 25 && await machine.readings("t2"));
    returns.push(clock.monotonicMs() - killedMs);
  }
} finally {
  await machine[Symbol.asyncDispose]();
}
returns.sort((a, b) => a - b);
const at = (part: number) => Math.round(returns[Math.floor(part * (returns.length - 1))]);
console.log(
  `all resources came back ${returns.length} times, after ${at(0.5)} ms (median), ${at(1)} ms (longest)`,
);
