/**
 * Applies the settings to the device's networks: the entries of `additional_networks`, power saving, and the hotspot
 * for setup.
 *
 * Observes with `NetworkPort`, decides with `decide`, and acts, one step after another. A configured network that cuts
 * the device off is rolled back, even if the agent dies meanwhile, and is not tried again before its entry changes.
 * Foreign profiles are never touched. The hotspot ends with the agent.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { BluetoothOffer } from "../bluetooth/bluetooth.ts";
import type { ProvisioningSubmission, ProvisioningSubmissions } from "../portal/submissions.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { Subsystem } from "../settings/subsystem.ts";
import { writeIfOther } from "../system/drop_in.ts";
import {
  decide,
  firstNetwork,
  firstState,
  isConnected,
  type ProvisioningRules,
  type ProvisioningState,
  type Step,
} from "./decision.ts";
import { Hotspot, hotspotName, type HotspotParts } from "./hotspot.ts";
import { InRange } from "./in_range.ts";
import { Internet, type InternetParts } from "./internet.ts";
import type { NetworkPort, NetworkProfile, NetworkView } from "./network_port.ts";
import { Refused } from "./refused.ts";
import {
  additionalKey,
  additionalProfile,
  CHOSEN,
  chosenProfile,
  HOTSPOT,
  type ProfileWanted,
  TETHER,
  tetherProfile,
} from "./profiles.ts";

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
/** Time for a configured network to bring the device online before it is rolled back. */
const PROVE_MS = 120_000;
const PROVE_EVERY_MS = 2_000;
/** The service rolls back by itself this much later, in case the agent has died. */
const CHECKPOINT_SPARE_S = 60;
const SCAN_FAILURES_MAX = 3;
/** Time for a phone that has just paired to share its connection. */
const TETHER_MS = 60_000;
const TETHER_AGAIN_MS = 3_000;
/** Phones that the device remembers. */
const TETHERS_MAX = 8;
export const POWER_SAVE_FILE = "/etc/NetworkManager/conf.d/81-svc-wifi-powersave.conf";
/** NetworkManager.conf(5), wifi.powersave. */
const POWER_SAVE = { off: 2, on: 3 } as const;

export class Networking implements Subsystem {
  readonly name = "networks";
  readonly #parts: NetworkingParts;
  readonly #hotspot: Hotspot;
  readonly #inRange: InRange;
  readonly #internet: Internet;
  readonly submissions: ProvisioningSubmissions;
  readonly #waker: Waker;
  #settings: AgentSettings;
  #state: ProvisioningState | undefined;
  #view: NetworkView | undefined;
  #submitted: ProvisioningSubmission | undefined;
  /** Whether a submission is being tried. */
  #isTrying = false;
  #scanFailures = 0;
  /** Configured profiles that cut the device off. */
  readonly #refused: Refused;
  /** Why the network service rejects a profile, by its digest. */
  readonly #unwritten = new Map<string, string>();
  /** Whether the settings come from the configuration, rather than from the manufacturer. */
  #isApplied = false;
  /** Profiles whose change failed, with the problem. */
  readonly #unchanged = new Map<string, string>();
  #doing: Promise<unknown> = Promise.resolve();
  readonly #problems = new LogOnChange();

  constructor(parts: NetworkingParts, settings: AgentSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#inRange = new InRange();
    this.#internet = new Internet(parts);
    this.#refused = new Refused(parts.files, parts.refusedFile);
    this.#waker = new Waker(parts.clock);
    this.submissions = parts.submissions(() => this.#device(), (submitted) => {
      this.#submitted = submitted;
      this.#isTrying = true;
      parts.clock.after(GRACE_MS, () => this.#waker.wake());
    });
    this.#hotspot = new Hotspot({ ...parts, submissions: this.submissions });
  }

