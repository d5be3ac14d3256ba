/** A real svc-server, whose resource breaks with a change, decides a rollout of a real control plane. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";
import { withManagedMachine } from "./managed.ts";
import { svcCloud } from "./program.ts";

/** A control plane looks at a rollout every five seconds, and the machine polls every second. */
const WITHIN_MS = 180_000;
const ODOMETRY = "ODOM 0.0 0.0 0.0 0.0 0.0 0.0 1.0 host 1.0\nODOM 0.1 0.0 0.0 0.0 0.0 0.0 2.0 host 2.0\n";

Deno.test("svc-server reports what a change breaks, and this halts a rollout, which takes it back", async () => {
  await withManagedMachine({}, async ({ example: { partId }, folder, flags }) => {
    const data = flags.slice(0, 2);
    const json = async (...args: string[]) => JSON.parse(await svcCloud(...args, ...data, "--json"));
    const status = () => json("rollout", "status", "--parts");
    const reached = async (state: string, partState: string) => {
      const isThere = async () => {
        const { state: own, parts } = await status();
        return own === state && parts[0].state === partState;
      };
      await until(isThere, { withinMs: WITHIN_MS, found: async () => JSON.stringify(await status()) });
      return await status();
    };
    /** A file with a fragment whose odometry replays this log. */
    const replaying = async (log: string) => {
      const attributes = { log: `${folder}/${log}` };
      const component = {
        name: "wheels",
        api: "rdk:component:movement_sensor",
        model: "svc:odometry:replay",
        attributes,
      };
      await Deno.writeTextFile(`${folder}/fragment.json`, JSON.stringify({ components: [component] }));
      return `${folder}/fragment.json`;
    };
    const unhealthyOf = async () => (await json("fleet")).machines[0].unhealthy;
    const start = async (log: string) =>
      await svcCloud(
        ...["rollout", "start", "--fragment", "odometry", "--config", await replaying(log)],
        // Its log has the same error, which is no matter here.
        ...["--step", "100%", "--soak", "3s", "--errors-max", "100", ...data],
      );

    for (const log of ["first.log", "third.log"]) await Deno.writeTextFile(`${folder}/${log}`, ODOMETRY);
    await svcCloud("fragment", "set", "odometry", await replaying("first.log"), ...data);
    await svcCloud("fragment", "apply", "odometry", partId, ...data);
    await until(async () => JSON.stringify(await unhealthyOf()) === "[]", { withinMs: WITHIN_MS });

    await start("missing.log");
    const halted = await reached("halted", "reverted");
    assertStringIncludes(halted.reason, "1 machine turned unhealthy in 100%");
    const { reason } = halted.parts[0];
    assertStringIncludes(reason, "broken since the change: rdk:component:movement_sensor/wheels");
    assertStringIncludes(reason, "missing.log");

    // With the former revision it is well again, and the next change finds it so.
    await until(async () => JSON.stringify(await unhealthyOf()) === "[]", { withinMs: WITHIN_MS });
    await svcCloud("rollout", "abort", halted.id, ...data);
    await start("third.log");
    const { reason: remark, parts } = await reached("completed", "healthy");
    assertEquals([remark, parts[0].reason], ["", ""]);
  });
});
