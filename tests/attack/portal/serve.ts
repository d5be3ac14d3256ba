/** The portal of a device in a process of its own: prints its port, and ends with its standard input. */

import { ProvisioningSubmissions } from "../../../lib/agent/portal/submissions.ts";
import { openPortal } from "../../../lib/agent/portal/portal.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { Logs } from "../../../lib/base/log/log.ts";

const clock = new SystemClock();
const network = { security: "WPA2", connected: false, lastError: "" };
const names = Array.from({ length: 200 }, (_, at) => `<script>${at}</script>"'&\x1b[2J`);
const submissions = new ProvisioningSubmissions(clock, () => ({
  manufacturer: "Acme",
  model: "rover",
  fragmentId: "",
  agentVersion: "1.0.0",
  configured: false,
  online: false,
  networks: names.map((ssid, at) => ({ ...network, ssid, signal: at % 100 })),
}), () => {});
const logger = new Logs(clock, []).logger("portal");
const port = await openPortal({ submissions, clock, logger, bind: { host: "127.0.0.1", port: 0 } });
console.log(port.port);
for await (const _ of Deno.stdin.readable);
await port.close(0);
