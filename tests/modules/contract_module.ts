/** The built-in models as a module has them, each under a name of this module: for the contract tests. */

import { MODELS } from "../../drivers/mod.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { model, serveModule } from "../../lib/module/mod.ts";
import { HostWithDevices } from "../support/host_with_devices.ts";

const host = new HostWithDevices(new SystemClock());

await serveModule(MODELS.map((one) =>
  model({
    ...one,
    name: `test:contract:${one.name.replaceAll(":", "_")}`,
    construct: (from) => one.construct({ ...from, host }),
  })
));
