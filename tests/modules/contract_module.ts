/** The built-in models as a module has them, each under a name of this module: for the contract tests. */

import { MODELS } from "../../drivers/mod.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { model, serveModule } from "../../lib/module/mod.ts";

/** A shell of it reads no files of its user. */
class Host extends DenoHost {
  override env(name: string) {
    return name === "SHELL" ? "/bin/sh" : super.env(name);
  }
}

const host = new Host();

await serveModule(MODELS.map((one) =>
  model({
    ...one,
    name: `test:contract:${one.name.replaceAll(":", "_")}`,
    construct: (from) => one.construct({ ...from, host }),
  })
));
