/**
 * Applies the settings to the device's networks: the entries of `additional_networks`, power saving, and the hotspot
 * for setup.
 *
 * Observes with `NetworkSight`, decides with `SetupProgress`, and acts, one step after another. `ConfiguredNetworks`
 * applies what the configuration names. Foreign profiles are never touched. The hotspot ends with the agent.
 */

import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf, messageOf } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import { LogOnChange } from "../../base/log/on_change.ts";
import type { BluetoothOffer } from "../bluetooth/bluetooth.ts";
import type { ProvisioningSubmission, ProvisioningSubmissions } from "../portal/submissions.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { Subsystem } from "../settings/subsystem.ts";
import { Autoconnect } from "./autoconnect.ts";
import { ConfiguredNetworks } from "./configured_networks.ts";
import type { ProvisioningRules, Step } from "./decision.ts";
import { Hotspot, type HotspotParts } from "./hotspot.ts";
import type { InternetParts } from "./internet.ts";
import { isTried, managedProfiles, profileFor, type WifiProfile } from "./managed_profiles.ts";
import type { NetworkPort, NetworkView } from "./network_port.ts";
import { NetworkSight } from "./network_sight.ts";
import { CHOSEN, chosenProfile, TETHER, tetherProfile } from "./profiles.ts";
import { SetupProgress } from "./setup_progress.ts";

export interface NetworkingParts extends Omit<HotspotParts, "submissions">, Omit<InternetParts, "port"> {
  readonly port: NetworkPort;
  readonly submissions: (
    device: ProvisioningSubmissions["device"],
    take: (submitted: ProvisioningSubmission) => void,
  ) => ProvisioningSubmissions;
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Part of the hotspot's name. */
  readonly hostname: string;
  readonly agentVersion: string;
  readonly isConfigured: () => boolean;
  /** The file that lists networks that cut the device off. */
  readonly refusedFile: string;
  /** Writes the machine's credentials. */
  readonly configure: (credentials: string) => Promise<void>;
  /** Prefix of the paths of system files; empty outside of tests. */
  readonly root?: string;
}

const TICK_MS = 15_000;
/** Time for the answer to reach the user's phone before the hotspot closes. */
const GRACE_MS = 3_000;
/** Time for a phone that has just paired to share its connection. */
const TETHER_MS = 60_000;
const TETHER_AGAIN_MS = 3_000;
/** Phones that the device remembers. */
const TETHERS_MAX = 8;

export class Networking implements Subsystem {
  readonly name = "networks";
  readonly #parts: NetworkingParts;
  readonly #hotspot: Hotspot;
  readonly #sight: NetworkSight;
  readonly #configured: ConfiguredNetworks;
  readonly #autoconnect: Autoconnect;
  readonly submissions: ProvisioningSubmissions;
  readonly #waker: Waker;
  #settings: AgentSettings;
  readonly #progress = new SetupProgress();
  #doing: Promise<unknown> = Promise.resolve();
  readonly #problems = new LogOnChange();

  constructor(parts: NetworkingParts, settings: AgentSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#sight = new NetworkSight(parts);
    this.#configured = new ConfiguredNetworks(parts, this.#sight);
    this.#autoconnect = new Autoconnect(parts.port, parts.logger);
    this.#waker = new Waker(parts.clock);
    this.submissions = parts.submissions(() => this.#device(), (submitted) => {
      this.#progress.submit(submitted);
      parts.clock.after(GRACE_MS, () => this.#waker.wake());
    });
    this.#hotspot = new Hotspot({ ...parts, submissions: this.submissions });
  }

