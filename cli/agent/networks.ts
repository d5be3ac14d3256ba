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
import { type AgentSettings, settingsBeforeCloud } from "../../lib/agent/settings/settings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { type Bus, openBus } from "../../lib/base/bus/bus.ts";
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
/** Pause between looks for a message bus. */
const BUS_MS = 5_000;
/** Port of the published service. */
const APP_PORT = 4772;

/** The networks of a device with a message bus. */
interface ManagedNetworks {
  readonly networking: Networking;
  close(): Promise<void>;
}

/** Manages the device's networks from the moment on in which there is a message bus. */
export class BusNetworks implements Networks, Subsystem {
  readonly name = "networks";
  readonly subsystem = this;
  readonly known: Known = { configured: false, online: () => false };
  readonly isConnected = () => this.#managed?.networking.isConnected ?? false;
  readonly #parts: NetworksParts;
  readonly #stop = new AbortController();
  readonly #opening: Promise<void>;
  #managed: ManagedNetworks | undefined;
  /** The last settings that wait for the bus. */
  #settings: AgentSettings | undefined;

  constructor(parts: NetworksParts) {
    this.#parts = parts;
    this.#opening = this.#open();
  }

  async apply(settings: AgentSettings, signal: AbortSignal): Promise<void> {
    if (this.#managed) return await this.#managed.networking.apply(settings, signal);
    this.#settings = settings;
    if (
      settings.advanced.disableNetworkConfiguration || Object.keys(settings.additionalNetworks).length === 0
    ) return;
    throw new Error("there is no message bus (D-Bus) yet, so additional_networks are not applied");
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#opening;
    await this.#managed?.close();
  }

  /** A bus may start after the agent. */
  async #open(): Promise<void> {
    const { host, clock, logger } = this.#parts;
    const { signal } = this.#stop;
    for (let reported = ""; !signal.aborted && !this.#managed;) {
      try {
        this.#managed = await manage(await openBus(host, clock), this.#parts, this.known);
        if (reported !== "") logger.info("there is a message bus now: networks are managed");
      } catch (error) {
        const problem = messageOf(error);
        if (problem !== reported) logger.warn(`networks are not managed: ${problem}`);
        reported = problem;
        await clock.sleep(BUS_MS, signal).catch(() => {});
      }
    }
    if (!this.#settings || signal.aborted) return;
    // The agent's next pass repeats what fails here, and reports it.
    await this.#managed?.networking.apply(this.#settings, signal).catch(() => {});
  }
}

async function manage(bus: Bus, parts: NetworksParts, known: Known): Promise<ManagedNetworks> {
  const { config, host, clock, logger } = parts;
  const port = new NetworkManager(bus, clock);
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
    networking,
    async close() {
      stop.abort();
      await running;
      await networking.close();
      await port.close();
    },
  };
}

/**
 * Opens the page and the app's service. A port that another program has is replaced for the page, and is given up for
 * the app, whose port is published; both with a warning.
 */
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
    const app = await openPort({ table, clock, logger, sites: noSite, bind: { host, port: appPort } })
      .catch((error) => {
        if (SvcError.from(error).code !== "unavailable") throw error;
        // The page does the same, and nobody could set the device up without the hotspot.
        logger.warn(`another program has port ${appPort}, so no app finds this device, only the page`);
      });
    return { close: async () => void await Promise.all([portal.close(0), app?.close(0)]) };
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
