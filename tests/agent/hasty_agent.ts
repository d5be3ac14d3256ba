/**
 * svc-agent in a hurry, for tests: its pauses, limits and probations are so many times shorter. What others take to
 * answer is waited for as ever. The product has no such setting: a device's versions are believed after a minute.
 */

import { run } from "../../cli/agent/program.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { FastClock } from "../support/fast_clock.ts";

/** Of whoever starts it, or that of the virtual machine, whose emulated processor takes ten times as long. */
const haste = Number(Deno.env.get("SVC_TEST_HASTE") ?? 4);

Deno.exit(await run(Deno.args, new DenoHost(), { paceOf: (clock) => new FastClock(clock, haste) }));