  /** Manages the device's networks until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { logger } = this.#parts;
    signal.addEventListener("abort", () => this.#waker.wake(), { once: true });
    try {
      // A killed agent has left its names behind.
      await this.#hotspot.forgetNames();
      while (!signal.aborted) {
        await this.#alone(() => this.#tick(signal)).then(() => this.#problems.clear(), (error) => {
          const problem = chainOf(error);
          const isNew = this.#problems.isNew(problem);
          if (isNew && !signal.aborted) logger.error(`networks are not managed: ${problem}`);
        });
        if (!signal.aborted) await this.#waker.sleep(TICK_MS);
      }
    } finally {
      await this.#hotspot.close().catch((error) =>
        logger.warn(`the hotspot did not end: ${messageOf(error)}`)
      );
    }
  }

  /**
   * Whether the device is connected as the settings require: to its first Wi-Fi network, or to the internet. False
   * while the networks are not managed.
   */
  get isConnected(): boolean {
    const isManaged = !this.#settings.advanced.disableNetworkConfiguration && this.#problems.last() === "";
    const { view } = this.#sight;
    return isManaged && view !== undefined && this.#sight.isConnected(view, this.#rules());
  }

  async apply(settings: AgentSettings, signal: AbortSignal): Promise<void> {
    this.#settings = settings;
    if (settings.advanced.disableNetworkConfiguration) return;
    await this.#alone(() => this.#configured.apply(this.#settings, signal));
    this.#waker.wake();
    const { view } = this.#sight;
    if (view?.isWifiOff && view.wifiDevice !== undefined && !view.internet) {
      throw new Error(
        "Wi-Fi is switched off on this device, so it joins none and no hotspot opens: `nmcli radio wifi on` " +
          "switches it on; on a Raspberry Pi it is off until raspi-config has a country",
      );
    }
    if (view?.isUnmanaged && !view.internet) {
      throw new Error(
        `NetworkManager does not manage the Wi-Fi device ${view.wifiDevice}, so it joins none and no hotspot opens: ` +
          "look for it in /etc/network/interfaces, netplan and unmanaged-devices of NetworkManager's configuration, " +
          "and take it out there",
      );
    }
    const { hotspotInterface } = settings.network;
    if (hotspotInterface !== "" && this.#sight.view?.wifiDevice === undefined) {
      throw new Error(
        `network_configuration.hotspot_interface: there is no Wi-Fi device "${hotspotInterface}", so no Wi-Fi is ` +
          "managed and no hotspot opens",
      );
    }
  }

  /**
   * Whether the device accepts setup by Bluetooth now, under which name, and with which password: while it needs
   * setup, with or without an open hotspot, but not while it tries a submission.
   */
  bluetoothOffer(): BluetoothOffer {
    const { advanced, network } = this.#settings;
    const { configured, online } = this.#device();
    return {
      wanted: !advanced.disableNetworkConfiguration && !network.disableBtProvisioning &&
        this.#sight.view !== undefined && !(configured && online) && !this.#progress.isTrying,
      name: this.#hotspot.nameBy(network),
      password: network.hotspotPassword,
      trustsAll: network.bluetoothTrustAll ?? false,
    };
  }

