/** The page and the app's service of the hotspot, on a device whose ports others have. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { freePort } from "../../tests/support/free_port.ts";
import { openSetup } from "./networks.ts";

const HOST = "127.0.0.1";

function setUp() {
  const clock = new SystemClock();
  const warned: string[] = [];
  const sink = ({ level, message }: LogRecord) => void (level === "warn" && warned.push(message));
  const device = {
    ...{
      manufacturer: "Acme",
      model: "rover",
      fragmentId: "",
      agentVersion: "1",
      configured: false,
      online: false,
    },
    networks: [],
  };
  const submissions = new ProvisioningSubmissions(clock, () => device, () => {});
  return { submissions, warned, parts: { clock, logger: new Logs(clock, [sink]).logger("networks") } };
}

Deno.test("the page of the hotspot takes another port if a web server has the first one, and says where it is", async () => {
  const { submissions, warned, parts } = setUp();
  const [other, more] = [0, 0].map(() => Deno.listen({ hostname: HOST, port: 0 }));
  const taken = [other!, more!].map(({ addr }) => (addr as Deno.NetAddr).port);
  const free = freePort();
  const serving = await openSetup(submissions, HOST, parts, { page: [...taken, free], app: freePort() });
  try {
    const page = await fetch(`http://${HOST}:${free}/`);
    assertStringIncludes(await page.text(), "Set up Acme rover");
    assertEquals(warned.length, 1);
    assertStringIncludes(warned[0]!, `another program has port ${taken[0]}`);
    assertStringIncludes(warned[0]!, `it is at http://${HOST}:${free}`);
  } finally {
    await serving.close();
  }

  const everywhere = openSetup(submissions, HOST, parts, { page: taken, app: freePort() });
  assertEquals((await assertRejects(() => everywhere, SvcError)).code, "unavailable");
  for (const listener of [other!, more!]) listener.close();
});

Deno.test("the page of the hotspot has its usual port if it is free", async () => {
  const { submissions, warned, parts } = setUp();
  const [first, second] = [freePort(), freePort()];
  const serving = await openSetup(submissions, HOST, parts, { page: [first, second], app: freePort() });
  const page = await fetch(`http://${HOST}:${first}/`);
  await page.body?.cancel();
  await serving.close();
  assert(page.ok);
  assertEquals(warned, []);
});
