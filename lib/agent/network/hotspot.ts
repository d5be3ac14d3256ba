/**
 * The device's hotspot: the access point, the DNS names that lead to the device, the portal and the app's service.
 *
 * Opens all of these or none.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { ProvisioningSubmissions } from "../portal/submissions.ts";
import type { NetworkSettings } from "../settings/settings_fields.ts";
import { writeIfOther } from "../system/drop_in.ts";
import type { NetworkPort, NetworkProfile, NetworkView } from "./network_port.ts";
import { ROUTES_FILE } from "../system/routes.ts";
import { HOTSPOT_ADDRESS, hotspotAddress } from "./hotspot_address.ts";
import { hotspotProfile, type ProfileWanted } from "./profiles.ts";
import { withoutEnd } from "../../base/escape.ts";

/** A server until it is closed. */
export interface Serving {
  close(): Promise<void>;
}

export interface HotspotParts {
  readonly port: NetworkPort;
  readonly submissions: ProvisioningSubmissions;
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly hostname: string;
  /** Starts the portal and the app's service at an address. */
  readonly serve: (submissions: ProvisioningSubmissions, address: string) => Promise<Serving>;
  readonly root?: string;
}

/**
 * NetworkManager's name server reads this file whenever a shared network starts, including networks of the user, so
 * it exists only while the hotspot opens or is open.
 */
export const NAMES_FILE = "/etc/NetworkManager/dnsmasq-shared.d/80-svc.conf";
const SSID_BYTES_MAX = 32;
const ENDING_DIGITS = 4;
const CLOSE_MS = 15_000;

export class Hotspot {
  #profile: NetworkProfile | undefined;
  #serving: Serving | undefined;
  #address: string = HOTSPOT_ADDRESS;
  /** Behind the usual name, since another device's hotspot with that name was in range. */
  #ending = "";
  /** It was open, and opens again at another address. */
  #isMoving = false;

  constructor(private readonly parts: HotspotParts) {}

  get isOpen(): boolean {
    return this.#profile !== undefined;
  }

