/**
 * svc-cloud, svc-server or svc-agent whose clock runs faster than the system's: `fast_program.ts PROGRAM ARGUMENT …`.
 *
 * SVC_BENCH_PACE is the factor, SVC_BENCH_BEGAN the time at which their common clock began to run fast: tokens of one
 * program are as old to the others.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";

const pace = Number(Deno.env.get("SVC_BENCH_PACE"));
const beganMs = Number(Deno.env.get("SVC_BENCH_BEGAN"));
const { nowMs, monotonicMs, after } = SystemClock.prototype;
Object.assign(SystemClock.prototype, {
  nowMs: () => Math.floor(beganMs + (nowMs() - beganMs) * pace),
  monotonicMs: () => monotonicMs() * pace,
  after: (ms: number, run: () => void) => after(ms / pace, run),
});

const [program, ...args] = Deno.args;
const { main } = await import(new URL(`../../cli/${program}/main.ts`, import.meta.url).href);
Deno.exit(await main(args, new DenoHost()));
