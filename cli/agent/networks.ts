/**
 * Composes the agent's network management: NetworkManager and BlueZ over the system's bus, the portal and the app's
 * service.
 */

import { join } from "node:path";
import type { Subsystem } from "../../lib/agent/settings/subsystem.ts";
import { Bluetooth } from "../../lib/agent/bluetooth/bluetooth.ts";
import { reaches } from "../../lib/agent/network/internet.ts";
import { NetworkManager } from "../../lib/agent/network/network_manager.ts";
import { Networking } from "../../lib/agent/network/networking.ts";
import type { Serving } from "../../lib/agent/network/hotspot.ts";
import { ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { openPortal } from "../../lib/agent/portal/portal.ts";
import { provisioningHandlers } from "../../lib/agent/portal/provisioning_service.ts";
import { readCredentials, writeCredentials } from "../../lib/agent/settings/credentials.ts";
import { settingsBeforeCloud } from "../../lib/agent/settings/settings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { openBus } from "../../lib/base/bus/bus.ts";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import type { DenoHost } from "../../lib/base/host_deno.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { openPort, type Port } from "../../lib/wire/port/port.ts";
import { noSite } from "../../lib/wire/port/sites.ts";
import { ServiceTable } from "../../lib/wire/rpc/service.ts";
import { VERSION } from "../version.ts";

export interface NetworksParts {
  /** The file of the machine's credentials. */
  readonly config: string;
  /** The agent's own folder. */
  readonly dir: string;
  /** The file of the manufacturer's settings. */
  readonly defaults: string;
  readonly host: DenoHost;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The agent's knowledge that network management needs. */
export interface Known {
  configured: boolean;
  /** Whether the control plane answers. */
  online: () => boolean;
}

/** The managed networks. */
export interface Networks {
  readonly known: Known;
  readonly subsystem: Subsystem;
  /** Whether the device is connected as the settings want it: to its first Wi-Fi network, or to the internet. */
  readonly isConnected: () => boolean;
  /** Stops the hotspot and the management. */
  close(): Promise<void>;
}

/** The ports of the page, in the order of choice: a web server of the device may have the first one. */
const PORTAL_PORTS = [80, 8080, 8880];
/** Port of the published service. */
const APP_PORT = 4772;

/** Manages the device's networks; without a message bus it warns and returns `undefined`. */
export async function openNetworks(parts: NetworksParts): Promise<Networks | undefined> {
  const { config, host, clock, logger } = parts;
  const bus = await openBus(host).catch((error) =>
    void logger.warn(`networks are not managed: ${messageOf(error)}`)
  );
  if (!bus) return undefined;
  const port = new NetworkManager(bus, clock);
  const known: Known = { configured: false, online: () => false };
  const networking = new Networking({
    ...{ port, files: host, clock, logger },
    submissions: (device, take) => new ProvisioningSubmissions(clock, device, take),
    hostname: host.hostname(),
    refusedFile: join(parts.dir, "state", "refused_networks.json"),
    agentVersion: VERSION,
    isConfigured: () => known.configured,
    reachesCloud: () => known.online(),
    tryCloud: async (signal) => {
      const credentials = await readCredentials(host, config).catch(() => undefined);
      return credentials && await reaches(credentials.appAddress, signal);
    },
    configure: (credentials) => writeCredentials(host, config, credentials),
    serve: (submissions, address) => openSetup(submissions, address, parts),
  }, await settingsBeforeCloud(host, parts.dir, parts.defaults));
  const stop = new AbortController();
  const bluetooth = new Bluetooth({
    ...{ bus, clock, logger, submissions: networking.submissions },
    offer: () => networking.bluetoothOffer(),
    paired: (address) =>
      void networking.tether(address, stop.signal).catch((error) => {
        if (!stop.signal.aborted) logger.warn(`not online through the phone ${address}: ${messageOf(error)}`);
      }),
  });
  const running = Promise.all([networking.run(stop.signal), bluetooth.run(stop.signal)]);
  return {
    known,
    subsystem: networking,
    isConnected: () => networking.isConnected,
    async close() {
      stop.abort();
      await running;
      await networking.close();
      await port.close();
    },
  };
}

/** Opens the page and the app's service. A port that another program has is replaced for the page, with a warning. */
export async function openSetup(
  submissions: ProvisioningSubmissions,
  host: string,
  { clock, logger }: Pick<NetworksParts, "clock" | "logger">,
  { page = PORTAL_PORTS, app: appPort = APP_PORT }: { page?: readonly number[]; app?: number } = {},
): Promise<Serving> {
  const portal = await openPage(
    page,
    (port) => openPortal({ submissions, clock, logger, bind: { host, port } }),
  );
  if (portal.port !== page[0]) {
    logger.warn(
      `another program has port ${
        page[0]
      }, so phones do not show the page by themselves: it is at ${portal.url}`,
    );
  }
  try {
    const table = new ServiceTable(clock);
    table.add(provisioningHandlers(submissions));
    const app = await openPort({ table, clock, logger, sites: noSite, bind: { host, port: appPort } });
    return { close: async () => void await Promise.all([portal.close(0), app.close(0)]) };
  } catch (error) {
    await portal.close(0);
    throw error;
  }
}

/** Opens at the first port that no other program has. */
async function openPage(
  [port, ...others]: readonly number[],
  open: (port: number) => Promise<Port>,
): Promise<Port> {
  try {
    return await open(port!);
  } catch (error) {
    if (SvcError.from(error).code !== "unavailable" || others.length === 0) throw error;
    return await openPage(others, open);
  }
}
