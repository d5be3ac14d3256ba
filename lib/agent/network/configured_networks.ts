/**
 * The networks of the configuration: the entries of `additional_networks`, and power saving.
 *
 * A configured network that cuts the device off is rolled back, even if the agent dies or the power fails meanwhile, and
 * is not tried again before its entry changes. Foreign profiles are never touched.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { AdditionalNetwork } from "../settings/settings_fields.ts";
import { ServiceFile } from "../system/drop_in.ts";
import { firstProfile, managedProfiles, profileFor } from "./managed_profiles.ts";
import { NetworkChanges, type NetworkEntries } from "./network_changes.ts";
import type { NetworkPort, NetworkProfile, NetworkView } from "./network_port.ts";
import type { NetworkSight } from "./network_sight.ts";
import {
  additionalKey,
  additionalProfile,
  CHOSEN,
  HOTSPOT,
  type ProfileWanted,
  TETHER,
  TRIED,
} from "./profiles.ts";
import { Refused } from "./refused.ts";

export interface ConfiguredNetworksParts {
  readonly port: NetworkPort;
  readonly files: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The file that lists networks that cut the device off. */
  readonly refusedFile: string;
  /** Prefix of the paths of system files; empty outside of tests. */
  readonly root?: string;
}

/** Time for a configured network to bring the device online before it is rolled back. */
const PROVE_MS = 120_000;
const PROVE_EVERY_MS = 2_000;
/**
 * The same after a power cut during the change, since the start of the agent: the network's own devices may have been
 * without power, too.
 */
const PROVE_AFTER_CUT_MS = 600_000;
/** The service rolls back by itself this much later, in case the agent has died. */
const CHECKPOINT_SPARE_S = 60;
export const POWER_SAVE_FILE = "/etc/NetworkManager/conf.d/81-svc-wifi-powersave.conf";
/** NetworkManager.conf(5), wifi.powersave. */
const POWER_SAVE = { off: 2, on: 3 } as const;

/** Error codes of a network service that rejects a profile. */
const REJECTIONS = ["failed_precondition", "invalid_argument"];
const CUT_OFF = `the device was not online again within ${PROVE_MS / 1000} s`;

export class ConfiguredNetworks {
  /** Whether there was a configuration to apply; before it, the settings are the manufacturer's. */
  isApplied = false;
  /** Configured profiles that cut the device off. */
  readonly #refused: Refused;
  /** Why the network service rejects a profile, by its digest. */
  readonly #unwritten = new Map<string, string>();
  readonly #changes: NetworkChanges;
  readonly #powerSave: ServiceFile;
  /** The entries that the profiles have, since the last call of `apply`. */
  #entries: NetworkEntries | undefined;
  readonly #startedMs: number;

  constructor(private readonly parts: ConfiguredNetworksParts, private readonly sight: NetworkSight) {
    this.#refused = new Refused(parts.files, parts.refusedFile);
    this.#changes = new NetworkChanges(parts.files, parts.refusedFile);
    this.#powerSave = new ServiceFile(parts.files, POWER_SAVE_FILE, parts.root);
    this.#startedMs = parts.clock.monotonicMs();
  }

  async apply(settings: AgentSettings, signal: AbortSignal): Promise<void> {
    this.isApplied = true;
    // A setting that cannot be applied, on a full disk for example, leaves the others alone.
    const saved = await this.#applyPowerSave(settings, signal).then(() => [], (error) => [error]);
    const added = await this.#applyAdditional(settings, signal).then(() => [], (error) => [error]);
    signal.throwIfAborted();
    await this.#noteEntries(settings, signal);
    const [first, ...more] = [...saved, ...added];
    if (more.length > 0) throw new Error([first, ...more].map(messageOf).join("; "), { cause: first });
    if (first !== undefined) throw first;
  }

