/** Replaces the kept configuration again and again, as fast as it can, and says so: to be killed on the way. */

import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { ConfigCache } from "../../lib/machine/config/cache.ts";

const [home, partId] = Deno.args;
const host = new DenoHost();
const cache = new ConfigCache({ home, partId, host, logger: silentLogs(new SystemClock()).logger("rdk") });
// Large enough that most of the time goes by while it is written.
const filler = "x".repeat(4 * 1024 * 1024);
for (let revision = 1;; revision++) {
  host.write(`${revision}\n`);
  await cache.write({ revision, filler, end: revision });
}
