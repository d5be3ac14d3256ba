/** The page and the app's service of the hotspot, on a device whose ports others have. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { freePort } from "../../tests/support/free_port.ts";
import { decideSettings } from "../../lib/agent/settings/settings.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { needingTest } from "../../tests/support/needing.ts";
import { busDaemon, PrivateBus } from "../../tests/support/private_bus.ts";
import { QuickClock } from "../../tests/support/quick_clock.ts";
import { until } from "../../tests/support/until.ts";
import { BusNetworks, openSetup } from "./networks.ts";

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

Deno.test("the page of the hotspot opens without the app's service if another program has its port", async () => {
  const { submissions, warned, parts } = setUp();
  const other = Deno.listen({ hostname: HOST, port: 0 });
  const [page, app] = [freePort(), (other.addr as Deno.NetAddr).port];
  const serving = await openSetup(submissions, HOST, parts, { page: [page], app });
  try {
    const answer = await fetch(`http://${HOST}:${page}/`);
    assertStringIncludes(await answer.text(), "Set up Acme rover");
    assertEquals(warned.length, 1);
    assertStringIncludes(warned[0]!, `another program has port ${app}, so no app finds this device`);
  } finally {
    await serving.close();
    other.close();
  }
  const again = Deno.listen({ hostname: HOST, port: page });
  again.close();
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

const NEEDED = await busDaemon();

needingTest(
  "an agent that starts before the message bus manages networks as soon as it is there",
  NEEDED,
  async () => {
    const dir = await Deno.makeTempDir({ prefix: "svc-networks-" });
    const clock = new QuickClock();
    const lines: string[] = [];
    const logger = new Logs(clock, [({ message }: LogRecord) => void lines.push(message)]).logger("networks");
    const host = new DenoHost();
    let address = `unix:path=${dir}/none`;
    host.env = (name) => name === "DBUS_SYSTEM_BUS_ADDRESS" ? address : Deno.env.get(name);
    const files = { dir, config: `${dir}/svc.json`, defaults: `${dir}/defaults.json` };
    const networks = new BusNetworks({ ...files, host, clock, logger });
    const { signal } = new AbortController();
    const none = decideSettings({}).settings;
    const hall = { type: "wired", interface: "eth9" };
    const some = decideSettings({ cloud: { additional_networks: { hall } } }).settings;
    try {
      await networks.subsystem.apply(none, signal);
      await assertRejects(() => networks.subsystem.apply(some, signal), Error, "no message bus");
      await until(() => Promise.resolve(lines.length > 0));
      assertStringIncludes(lines[0]!, `networks are not managed: there is no message bus at ${address}`);
      await clock.sleep(50_000);
      assertEquals(lines.length, 1, "it is told once");

      const privateBus = await PrivateBus.start();
      address = privateBus.host.env("DBUS_SYSTEM_BUS_ADDRESS")!;
      await until(() => Promise.resolve(lines.includes("there is a message bus now: networks are managed")));
      await assertRejects(
        () => networks.subsystem.apply(none, signal),
        Error,
        "org.freedesktop.NetworkManager",
      );
      await networks.close();
      await privateBus.stop();
    } finally {
      await networks.close();
      await Deno.remove(dir, { recursive: true });
    }
  },
);
