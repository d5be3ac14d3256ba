/**
 * The devices of this computer as proposed entries of a configuration: what the built-in discovery services find.
 */

import { type Discovered, type Discovery, DiscoveryApi } from "../../../lib/api/services/discovery.ts";
import { deadline, race, SystemClock } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { silentLogs } from "../../../lib/base/log/log.ts";
import { decodeConfig } from "../../../lib/machine/config/config.ts";
import { Machine } from "../../../lib/machine/graph/machine.ts";
import type { Registry } from "../../../lib/resource/registry.ts";

export type FoundDevice = Discovered;

const DISCOVERY_MS = 10_000;

/** `tell` receives why a kind of device could not be looked for. */
export async function findDevices(
  host: Host,
  registry: Registry,
  tell: (text: string) => void,
): Promise<readonly FoundDevice[]> {
  const models = registry.names.filter(({ api, model }) =>
    api === DiscoveryApi.name && !model.endsWith(":fake")
  );
  const services = models.map(({ api, model }) => ({
    name: model.slice(model.lastIndexOf(":") + 1),
    api,
    model,
  }));
  const clock = new SystemClock();
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host });
  try {
    const { config } = await decodeConfig({ services }, registry, { env: (name) => host.env(name) });
    await machine.apply(config);
    const found: FoundDevice[] = [];
    for (const { name } of services) {
      found.push(
        ...await discovered(machine, name, clock).catch((error) => {
          tell(`looking for devices (${name}): ${chainOf(error)}`);
          return [];
        }),
      );
    }
    return found;
  } finally {
    await machine.close();
  }
}

async function discovered(
  machine: Machine,
  name: string,
  clock: SystemClock,
): Promise<readonly FoundDevice[]> {
  const service = machine.find(DiscoveryApi.name, name) as Discovery;
  const late = () => new SvcError("deadline_exceeded", `no answer within ${DISCOVERY_MS / 1000} s`);
  const { signal, done } = deadline(clock, DISCOVERY_MS, late);
  try {
    return await race(service.discoverResources(), signal);
  } finally {
    done();
  }
}
