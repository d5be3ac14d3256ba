/**
 * The device's hotspot: the access point, the DNS names that lead to the device, the portal and the app's service.
 *
 * Opens all of them or none.
 */

import type { Clock } from "../../base/clock.ts";
import { deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Intake } from "../portal/intake.ts";
import type { NetworkSettings } from "../settings/settings_rows.ts";
import { writeIfOther } from "../system/drop_in.ts";
import type { NetworkPort, NetworkProfile, NetworkView } from "./network_port.ts";
import { HOTSPOT_ADDRESS, hotspotProfile } from "./profiles.ts";

/** A server until it is closed. */
export interface Serving {
  close(): Promise<void>;
}

export interface HotspotParts {
  readonly port: NetworkPort;
  readonly intake: Intake;
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly hostname: string;
  /** Starts the portal and the app's service at an address. */
  readonly serve: (intake: Intake, address: string) => Promise<Serving>;
  readonly root?: string;
}

/** Read by NetworkManager's name server for a shared network. */
const NAMES_FILE = "/etc/NetworkManager/dnsmasq-shared.d/80-svc.conf";
const SSID_BYTES_MAX = 32;
const CLOSE_MS = 15_000;

export class Hotspot {
  #profile: NetworkProfile | undefined;
  #serving: Serving | undefined;

  constructor(private readonly parts: HotspotParts) {}

  get isOpen(): boolean {
    return this.#profile !== undefined;
  }

  async open(settings: NetworkSettings, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { port, files, hostname, intake, serve, logger, root = "" } = this.parts;
    const { hotspotPassword, disableCaptivePortalRedirect } = settings;
    const ssid = hotspotName(settings, hostname);
    intake.forget();
    await writeIfOther(files, `${root}${NAMES_FILE}`, namesText(disableCaptivePortalRedirect ?? false));
    const wanted = hotspotProfile(ssid, hotspotPassword, view.wifiDevice!);
    this.#profile = await port.put(wanted, view.profiles, signal);
    try {
      await port.activate(this.#profile, view.wifiDevice!, signal);
      this.#serving = await serve(intake, HOTSPOT_ADDRESS);
    } catch (error) {
      await this.close();
      throw error;
    }
    logger.info(`the hotspot ${ssid} is open`, { device: view.wifiDevice, address: HOTSPOT_ADDRESS });
  }

  /** Closes only an open hotspot; a working network is left alone. */
  async close(): Promise<void> {
    const { port, clock } = this.parts;
    const profile = this.#profile;
    this.#profile = undefined;
    await this.#serving?.close();
    this.#serving = undefined;
    if (!profile) return;
    // Also when the agent is told to stop.
    const late = deadline(
      clock,
      CLOSE_MS,
      () => new SvcError("deadline_exceeded", "the hotspot does not end"),
    );
    try {
      await port.deactivate(profile, late.signal);
    } finally {
      late.done();
    }
  }
}

/** `svc-setup-` and the host name, or the settings' prefix; at most as long as a network's name may be. */
export function hotspotName(
  { hotspotSsid, hotspotPrefix }: Pick<NetworkSettings, "hotspotSsid" | "hotspotPrefix">,
  hostname: string,
): string {
  if (hotspotSsid !== "") return hotspotSsid;
  const bytes = new TextEncoder().encode(`${hotspotPrefix}-${hostname}`);
  return new TextDecoder().decode(bytes.subarray(0, SSID_BYTES_MAX)).replace(/\ufffd+$/, "");
}

/** dnsmasq(8): every name leads to the device, or only those in `.setup`. */
export function namesText(onlySetup: boolean): string {
  return `# Written by svc-agent\naddress=/${onlySetup ? "setup" : "#"}/${HOTSPOT_ADDRESS}\n`;
}
