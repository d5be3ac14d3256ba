/** The built-in models as a module has them, each under a name of this module: for the contract tests. */

import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { model, serveModule } from "../../lib/module/mod.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { HostWithDevices } from "../support/host_with_devices.ts";

const models = await new Registry(APIS, MODELS).all();
const host = new HostWithDevices(new SystemClock());

await serveModule(models.map((one) =>
  model({
    ...one,
    name: `test:contract:${one.name.replaceAll(":", "_")}`,
    construct: (from) => one.construct({ ...from, host }),
  })
));
