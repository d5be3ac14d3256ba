/** Starts the processes of commands from afar: `svc-cloud` starts itself as `svc-cloud command-worker`. */

import { fileURLToPath } from "node:url";
import type { Host } from "../../../lib/base/host.ts";
import type { CommandHost } from "../../../lib/cloud/services/operations/command_service.ts";
import { orderBytes, type WorkerOrder } from "../remote/worker_order.ts";
import { denoFolder } from "./content.ts";

/** The internal command of `main.ts`; help does not list it. */
const COMMAND_WORKER = "command-worker";

/**
 * What a command needs of the control plane's environment: ways to its database and to its files in a store, the
 * runtime's own, and the system's.
 */
const NEEDED =
  /^(?:PG[A-Z]+|AWS_[A-Z0-9_]+|SSL_CERT_(?:FILE|DIR)|DENO_TLS_CA_STORE|(?:HTTPS?|ALL|NO|SOCKS)_PROXY|LANG|LC_ALL|TZ|HOME|USERPROFILE|SYSTEMROOT|TEMP|TMP|TMPDIR|PATH)$/i;

export function openCommands(place: WorkerOrder["place"], host: Host): CommandHost {
  const { data, database, keys, files, limits } = place;
  const own = { data, database, keys, files, limits };
  const env = Object.fromEntries(Object.entries(host.environment()).filter(([name]) => NEEDED.test(name)));
  return {
    host,
    start: async (run, folder) => {
      const process = host.pipe({
        command: Deno.execPath(),
        args: programArgs(),
        env: { ...env, ...runtimeEnv() },
        bare: true,
        cwd: folder,
        ownGroup: true,
      });
      // Not on the command line, which other users of this computer see.
      await process.write(orderBytes({ run, place: own }));
      return process;
    },
  };
}

function programArgs(): string[] {
  if (Deno.build.standalone) return [COMMAND_WORKER];
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  const options = ["run", "-A", "--cached-only", "--config", `${root}deno.json`];
  return [...options, `${root}cli/cloud/main.ts`, COMMAND_WORKER];
}

function runtimeEnv(): Record<string, string> {
  return Deno.build.standalone ? {} : { DENO_DIR: denoFolder(), DENO_NO_UPDATE_CHECK: "1" };
}