  /** Its name; known for sure while it is open. */
  nameBy(settings: Pick<NetworkSettings, "hotspotSsid" | "hotspotPrefix">): string {
    return hotspotName(settings, this.parts.hostname, this.#ending);
  }

  async open(settings: NetworkSettings, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { port, files, submissions, serve, logger, root = "" } = this.parts;
    const { hotspotPassword, disableCaptivePortalRedirect } = settings;
    await this.#avoidNamesake(settings, view);
    const ssid = this.nameBy(settings);
    submissions.forget();
    const address = await this.#chooseAddress(view);
    const names = namesText(disableCaptivePortalRedirect ?? false, address);
    // Without the names, which a full disk may prevent, a person has to enter the address; this is better than no
    // hotspot.
    await writeIfOther(files, `${root}${NAMES_FILE}`, names).catch((error) =>
      logger.warn(`phones do not show the page by themselves: ${messageOf(error)}`)
    );
    try {
      this.#profile = await this.#profileFor(
        hotspotProfile(ssid, hotspotPassword, view.wifiDevice!, address),
        view,
        signal,
      );
      await port.activate(this.#profile, view.wifiDevice!, signal);
      this.#serving = await serve(submissions, address);
    } catch (error) {
      await this.#end();
      await this.forgetNames();
      throw error;
    }
    logger.info(`the hotspot ${ssid} is open`, { device: view.wifiDevice, address });
  }

  /** Opens an open hotspot anew at another address, if a network of the device has its address by now. */
  async avoidNetworks(settings: NetworkSettings, view: NetworkView, signal: AbortSignal): Promise<void> {
    if (!this.isOpen && !this.#isMoving) return;
    const { address } = hotspotAddress(await this.#routes(), view.wifiDevice ?? "", this.#address);
    if (this.isOpen && address === this.#address) return;
    await this.close();
    // If it does not open now, the next pass tries again.
    this.#isMoving = true;
    await this.open(settings, view, signal);
    this.#isMoving = false;
  }

  /**
   * Two devices made from one image would open hotspots with the same name, and a phone would move between them in the
   * middle of the setup. The later one adds the end of its hardware address.
   */
  async #avoidNamesake(settings: NetworkSettings, { inRange, wifiDevice }: NetworkView): Promise<void> {
    const { files, logger, root = "" } = this.parts;
    const usual = this.nameBy(settings);
    if (this.#ending !== "" || settings.hotspotSsid !== "") return;
    if (!inRange.some(({ ssid }) => ssid === usual)) return;
    const hardware = await files.readTextFile(`${root}/sys/class/net/${wifiDevice}/address`).catch(() => "");
    const digits = hardware.trim().replaceAll(":", "");
    if (!/^[\da-f]{12}$/.test(digits)) return;
    this.#ending = `-${digits.slice(-ENDING_DIGITS)}`;
    logger.warn(`another device in range has a hotspot named ${usual}: this one is ${this.nameBy(settings)}`);
  }

  async #chooseAddress({ wifiDevice = "" }: NetworkView): Promise<string> {
    const { address, taken } = hotspotAddress(await this.#routes(), wifiDevice);
    this.#address = address;
    if (taken === undefined) return address;
    const why = `${HOTSPOT_ADDRESS}, the usual address of the hotspot, belongs to the network ${taken}`;
    const what = address === HOTSPOT_ADDRESS
      ? "so do the others that it could have, and phones may not find the page"
      : `it has ${address} instead. The page opens there; an app that asks the usual address does not find the device`;
    this.parts.logger.warn(`${why}; ${what}`);
    return address;
  }

  /** Empty where the system has no such table. */
  #routes(): Promise<string> {
    const { files, root = "" } = this.parts;
    return files.readTextFile(`${root}${ROUTES_FILE}`).catch(() => "");
  }

  /**
   * Closes only an open hotspot; a working network is left alone. Ends within twice `CLOSE_MS` even if the portal or
   * the network service never answers, because the agent's end waits for it.
   */
  async close(): Promise<void> {
    this.#isMoving = false;
    await this.#end();
  }

  async #end(): Promise<void> {
    const { port, logger } = this.parts;
    const [profile, serving] = [this.#profile, this.#serving];
    this.#profile = undefined;
    this.#serving = undefined;
    if (serving) {
      // The access point ends even if the portal does not.
      await this.#inTime("the portal", () => serving.close()).catch((error) =>
        logger.warn(`the portal did not end: ${messageOf(error)}`)
      );
    }
    try {
      if (profile) await this.#inTime("the hotspot", (signal) => port.deactivate(profile, signal));
    } finally {
      if (profile) await this.forgetNames();
    }
  }

  /** Removes the names of the hotspot that this agent or an earlier one has opened. */
  async forgetNames(): Promise<void> {
    const { files, logger, root = "" } = this.parts;
    await writeIfOther(files, `${root}${NAMES_FILE}`, undefined)
      .catch((error) => logger.warn(`the names of the hotspot stay: ${messageOf(error)}`));
  }

  /** Writes the profile; if the service cannot write it, uses an earlier profile with the same content. */
  async #profileFor(
    wanted: ProfileWanted,
    { profiles }: NetworkView,
    signal: AbortSignal,
  ): Promise<NetworkProfile> {
    return await this.parts.port.put(wanted, profiles, signal).catch((error) => {
      const there = profiles.find(({ name, digest }) => name === wanted.name && digest === wanted.digest);
      if (!there || signal.aborted) throw error;
      return there;
    });
  }

  /** Runs a part of the shutdown with a time limit, even if the agent has been told to stop. */
  async #inTime(what: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const late = deadline(
      this.parts.clock,
      CLOSE_MS,
      () => new SvcError("deadline_exceeded", `${what} did not end within ${CLOSE_MS / 1000} s`),
    );
    try {
      await race(work(late.signal), late.signal);
    } finally {
      late.done();
    }
  }
}

/** `svc-setup-` and the host name, or the settings' prefix; with the ending at most as long as a name may be. */
export function hotspotName(
  { hotspotSsid, hotspotPrefix }: Pick<NetworkSettings, "hotspotSsid" | "hotspotPrefix">,
  hostname: string,
  ending = "",
): string {
  if (hotspotSsid !== "") return hotspotSsid;
  const bytes = new TextEncoder().encode(`${hotspotPrefix}-${hostname}`);
  const first = new TextDecoder().decode(bytes.subarray(0, SSID_BYTES_MAX - ending.length));
  return `${withoutEnd(first, "\ufffd")}${ending}`;
}

/** dnsmasq(8): every name leads to the device, or only those in `.setup`. */
export function namesText(onlySetup: boolean, address: string): string {
  return `# Written by svc-agent\naddress=/${onlySetup ? "setup" : "#"}/${address}\n`;
}
