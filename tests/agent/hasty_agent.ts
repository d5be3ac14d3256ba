/**
 * svc-agent in a hurry, for tests: its pauses, limits and probations are divided by a factor, while answers of others
 * get their normal time. The product has no such setting: a device trusts a version after a minute.
 */

import { run } from "../../cli/agent/program.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { FastClock } from "../support/fast_clock.ts";

/**
 * The factor from the environment; the virtual machine sets its own, because its emulated processor is ten times
 * slower.
 */
const haste = Number(Deno.env.get("SVC_TEST_HASTE") ?? 4);

Deno.exit(await run(Deno.args, new DenoHost(), { paceOf: (clock) => new FastClock(clock, haste) }));