  /**
   * Ends a change that a power cut has interrupted: if the device is online, the change is proven; if it is not after a
   * long time, the profiles are again what they were.
   */
  async endInterrupted(view: NetworkView, signal: AbortSignal): Promise<void> {
    const { proven, trial } = await this.#changes.read();
    if (trial.length === 0) return;
    if (await this.sight.provesInternet(view, signal)) {
      const entries = this.#entries;
      // Before that, nobody knows the entries.
      if (entries) await this.#note(entries, []);
      return;
    }
    if (this.parts.clock.monotonicMs() - this.#startedMs < PROVE_AFTER_CUT_MS) return;
    await this.#takeBack(view, proven, trial, signal);
  }

  async #takeBack(
    view: NetworkView,
    proven: NetworkEntries,
    trial: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const { port, logger } = this.parts;
    const tried = view.profiles.filter(({ digest }) => trial.includes(digest));
    for (const profile of tried) {
      const before = proven[additionalKey(profile.name)];
      if (before) {
        await port.put(
          additionalProfile(additionalKey(profile.name), before, view.wifiDevice ?? ""),
          view.profiles,
          signal,
        );
      } else await port.remove(profile, signal);
    }
    const names = tried.map(({ name }) => additionalKey(name)).join(", ");
    logger.warn(
      `additional_networks (${names}) are as they were before the power failed during their change`,
    );
    await this.#refuse(trial);
    await this.#note(proven, []);
    this.sight.forgetInternet();
  }

