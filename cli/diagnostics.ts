/**
 * The commands of `svc-server` that look at things and serve nothing.
 */

import { SystemClock } from "../lib/base/clock.ts";
import { chainOf } from "../lib/base/error.ts";
import type { Host } from "../lib/base/host.ts";
import { decodeConfig } from "../lib/machine/config.ts";
import { readConfig } from "../lib/machine/config_file.ts";
import { checkNetwork, formatReport } from "../lib/machine/network_check.ts";
import { systemNetwork } from "../lib/machine/system_network.ts";
import type { Registry } from "../lib/resource/registry.ts";

/** Checks the network and prints a report; a configuration, if there is one, tells where the control plane is. */
export async function networkCheck(configPath: string, registry: Registry, host: Host): Promise<void> {
  const appAddress = await appAddressOf(configPath, registry, host);
  const findings = await checkNetwork({ network: systemNetwork(host), clock: new SystemClock(), appAddress });
  host.write(formatReport(findings));
}

async function appAddressOf(path: string, registry: Registry, host: Host): Promise<string | undefined> {
  if (path === "") return undefined;
  try {
    const json = await readConfig(host, path);
    return decodeConfig(json, registry, { env: (name) => host.env(name) }).config.cloud?.appAddress;
  } catch (error) {
    host.writeError(`svc-server: the control plane is not checked: ${chainOf(error)}\n`);
    return undefined;
  }
}
