/** A control plane of one's own, started by `svc-ml` and found again by it. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { svcMl } from "./program.ts";

/** It starts the control plane, and ends then for want of the dataset. */
const SUBMIT = ["submit", "--embedded", "--model-type", "object-detection", "--dataset", "none-of-this-name"];
const PROGRAM = new URL("../../cli/ml/main.ts", import.meta.url).pathname;

Deno.test("submit --embedded starts svc-cloud, reuses it, and restarts it in the same folder", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-ml-" });
  const running = new Set<number>();
  // In a process of its own, because its child outlives it.
  const submit = async () => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", PROGRAM, ...SUBMIT],
      env: { SVC_HOME: home, SVC_BASE_URL: "", SVC_API_KEY: "", SVC_API_KEY_ID: "", SVC_ORG_ID: "" },
      stdin: "null",
    }).output();
    const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    const [, pid] = /as process (\d+);/.exec(errors) ?? [];
    if (pid) running.add(Number(pid));
    return { code, output, errors };
  };
  const kill = () => {
    for (const pid of running) Deno.kill(pid, "SIGKILL");
    running.clear();
  };
  const ml = (...args: string[]) => svcMl(args, { env: { SVC_HOME: home } });
  try {
    const first = await submit();
    assertStringIncludes(first.errors, `made a control plane with an example in ${home}/cloud\n`);
    assertStringIncludes(first.errors, `its key is kept as profile "embedded" in ${home}/profiles.json\n`);
    assertStringIncludes(first.errors, 'there is no dataset "none-of-this-name"');
    assertEquals([first.code, running.size], [4, 1]);
    // It is used from now on, without being named.
    assertEquals((await ml("list", "--json")).output, '{"jobs":[]}\n');
    const again = await submit();
    assertMatch(again.errors, /^using svc-cloud at http:\/\/localhost:\d+\n/);
    await ml("dataset", "create", "mine");
    kill();
    assertEquals((await ml("list")).code, 1);
    await submit();
    assertEquals(running.size, 1);
    assertMatch((await ml("dataset", "list")).output, /^mine {2}/m);
    const stopped = await ml("embedded", "stop");
    assertMatch(stopped.output, /^svc-cloud at http:\/\/localhost:\d+ has stopped\n$/);
    running.clear();
    assertEquals((await ml("embedded", "stop")).code, 5);
    // Without its profile a new key is made: nothing in the folder is lost.
    await Deno.remove(`${home}/profiles.json`);
    const lost = await submit();
    assertStringIncludes(lost.errors, `found a control plane in ${home}/cloud and made a new key to it\n`);
    assertMatch((await ml("dataset", "list")).output, /^mine {2}/m);
  } finally {
    kill();
    await Deno.remove(home, { recursive: true });
  }
});