  async #noteEntries({ network, additionalNetworks }: AgentSettings, signal: AbortSignal): Promise<void> {
    const view = await this.sight.look(network.hotspotInterface, signal);
    const before = this.#entries ?? (await this.#changes.read()).proven;
    const entries = Object.entries(additionalNetworks).flatMap(([key, entry]) => {
      const { digest } = wantedIn(view, key, entry);
      const now = view.profiles.some((one) => one.digest === digest) ? entry : before[key];
      return now ? [[key, now] as const] : [];
    });
    this.#entries = Object.fromEntries(entries);
  }

  /** Notes a change and its end. Without the note, only a power cut at this moment could go wrong. */
  async #note(proven: NetworkEntries, trial: readonly string[]): Promise<void> {
    await this.#changes.write({ proven, trial }).catch((error) =>
      this.parts.logger.warn(`a change of networks would not survive a power cut: ${messageOf(error)}`)
    );
  }

  /** Refuses profiles from now on; without the file, until the next start. */
  async #refuse(digests: readonly string[]): Promise<void> {
    await this.#refused.add(digests).catch((error) =>
      this.parts.logger.warn(`refused networks are forgotten at the next start: ${messageOf(error)}`)
    );
  }

  async #applyPowerSave({ network }: AgentSettings, signal: AbortSignal): Promise<void> {
    const { port } = this.parts;
    const { wifiPowerSave, hotspotInterface } = network;
    const value = wifiPowerSave === undefined ? undefined : POWER_SAVE[wifiPowerSave ? "on" : "off"];
    const text = value === undefined
      ? undefined
      : `# Written by svc-agent\n[connection]\nwifi.powersave=${value}\n`;
    if (!await this.#powerSave.write(text)) return;
    await port.reload(signal);
    const view = await this.sight.look(hotspotInterface, signal);
    const profile = view.connectedTo === undefined
      ? undefined
      : profileFor(managedProfiles(view), view.connectedTo);
    if (profile) await port.activate(profile, view.wifiDevice!, signal);
    await this.#powerSave.noteRead();
  }

  async #applyAdditional(settings: AgentSettings, signal: AbortSignal): Promise<void> {
    const view = await this.sight.look(settings.network.hotspotInterface, signal);
    const wanted = Object.entries(settings.additionalNetworks)
      .map(([key, network]) => wantedIn(view, key, network));
    const own = view.profiles.filter(({ name }) =>
      name !== "" && ![CHOSEN, HOTSPOT, TETHER, TRIED].some((mark) => name.startsWith(mark))
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
    if (change.length > 0 || remove.length > 0) {
      await this.#changeTo({ change, remove }, view, settings, signal);
    }
    const problems = [
      ...cutOff.length === 0 ? [] : [
        `additional_networks (${cutOff.join(", ")}) cut the device off; not tried again before a change`,
      ],
      ...this.#unwritten.values(),
    ];
    if (problems.length > 0) throw new Error(problems.join("; "));
  }

  /**
   * The profile with which to join a network now: an entry without a password gets the security of the network in range,
   * which may have been out of range when the profile was written.
   */
  async suited(
    profile: NetworkProfile,
    { additionalNetworks }: AgentSettings,
    view: NetworkView,
    signal: AbortSignal,
  ): Promise<NetworkProfile> {
    const key = additionalKey(profile.name);
    const network = additionalNetworks[key];
    if (!network) return profile;
    const wanted = wantedIn(view, key, network);
    const asWritten = additionalProfile(key, network, view.wifiDevice ?? "", {
      presentDigest: profile.digest,
    });
    // One that differs in anything else is applied with the settings, not here.
    const isSuited = wanted.name !== profile.name || wanted.digest === profile.digest;
    if (isSuited || asWritten.digest !== profile.digest) return profile;
    this.parts.logger.info(`additional_networks.${key}: the network has another security now`);
    return await this.parts.port.put(wanted, view.profiles, signal);
  }

  /** Changes the profiles; reverts everything if the changes cut the device off. */
  async #changeTo(
    { change, remove }: {
      readonly change: readonly ProfileWanted[];
      readonly remove: readonly NetworkProfile[];
    },
    view: NetworkView,
    settings: AgentSettings,
    signal: AbortSignal,
  ): Promise<void> {
    const { port, logger } = this.parts;
    const wasOnline = await this.sight.provesInternet(view, signal);
    this.sight.forgetInternet();
    const names = () =>
      [...change, ...remove].filter(({ digest }) => !this.#unwritten.has(digest))
        .map(({ name }) => additionalKey(name)).join(", ");
    const before = this.#entries ?? (await this.#changes.read()).proven;
    if (wasOnline) await this.#note(before, change.map(({ digest }) => digest));
    const checkpoint = await port.checkpoint(PROVE_MS / 1000 + CHECKPOINT_SPARE_S, signal);
    let isCutOff = false;
    try {
      for (const profile of change) await this.#useNow(profile, view, settings, signal);
      for (const profile of remove) await port.remove(profile, signal);
      isCutOff = wasOnline && !await this.#staysOnline(settings.network.hotspotInterface, signal);
      if (isCutOff) throw new Error(CUT_OFF);
    } catch (error) {
      await checkpoint.goBack(signal);
      if (isCutOff) await this.#refuse(change.map(({ digest }) => digest));
      await this.#note(before, []);
      this.sight.forgetInternet();
      throw new Error(`additional_networks (${names()}) are as they were before: ${messageOf(error)}`, {
        cause: error,
      });
    }
    await checkpoint.keep(signal);
    await this.#note(wasOnline ? settings.additionalNetworks : before, []);
    if (names() !== "") logger.info(`additional_networks are as configured: ${names()}`);
  }

  /** Writes a profile. Activates one that names its interface, unless it is Wi-Fi and other networks come first. */
  async #useNow(
    wanted: ProfileWanted,
    view: NetworkView,
    { additionalNetworks }: AgentSettings,
    signal: AbortSignal,
  ): Promise<void> {
    const { port, logger } = this.parts;
    const key = additionalKey(wanted.name);
    const profile = await port.put(wanted, view.profiles, signal).catch((error) => {
      // If the service is away, it gets the profile later. If it rejects the profile, the reason is kept, and the other
      // entries apply.
      if (signal.aborted || !REJECTIONS.includes(SvcError.from(error).code)) throw error;
      this.#unwritten.set(wanted.digest, `additional_networks.${key} cannot be used: ${messageOf(error)}`);
    });
    if (!profile) return;
    const { type, interface: device = "" } = additionalNetworks[key] ?? {};
    if (device === "") return;
    if (type === "wifi" && device === view.wifiDevice) {
      const others = view.profiles.filter(({ name }) => name !== wanted.name);
      if (firstProfile({ ...view, profiles: [...others, profile] }) !== profile) return;
    }
    await port.activate(profile, device, signal).catch((error) => {
      if (signal.aborted) throw error;
      logger.warn(`additional_networks.${key} cannot be used now: ${messageOf(error)}`);
    });
  }

  async #staysOnline(interfaceName: string, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.parts;
    const untilMs = clock.monotonicMs() + PROVE_MS;
    for (;;) {
      if (await this.sight.provesInternet(await this.sight.look(interfaceName, signal), signal)) return true;
      if (clock.monotonicMs() >= untilMs) return false;
      await clock.sleep(PROVE_EVERY_MS, signal);
    }
  }
}

/** The profile of an entry, which depends on what is in range and on the present profile. */
function wantedIn(view: NetworkView, key: string, network: AdditionalNetwork): ProfileWanted {
  const wifiDevice = view.wifiDevice ?? "";
  const { name } = additionalProfile(key, network, wifiDevice);
  const presentDigest = view.profiles.find((one) => one.name === name)?.digest;
  const seen = view.inRange.find(({ ssid }) => ssid === network.ssid);
  return additionalProfile(key, network, wifiDevice, { seen, presentDigest });
}