  /**
   * Goes online through the connection of a phone that has paired by Bluetooth. The network service returns to the
   * phone by itself from then on.
   */
  async tether(address: string, signal: AbortSignal): Promise<void> {
    const { port, clock, logger } = this.#parts;
    if (this.#settings.advanced.disableNetworkConfiguration) return;
    await this.#alone(async () => {
      const { profiles } = await this.#look(signal);
      const wanted = tetherProfile(address);
      const others = profiles.filter(({ name }) => name.startsWith(TETHER) && name !== wanted.name);
      const tooMany = Math.max(0, others.length + 1 - TETHERS_MAX);
      for (const one of others.slice(0, tooMany)) await port.remove(one, signal);
      const profile = await port.put(wanted, profiles, signal);
      // The service notices a new phone only after a while.
      for (const untilMs = clock.monotonicMs() + TETHER_MS;;) {
        const problem = await port.activate(profile, address, signal).then(() => undefined, messageOf);
        signal.throwIfAborted();
        if (problem === undefined) break;
        if (clock.monotonicMs() >= untilMs) {
          this.submissions.report(`The device is not online through the phone: ${problem}.`);
          return logger.warn(`not online through the phone ${address}: ${problem}`);
        }
        await clock.sleep(TETHER_AGAIN_MS, signal);
      }
      this.#sight.forgetInternet();
      logger.info(`the phone ${address} shares its connection`);
    });
    this.#waker.wake();
  }

  /** Waits for the step under way; `run` ends with its own signal. */
  async close(): Promise<void> {
    await this.#doing.catch(() => {});
  }

  /** Runs one step at a time. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#doing.catch(() => {}).then(work);
    this.#doing = next;
    return next;
  }

  // The hotspot, and networks that users chose.

  async #tick(signal: AbortSignal): Promise<void> {
    if (this.#settings.advanced.disableNetworkConfiguration) return await this.#hotspot.close();
    const { clock } = this.#parts;
    const rules = this.#rules();
    let view = await this.#look(signal);
    await this.#configured.endInterrupted(view, signal);
    const submitted = this.#progress.take();
    if (!view.wifiDevice) return await this.#takeWithoutWifi(submitted, view, signal);
    await this.#noteLostHotspot(view);
    await this.#hotspot.avoidNetworks(this.#settings.network, view, signal);
    this.#progress.begin(clock.monotonicMs(), this.#sight.known(view).length > 0, rules);
    if (!this.#sight.isConnected(view, rules)) view = await this.#scan(view, signal);
    if (submitted) await this.#take(submitted, view, signal);
    let given = submitted && { ssid: submitted.network?.ssid };
    // Each network at most once, and the hotspot open and closed.
    for (let left = view.profiles.length + 3; left > 0; left--) {
      view = await this.#look(signal);
      if (this.#configured.isApplied || !this.#parts.isConfigured()) {
        await this.#autoconnect.apply(view, rules.needsInternet, signal);
      }
      const decision = this.#progress.decide({
        nowMs: clock.monotonicMs(),
        configured: this.#parts.isConfigured(),
        connectedTo: view.connectedTo,
        online: view.internet,
        networks: this.#sight.known(view),
        userMs: this.submissions.userMs,
        lookMs: this.submissions.lookMs,
        submitted: given,
      }, rules);
      given = undefined;
      // A hotspot that fails to open is retried.
      for (const step of decision.steps) await this.#do(step, view, signal);
      this.#progress.took(decision);
      if (decision.steps.length === 0) break;
    }
    this.#progress.endPass();
  }

  /** A hotspot that went down by itself, as after a restart of the network service or of the Wi-Fi chip, opens anew. */
  async #noteLostHotspot({ isWifiIdle = false }: NetworkView): Promise<void> {
    if (!this.#hotspot.isOpen || !isWifiIdle) return;
    this.#parts.logger.warn("the hotspot went down by itself");
    await this.#hotspot.close();
    this.#progress.loseHotspot();
  }

  /** A device that is online by cable gets its credentials by Bluetooth. */
  async #takeWithoutWifi(
    submitted: ProvisioningSubmission | undefined,
    view: NetworkView,
    signal: AbortSignal,
  ): Promise<void> {
    if (submitted?.network) this.submissions.report("This device has no Wi-Fi.");
    if (submitted) await this.#take({ credentials: submitted.credentials }, view, signal);
    this.#progress.endPass();
  }

  async #do(step: Step, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { logger } = this.#parts;
    logger.info(`networks: ${step.do}${step.do === "try" ? ` ${step.ssid}` : ""}, for ${step.why}`);
    if (step.do === "close hotspot") return await this.#hotspot.close();
    if (step.do === "open hotspot") return await this.#hotspot.open(this.#settings.network, view, signal);
    this.#sight.beginJoin(step.ssid);
    const networks = managedProfiles(view);
    const first = profileFor(networks, step.ssid);
    if (!first) return;
    const joined = await this.#join(first, view, signal);
    if (!isTried(first)) return;
    if (joined) return await this.#accept(first, view, signal);
    // The password of before works still, perhaps.
    const before = profileFor(networks.filter((one) => one !== first), step.ssid);
    if (before && await this.#join(before, view, signal)) await this.#parts.port.remove(first, signal);
  }

  /** Whether the device has joined the network. */
  async #join(profile: WifiProfile, view: NetworkView, signal: AbortSignal): Promise<boolean> {
    const { logger, port } = this.#parts;
    const { ssid } = profile;
    try {
      const suited = await this.#configured.suited(profile, this.#settings, view, signal);
      await port.activate(suited, view.wifiDevice!, signal);
      this.#sight.endJoin(ssid, "");
      logger.info(`joined ${ssid}`);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      const why = messageOf(error);
      this.#sight.endJoin(ssid, why);
      this.submissions.report(`Joining ${ssid} failed: ${why}.`);
      logger.warn(`cannot join ${ssid}: ${why}`);
      return false;
    }
  }

  /** A new choice has connected: it replaces the earlier one. */
  async #accept(profile: WifiProfile, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { port } = this.#parts;
    for (const one of replacedBy(profile.ssid, view, this.#rules())) await port.remove(one, signal);
    await port.rename(profile, `${CHOSEN}${profile.ssid}`, signal);
  }

  /** Stores a user's submission, and uses it from now on. */
  async #take(
    { network, credentials }: ProvisioningSubmission,
    view: NetworkView,
    signal: AbortSignal,
  ): Promise<void> {
    const { port, configure, logger } = this.#parts;
    if (credentials) {
      await configure(credentials.reveal()).catch((error) => {
        logger.error(`cannot store the credentials: ${chainOf(error)}`);
        this.submissions.report(`The device cannot store the credentials: ${messageOf(error)}.`);
      });
    }
    if (!network) return;
    const rules = this.#rules();
    const seen = view.inRange.find(({ ssid }) => ssid === network.ssid);
    // An earlier choice stays until the new one has connected: somebody may have mistyped the password, and gone.
    const tried = replacedBy(network.ssid, view, rules).length > 0;
    const profile = chosenProfile(network, view.wifiDevice!, rules.needsInternet, seen, { tried });
    try {
      await port.put(profile, view.profiles, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      logger.error(`cannot store the network ${network.ssid}: ${chainOf(error)}`);
      return this.submissions.report(`The device cannot store the network: ${messageOf(error)}.`);
    }
    const others = view.profiles.filter((one) => isTried(one) && one.name !== profile.name);
    for (const one of others) await port.remove(one, signal);
  }

  #look(signal: AbortSignal): Promise<NetworkView> {
    return this.#sight.look(this.#settings.network.hotspotInterface, signal);
  }

  async #scan(view: NetworkView, signal: AbortSignal): Promise<NetworkView> {
    const { wifiDevice } = view;
    if (wifiDevice === undefined) return view;
    return await this.#sight.scan(wifiDevice, this.#hotspot.isOpen, signal) ? await this.#look(signal) : view;
  }

  #rules(): ProvisioningRules {
    const { network } = this.#settings;
    return {
      hotspotAfterMs: network.offlineBeforeStartingHotspotMs,
      retryAfterMs: network.retryConnectionTimeoutMs,
      userIdleMs: network.userIdleMs,
      needsInternet: network.turnOnHotspotIfWifiHasNoInternet ?? false,
      mayOpenHotspot: !network.disableWifiProvisioning,
    };
  }

  /** The facts for the portal and the app. */
  #device() {
    const { network } = this.#settings;
    const { view = NOTHING_SEEN } = this.#sight;
    return {
      manufacturer: network.manufacturer,
      model: network.model,
      fragmentId: network.fragmentId,
      agentVersion: this.#parts.agentVersion,
      configured: this.#parts.isConfigured(),
      online: this.#sight.isConnected(view, this.#rules()),
      ...this.#sight.seenNetworks(),
    };
  }
}

/** The earlier choices that a new one replaces: only one network can have the first place. */
function replacedBy(ssid: string, { profiles }: NetworkView, { needsInternet }: ProvisioningRules) {
  const chosen = profiles.filter(({ name }) => name.startsWith(CHOSEN));
  return needsInternet ? chosen.filter((one) => one.ssid === ssid) : chosen;
}

const NOTHING_SEEN: NetworkView = { internet: false, checksInternet: false, inRange: [], profiles: [] };
