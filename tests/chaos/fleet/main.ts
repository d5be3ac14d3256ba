/**
 * A fleet under faults: deno task chaos:fleet [minutes (10)] [seed] [devices (20)].
 *
 * Needs PostgreSQL, Node.js and a C compiler; full disks need root. Prints the seed first.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import { runFleetChaos } from "./fleet_chaos.ts";

const [minutes = "10", seed = String(new SystemClock().nowMs() % 1_000_000), devices = "20"] = Deno.args;
console.log(`${devices} devices, ${minutes} minutes, seed ${seed}`);
await runFleetChaos({
  minutes: Number(minutes),
  seed: Number(seed),
  devices: Number(devices),
  print: console.log,
});
Deno.exit(0);
