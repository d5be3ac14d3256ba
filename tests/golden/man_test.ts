/**
 * The manual pages in `docs/man` are what `svc-agent man`, `svc-cloud man` and `svc-ml man` print. `deno task golden` rewrites them.
 */

import { assertEquals } from "@std/assert";
import { main as svcAgent } from "../../cli/agent/main.ts";
import { main as svcCloud } from "../../cli/cloud/main.ts";
import { main as svcMl } from "../../cli/ml/main.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";

for (
  const [program, main] of Object.entries({ "svc-agent": svcAgent, "svc-ml": svcMl, "svc-cloud": svcCloud })
) {
  Deno.test(`${program} man equals docs/man/${program}.1`, async () => {
    const page = new URL(`../../docs/man/${program}.1`, import.meta.url);
    const host = new DenoHost();
    let written = "";
    host.write = (text) => void (written += text);
    host.env = () => undefined;
    assertEquals(await main(["man"], host), 0);
    if (Deno.args.includes("--update")) await Deno.writeTextFile(page, written);
    const kept = await Deno.readTextFile(page);
    assertEquals(written, kept, `${program}.1 differs; if that is right, run: deno task golden`);
  });
}