  /** Manages the device's networks until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { logger } = this.#parts;
    const wake = () => this.#waker.wake();
    signal.addEventListener("abort", wake);
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
      signal.removeEventListener("abort", wake);
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
    return isManaged && this.#view !== undefined && this.#connected(this.#view, this.#rules());
  }

  async apply(settings: AgentSettings, signal: AbortSignal): Promise<void> {
    this.#settings = settings;
    this.#isApplied = true;
    if (settings.advanced.disableNetworkConfiguration) return;
    await this.#alone(async () => {
      await this.#applyPowerSave(signal);
      await this.#applyAdditional(signal);
    });
    this.#waker.wake();
    const { hotspotInterface } = settings.network;
    if (hotspotInterface !== "" && this.#view?.wifiDevice === undefined) {
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
        this.#view !== undefined && !(configured && online) && !this.#isTrying,
      name: hotspotName(network, this.#parts.hostname),
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
      this.#internet.forget();
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
    const submitted = this.#submitted;
    this.#submitted = undefined;
    if (!view.wifiDevice) return await this.#takeWithoutWifi(submitted, view, signal);
    this.#state ??= firstState(clock.monotonicMs(), this.#known(view).length > 0, rules);
    if (!this.#connected(view, rules)) view = await this.#scan(view, signal);
    if (submitted) await this.#take(submitted, view, signal);
    let given = submitted && { ssid: submitted.network?.ssid };
    // Each network at most once, and the hotspot open and closed.
    for (let left = view.profiles.length + 3; left > 0; left--) {
      view = await this.#look(signal);
      await this.#keepTries(view, signal);
      const decision = decide(this.#state, {
        nowMs: clock.monotonicMs(),
        configured: this.#parts.isConfigured(),
        connectedTo: view.connectedTo,
        online: view.internet,
        networks: this.#known(view),
        userMs: this.submissions.userMs,
        submitted: given,
      }, rules);
      given = undefined;
      // A hotspot that fails to open is retried.
      for (const step of decision.steps) await this.#do(step, view, signal);
      this.#state = decision.state;
      if (decision.steps.length === 0) break;
    }
    this.#isTrying = this.#submitted !== undefined;
  }

  /** A device that is online by cable gets its credentials by Bluetooth. */
  async #takeWithoutWifi(
    submitted: ProvisioningSubmission | undefined,
    view: NetworkView,
    signal: AbortSignal,
  ): Promise<void> {
    if (submitted?.network) this.submissions.report("This device has no Wi-Fi.");
    if (submitted) await this.#take({ credentials: submitted.credentials }, view, signal);
    this.#isTrying = this.#submitted !== undefined;
  }

  async #do(step: Step, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { logger } = this.#parts;
    logger.info(`networks: ${step.do}${step.do === "try" ? ` ${step.ssid}` : ""}, for ${step.why}`);
    if (step.do === "close hotspot") return await this.#hotspot.close();
    if (step.do === "open hotspot") return await this.#hotspot.open(this.#settings.network, view, signal);
    this.#inRange.tried(step.ssid, this.#parts.clock.monotonicMs());
    const profile = profileOf(managed(view), step.ssid);
    if (!profile) return;
    try {
      await this.#parts.port.activate(profile, view.wifiDevice!, signal);
      this.#inRange.failed(step.ssid, "");
      this.#internet.forget();
      logger.info(`joined ${step.ssid}`);
    } catch (error) {
      if (signal.aborted) throw error;
      const why = messageOf(error);
      this.#inRange.failed(step.ssid, why);
      this.submissions.report(`Joining ${step.ssid} failed: ${why}.`);
      logger.warn(`cannot join ${step.ssid}: ${why}`);
    }
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
    const roaming = this.#rules().needsInternet;
    // The network is out of range or hidden; in both cases only a request by name finds it.
    const isUnseen = !view.inRange.some(({ ssid }) => ssid === network.ssid);
    const profile = chosenProfile(network.ssid, network.psk, view.wifiDevice!, roaming, isUnseen);
    try {
      await port.put(profile, view.profiles, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      logger.error(`cannot store the network ${network.ssid}: ${chainOf(error)}`);
      return this.submissions.report(`The device cannot store the network: ${messageOf(error)}.`);
    }
    // The earlier choice loses its first place, because only one network can have it.
    const before = view.profiles.filter(({ name }) => name.startsWith(CHOSEN) && name !== profile.name);
    if (!roaming) { for (const one of before) await port.remove(one, signal); }
  }

  async #look(signal: AbortSignal): Promise<NetworkView> {
    const { port, clock } = this.#parts;
    const seen = await port.look(this.#settings.network.hotspotInterface, signal);
    const view = { ...seen, internet: await this.#internet.answers(seen, signal) };
    this.#inRange.see(view.inRange, clock.monotonicMs());
    return this.#view = view;
  }

  async #scan(view: NetworkView, signal: AbortSignal): Promise<NetworkView> {
    // Some chips cannot scan while they are an access point.
    if (this.#hotspot.isOpen && this.#scanFailures >= SCAN_FAILURES_MAX) return view;
    try {
      await this.#parts.port.scan(view.wifiDevice!, signal);
      this.#scanFailures = 0;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#scanFailures++;
      this.#parts.logger.debug(`looking for networks failed: ${messageOf(error)}`);
    }
    return await this.#look(signal);
  }

  #known(view: NetworkView) {
    return managed(view).map((profile) => ({ ...wifiFactsOf(profile), ...this.#inRange.of(profile.ssid) }));
  }

  /**
   * Lets the network service join, by itself, the networks that the agent tries: all of them, or only the first one. So
   * a device whose router restarts reconnects at once, even if the agent is not running.
   */
  async #keepTries(view: NetworkView, signal: AbortSignal): Promise<void> {
    if (this.#parts.isConfigured() && !this.#isApplied) return;
    const [networks, first] = [managed(view), firstOf(view)];
    const all = this.#rules().needsInternet;
    for (const profile of view.profiles) {
      if (profile.name === "" || profile.ssid === undefined || profile.isHotspot) continue;
      const wanted = all || profile === first || !networks.some((one) => one === profile);
      if (profile.autoconnect === wanted) continue;
      await this.#parts.port.setAutoconnect(profile, wanted, signal).then(
        () => this.#unchanged.delete(profile.path),
        (error) => {
          const problem = messageOf(error);
          if (signal.aborted) throw error;
          if (this.#unchanged.get(profile.path) === problem) return;
          this.#unchanged.set(profile.path, problem);
          this.#parts.logger.warn(`cannot change the profile ${profile.id}: ${problem}`);
        },
      );
    }
  }

  #connected(view: NetworkView, rules: ProvisioningRules): boolean {
    const { connectedTo } = view;
    return isConnected({ connectedTo, online: view.internet, networks: this.#known(view) }, rules);
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
    const view = this.#view ?? NOTHING_SEEN;
    const seen = this.#inRange.all().map((one) => ({ ...one, connected: one.ssid === view.connectedTo }));
    return {
      manufacturer: network.manufacturer,
      model: network.model,
      fragmentId: network.fragmentId,
      agentVersion: this.#parts.agentVersion,
      configured: this.#parts.isConfigured(),
      online: this.#connected(view, this.#rules()),
      networks: seen,
      lastTried: seen.find(({ ssid }) => ssid === this.#inRange.lastTried),
    };
  }

  // What the configuration wants.

  async #applyPowerSave(signal: AbortSignal): Promise<void> {
    const { files, port, root = "" } = this.#parts;
    const { wifiPowerSave } = this.#settings.network;
    const value = wifiPowerSave === undefined ? undefined : POWER_SAVE[wifiPowerSave ? "on" : "off"];
    const text = value === undefined
      ? undefined
      : `# Written by svc-agent\n[connection]\nwifi.powersave=${value}\n`;
    if (!await writeIfOther(files, `${root}${POWER_SAVE_FILE}`, text)) return;
    await port.reload(signal);
    const view = await this.#look(signal);
    const profile = view.connectedTo === undefined ? undefined : profileOf(managed(view), view.connectedTo);
    if (profile) await port.activate(profile, view.wifiDevice!, signal);
  }

  async #applyAdditional(signal: AbortSignal): Promise<void> {
    const view = await this.#look(signal);
    const wanted = Object.entries(this.#settings.additionalNetworks)
      .map(([key, network]) => additionalProfile(key, network, view.wifiDevice ?? ""));
    const own = view.profiles.filter(({ name }) =>
      name !== "" && ![CHOSEN, HOTSPOT, TETHER].some((mark) => name.startsWith(mark))
    );
    const change: ProfileWanted[] = [];
    const cutOff: string[] = [];
    for (const one of wanted) {
      if (own.find(({ name }) => name === one.name)?.digest === one.digest) continue;
      if (await this.#refused.has(one.digest)) cutOff.push(additionalKey(one.name));
      else if (!this.#unwritten.has(one.digest)) change.push(one);
    }
    for (const digest of this.#unwritten.keys()) {
      if (!wanted.some((one) => one.digest === digest)) this.#unwritten.delete(digest);
    }
    const remove = own.filter(({ name }) => !wanted.some((one) => one.name === name));
    if (change.length > 0 || remove.length > 0) await this.#changeTo(change, remove, view, signal);
    const problems = [
      ...cutOff.length === 0 ? [] : [
        `additional_networks (${cutOff.join(", ")}) cut the device off; not tried again before a change`,
      ],
      ...this.#unwritten.values(),
    ];
    if (problems.length > 0) throw new Error(problems.join("; "));
  }

  /** Changes the profiles; reverts everything if the changes cut the device off. */
  async #changeTo(
    change: readonly ProfileWanted[],
    remove: readonly NetworkProfile[],
    view: NetworkView,
    signal: AbortSignal,
  ): Promise<void> {
    const { port, logger } = this.#parts;
    const wasOnline = await this.#internet.proves(view, signal);
    this.#internet.forget();
    const names = () =>
      [...change, ...remove].filter(({ digest }) => !this.#unwritten.has(digest))
        .map(({ name }) => additionalKey(name)).join(", ");
    const checkpoint = await port.checkpoint(PROVE_MS / 1000 + CHECKPOINT_SPARE_S, signal);
    let isCutOff = false;
    try {
      for (const profile of change) await this.#useNow(profile, view, signal);
      for (const profile of remove) await port.remove(profile, signal);
      isCutOff = wasOnline && !await this.#staysOnline(signal);
      if (isCutOff) throw new Error(CUT_OFF);
    } catch (error) {
      await checkpoint.goBack(signal);
      if (isCutOff) await this.#refused.add(change.map(({ digest }) => digest));
      this.#internet.forget();
      throw new Error(`additional_networks (${names()}) are as they were before: ${messageOf(error)}`, {
        cause: error,
      });
    }
    await checkpoint.keep(signal);
    if (names() !== "") logger.info(`additional_networks are as configured: ${names()}`);
  }

  /** Writes a profile. Activates one that names its interface, unless it is Wi-Fi and other networks come first. */
  async #useNow(wanted: ProfileWanted, view: NetworkView, signal: AbortSignal): Promise<void> {
    const { port, logger } = this.#parts;
    const key = additionalKey(wanted.name);
    const profile = await port.put(wanted, view.profiles, signal).catch((error) => {
      // If the service is away, it gets the profile later. If it rejects the profile, the reason is kept, and the other
      // entries apply.
      if (signal.aborted || !REJECTIONS.includes(SvcError.from(error).code)) throw error;
      this.#unwritten.set(wanted.digest, `additional_networks.${key} cannot be used: ${messageOf(error)}`);
    });
    if (!profile) return;
    const { type, interface: device } = this.#settings.additionalNetworks[key];
    if (device === "") return;
    if (type === "wifi" && device === view.wifiDevice) {
      const others = view.profiles.filter(({ name }) => name !== wanted.name);
      if (firstOf({ ...view, profiles: [...others, profile] }) !== profile) return;
    }
    await port.activate(profile, device, signal).catch((error) => {
      if (signal.aborted) throw error;
      logger.warn(`additional_networks.${key} cannot be used now: ${messageOf(error)}`);
    });
  }

  async #staysOnline(signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#parts;
    const untilMs = clock.monotonicMs() + PROVE_MS;
    for (;;) {
      if (await this.#internet.proves(await this.#look(signal), signal)) return true;
      if (clock.monotonicMs() >= untilMs) return false;
      await clock.sleep(PROVE_EVERY_MS, signal);
    }
  }
}

const NOTHING_SEEN: NetworkView = { internet: false, checksInternet: false, inRange: [], profiles: [] };
/** Error codes of a network service that rejects a profile. */
const REJECTIONS = ["failed_precondition", "invalid_argument"];
const CUT_OFF = `the device was not online again within ${PROVE_MS / 1000} s`;

type WifiProfile = NetworkProfile & { readonly ssid: string };

/** The profiles of Wi-Fi networks for the managed device. */
function managed({ profiles, wifiDevice }: NetworkView): WifiProfile[] {
  return profiles.filter((one): one is WifiProfile =>
    one.ssid !== undefined && !one.isHotspot && (one.device === "" || one.device === wifiDevice)
  );
}

/** The profile of the first network for the managed device. */
function firstOf(view: NetworkView): WifiProfile | undefined {
  const networks = managed(view);
  return profileOf(networks, firstNetwork(networks.map(wifiFactsOf))?.ssid);
}

function wifiFactsOf({ name, ssid, priority, isHidden = false }: WifiProfile) {
  return { ssid, priority, isHidden, isChosen: name.startsWith(CHOSEN) };
}

/** The profile of a network: among several the chosen one, or else the one with the highest priority. */
function profileOf<P extends NetworkProfile>(profiles: readonly P[], ssid?: string): P | undefined {
  const isChosen = ({ name }: NetworkProfile) => name.startsWith(CHOSEN) ? 1 : 0;
  return profiles.filter((one) => one.ssid === ssid)
    .sort((a, b) => isChosen(b) - isChosen(a) || b.priority - a.priority)[0];
}
