/**
 * What the device sees of its networks: the view of the network service, the Wi-Fi networks in range with the attempts to
 * join them, and whether the internet answers.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { isConnected, type KnownNetwork, type ProvisioningRules } from "./decision.ts";
import { InRange } from "./in_range.ts";
import { Internet, type InternetParts } from "./internet.ts";
import { managedProfiles, wifiFactsOf } from "./managed_profiles.ts";
import type { NetworkPort, NetworkView } from "./network_port.ts";

export interface NetworkSightParts extends Omit<InternetParts, "port"> {
  readonly port: Pick<NetworkPort, "look" | "scan" | "check">;
  readonly clock: Clock;
  readonly logger: Logger;
}

const SCAN_FAILURES_MAX = 3;

export class NetworkSight {
  readonly #inRange = new InRange();
  readonly #internet: Internet;
  #view: NetworkView | undefined;
  #scanFailures = 0;

  constructor(private readonly parts: NetworkSightParts) {
    this.#internet = new Internet(parts);
  }

  /** As of the last look. */
  get view(): NetworkView | undefined {
    return this.#view;
  }

  /** The Wi-Fi device is the one that `interfaceName` names, or else the first. */
  async look(interfaceName: string, signal: AbortSignal): Promise<NetworkView> {
    const seen = await this.parts.port.look(interfaceName, signal);
    const view = { ...seen, internet: await this.#internet.answers(seen, signal) };
    this.#inRange.see(view.inRange, this.parts.clock.monotonicMs());
    return this.#view = view;
  }

  /** Lets the Wi-Fi device look for networks; `isHotspot` while it is an access point. Returns whether it did. */
  async scan(device: string, isHotspot: boolean, signal: AbortSignal): Promise<boolean> {
    // Some chips cannot scan while they are an access point.
    if (isHotspot && this.#scanFailures >= SCAN_FAILURES_MAX) return false;
    try {
      await this.parts.port.scan(device, signal);
      this.#scanFailures = 0;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#scanFailures++;
      this.parts.logger.debug(`looking for networks failed: ${messageOf(error)}`);
    }
    return true;
  }

  /** The managed Wi-Fi networks, with what is known of each. */
  known(view: NetworkView): KnownNetwork[] {
    return managedProfiles(view).map((profile) => ({
      ...wifiFactsOf(profile),
      ...this.#inRange.of(profile.ssid),
    }));
  }

  isConnected(view: NetworkView, rules: ProvisioningRules): boolean {
    const { connectedTo } = view;
    return isConnected({ connectedTo, online: view.internet, networks: this.known(view) }, rules);
  }

  /** The Wi-Fi networks in range, and the one that was tried last. */
  seenNetworks() {
    const networks = this.#inRange.all()
      .map((one) => ({ ...one, connected: one.ssid === this.#view?.connectedTo }));
    return { networks, lastTried: networks.find(({ ssid }) => ssid === this.#inRange.lastTried) };
  }

  /** The device begins to join a network. */
  beginJoin(ssid: string): void {
    this.#inRange.tried(ssid, this.parts.clock.monotonicMs());
  }

  /** The device has joined the network, or failed for this reason. */
  endJoin(ssid: string, problem: string): void {
    this.#inRange.failed(ssid, problem);
    if (problem === "") this.forgetInternet();
  }

  /** Something has changed: what is known of the internet is outdated. */
  forgetInternet(): void {
    this.#internet.forget();
  }

  /** Tries the internet now. */
  async provesInternet(view: NetworkView, signal: AbortSignal): Promise<boolean> {
    return await this.#internet.proves(view, signal);
  }
}
