/**
 * Kills control planes, and what they share, at random under load: deno task chaos:cloud [kills (50)] [seed].
 *
 * Needs PostgreSQL and Node.js. Prints the seed first, and at the end what was acknowledged and found.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { chaosLine, runChaos } from "./chaos.ts";

const clock = new SystemClock();
const [kills = "50", seed = String(clock.nowMs() % 1_000_000)] = Deno.args;
console.log(`${kills} kills, seed ${seed}`);
const startMs = clock.monotonicMs();
const options = {
  kills: Number(kills),
  seed: Number(seed),
  lifeWrites: 40,
  withPipeline: true,
  withShared: true,
  print: console.log,
};
console.log(chaosLine(await runChaos(options)));
console.log(`${Math.round((clock.monotonicMs() - startMs) / 1000)} s`);
Deno.exit(0);
