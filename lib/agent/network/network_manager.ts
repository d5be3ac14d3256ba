/**
 * The networks by NetworkManager (1.30 or newer), over the system's bus.
 *
 * Published names of https://networkmanager.dev/docs/api/latest/spec.html. Names of networks are bytes: invalid UTF-8
 * shows as U+FFFD, and such a network cannot be chosen.
 */

import { Buffer } from "node:buffer";
import { type Bus, typed, type TypedSections } from "../../base/bus/bus.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Checkpoint, NetworkPort, NetworkProfile, NetworkView, WifiInRange } from "./network_port.ts";
import { PROFILE_MARK, type ProfileWanted, typedSettings } from "./profiles.ts";

const NM = "org.freedesktop.NetworkManager";
const ROOT = "/org/freedesktop/NetworkManager";
const PROPERTIES = "org.freedesktop.DBus.Properties";
const NOTHING = "/";
/** NMDeviceType. */
const WIFI = 2;
/** NMActiveConnectionState. */
const ACTIVATED = 2;
/** NMDeviceState. */
const DEVICE = { unmanaged: 10, failed: 120 } as const;
/** NMDeviceInterfaceFlags: for Wi-Fi, associated. */
const LOWER_UP = 0x2;
/** NMConnectivityState. */
const FULL = 4;
/** NMDeviceStateReason of a network that is not found, or that has WPA3 and refuses the password. */
const OUT_OF_RANGE = 53;
const REFUSED_PASSWORD = "the password may be wrong: the network did not accept it";
/** NMDeviceStateReason, in plain words. */
const REASONS: { readonly [reason: number]: string } = {
  5: "the network gave the device no address (something else may serve addresses or names here)",
  7: "the password is wrong or missing",
  8: "the network broke off the connection",
  9: REFUSED_PASSWORD,
  10: "the network did not answer in time",
  11: "the network did not answer in time",
  15: "no address came from the network",
  16: "no address came from the network",
  17: "no address came from the network",
  [OUT_OF_RANGE]: "the network is out of range",
};
const ACTIVATE_MS = 50_000;
const SCAN_MS = 30_000;
const LOOK_AGAIN_MS = 250;
/** NM_CHECKPOINT_CREATE_FLAG: delete new profiles, disconnect new devices. */
const CHECKPOINT_FLAGS = 0x02 | 0x04;
const NETWORKS_MAX = 200;
const PROFILES_MAX = 500;
const DEVICES_MAX = 100;
const STRENGTH_MAX = 100;

interface DeviceSeen {
  readonly path: string;
  readonly name: string;
  readonly type: number;
  /** A Wi-Fi device without a link has lost its router, even if the service has not noticed yet. */
  readonly hasLink: boolean;
  /** Whether the service leaves it to another program. */
  readonly isUnmanaged: boolean;
}

export class NetworkManager implements NetworkPort {
  constructor(private readonly bus: Bus, private readonly clock: Clock) {}

  async look(interfaceName: string, signal: AbortSignal): Promise<NetworkView> {
    const wifi = await this.#wifi(interfaceName, signal);
    const profiles = await this.#profiles(signal);
    const all = await this.#all(ROOT, NM, signal);
    const view = {
      internet: all.Connectivity === FULL,
      checksInternet: all.ConnectivityCheckAvailable === true && all.ConnectivityCheckEnabled === true,
      profiles,
      isWifiOff: all.WirelessEnabled === false,
    };
    if (!wifi) return { ...view, inRange: [] };
    const active = await this.#get<string>(wifi.path, `${NM}.Device`, "ActiveConnection", signal);
    const connectedTo = wifi.hasLink ? await this.#connectedTo(active, profiles, signal) : undefined;
    const { name: wifiDevice, isUnmanaged } = wifi;
    return {
      ...{ ...view, wifiDevice, isUnmanaged, connectedTo },
      isWifiIdle: active === NOTHING,
      inRange: await this.#inRange(wifi.path, signal),
    };
  }

  async check(signal: AbortSignal): Promise<boolean> {
    return await this.#call<number>(ROOT, NM, "CheckConnectivity", undefined, [], signal) === FULL;
  }

  async scan(wifiDevice: string, signal: AbortSignal): Promise<void> {
    const wifi = await this.#wifi(wifiDevice, signal);
    if (!wifi) return;
    const last = () => this.#get<bigint>(wifi.path, `${NM}.Device.Wireless`, "LastScan", signal);
    const before = await last();
    await this.#call(wifi.path, `${NM}.Device.Wireless`, "RequestScan", "a{sv}", [{}], signal);
    const late = deadline(this.clock, SCAN_MS, () => tooLate("looking for networks", SCAN_MS), signal);
    try {
      while (await last() === before) await this.clock.sleep(LOOK_AGAIN_MS, late.signal);
    } finally {
      late.done();
    }
  }

  async put(
    profile: ProfileWanted,
    known: readonly NetworkProfile[],
    signal: AbortSignal,
  ): Promise<NetworkProfile> {
    const there = known.find(({ name }) => name === profile.name);
    if (there) {
      // A renamed profile has the UUID of its earlier name, which cannot change.
      const { uuid } = sectionOf((await this.#readSettings(there.path, signal)).connection);
      const settings = withUuid(profile.settings, uuid);
      await this.#call(there.path, `${NM}.Settings.Connection`, "Update", "a{sa{sv}}", [settings], signal);
    }
    const path = there?.path ??
      await this.#call<string>(
        `${ROOT}/Settings`,
        `${NM}.Settings`,
        "AddConnection",
        "a{sa{sv}}",
        [profile.settings],
        signal,
      );
    return await this.#profile(path, signal);
  }

  async remove({ path }: NetworkProfile, signal: AbortSignal): Promise<void> {
    await this.#call(path, `${NM}.Settings.Connection`, "Delete", undefined, [], signal);
  }

  async setAutoconnect({ path }: NetworkProfile, on: boolean, signal: AbortSignal): Promise<void> {
    const settings = await this.#readSettings(path, signal);
    await this.#update(path, {
      ...settings,
      connection: { ...sectionOf(settings.connection), autoconnect: on },
    }, signal);
  }

  async rename({ path }: NetworkProfile, name: string, signal: AbortSignal): Promise<void> {
    const settings = await this.#readSettings(path, signal);
    const data = { ...sectionOf(sectionOf(settings.user).data), [PROFILE_MARK.name]: name };
    await this.#update(path, {
      ...settings,
      connection: { ...sectionOf(settings.connection), autoconnect: true },
      user: { data },
    }, signal);
  }

  /** NetworkManager keeps the secrets of a profile that is written without any. */
  async #update(path: string, settings: Record<string, unknown>, signal: AbortSignal): Promise<void> {
    const args = [typedSettings(settings)];
    await this.#call(path, `${NM}.Settings.Connection`, "Update", "a{sa{sv}}", args, signal);
  }

  async activate({ path, ssid, id }: NetworkProfile, deviceName: string, signal: AbortSignal): Promise<void> {
    const device = (await this.#devices(signal)).find(({ name }) => name === deviceName);
    if (!device) throw new SvcError("not_found", `there is no network device ${deviceName}`);
    // The failed state lasts only a moment, so it is observed by signal rather than polled.
    let why: number | undefined;
    const stop = await this.bus.listen(
      { sender: NM, path: device.path, interface: `${NM}.Device`, member: "StateChanged" },
      ([to, , reason]) => void (why = to === DEVICE.failed ? Number(reason) : why),
    );
    const late = deadline(
      this.clock,
      ACTIVATE_MS,
      () => tooLate(`joining ${ssid ?? id}`, ACTIVATE_MS),
      signal,
    );
    try {
      const args = [path, device.path, NOTHING];
      const active = await this.#call<string>(ROOT, NM, "ActivateConnection", "ooo", args, late.signal);
      for (;;) {
        const state = await this.#get<number>(active, `${NM}.Connection.Active`, "State", late.signal)
          .catch(gone);
        if (state === ACTIVATED) return;
        if (state === undefined || state > ACTIVATED || why !== undefined) {
          throw new SvcError("failed_precondition", await this.#reason(why ?? 0, device, ssid, late.signal));
        }
        await this.clock.sleep(LOOK_AGAIN_MS, late.signal);
      }
    } finally {
      late.done();
      stop();
    }
  }

  async #reason(
    why: number,
    { path }: DeviceSeen,
    ssid: string | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    if (why === OUT_OF_RANGE && ssid !== undefined) {
      const inRange = await this.#inRange(path, signal).catch(() => []);
      const found = inRange.find((one) => one.ssid === ssid);
      if (found?.security.includes("WPA3")) return REFUSED_PASSWORD;
    }
    return REASONS[why] ?? `it did not work (reason ${why})`;
  }

  async deactivate({ path }: NetworkProfile, signal: AbortSignal): Promise<void> {
    for (const active of await this.#get<string[]>(ROOT, NM, "ActiveConnections", signal)) {
      const of = await this.#get<string>(active, `${NM}.Connection.Active`, "Connection", signal).catch(gone);
      if (of === path) await this.#call(ROOT, NM, "DeactivateConnection", "o", [active], signal);
    }
  }

  async checkpoint(withinSeconds: number, signal: AbortSignal): Promise<Checkpoint> {
    const args = [[], withinSeconds, CHECKPOINT_FLAGS];
    const path = await this.#call<string>(ROOT, NM, "CheckpointCreate", "aouu", args, signal);
    return {
      keep: (signal) => this.#call(ROOT, NM, "CheckpointDestroy", "o", [path], signal),
      goBack: async (signal) => void await this.#call(ROOT, NM, "CheckpointRollback", "o", [path], signal),
    };
  }

  async reload(signal: AbortSignal): Promise<void> {
    await this.#call(ROOT, NM, "Reload", "u", [0], signal);
  }

  close(): Promise<void> {
    return this.bus.close();
  }

  async #devices(signal: AbortSignal): Promise<DeviceSeen[]> {
    const paths = await this.#paths(ROOT, NM, "GetDevices", signal);
    const seen: DeviceSeen[] = [];
    for (const path of paths.slice(0, DEVICES_MAX)) {
      const all = await this.#all(path, `${NM}.Device`, signal).catch(gone);
      if (!all) continue;
      const hasLink = typeof all.InterfaceFlags !== "number" || (all.InterfaceFlags & LOWER_UP) !== 0;
      const isUnmanaged = all.State === DEVICE.unmanaged;
      seen.push({
        ...{ path, hasLink, isUnmanaged },
        ...{ name: textOf(all.Interface), type: numberOf(all.DeviceType) },
      });
    }
    return seen;
  }

  async #wifi(wanted: string, signal: AbortSignal): Promise<DeviceSeen | undefined> {
    const devices = (await this.#devices(signal)).filter(({ type }) => type === WIFI);
    if (wanted !== "") return devices.find(({ name }) => name === wanted);
    return devices.find(({ isUnmanaged }) => !isUnmanaged) ?? devices[0];
  }

  async #profiles(signal: AbortSignal): Promise<NetworkProfile[]> {
    const paths = await this.#paths(`${ROOT}/Settings`, `${NM}.Settings`, "ListConnections", signal);
    const profiles: NetworkProfile[] = [];
    for (const path of paths.slice(0, PROFILES_MAX)) {
      const profile = await this.#profile(path, signal).catch(gone);
      if (profile) profiles.push(profile);
    }
    return profiles;
  }

  async #profile(path: string, signal: AbortSignal): Promise<NetworkProfile> {
    const settings = await this.#readSettings(path, signal);
    const connection = sectionOf(settings.connection);
    const data = sectionOf(sectionOf(settings.user).data);
    const wifi = sectionOf(settings["802-11-wireless"]);
    return {
      path,
      name: textOf(data[PROFILE_MARK.name]),
      digest: textOf(data[PROFILE_MARK.digest]),
      id: textOf(connection.id),
      ssid: nameOf(wifi.ssid),
      priority: numberOf(connection["autoconnect-priority"]),
      isHotspot: wifi.mode === "ap",
      isHidden: wifi.hidden === true,
      device: textOf(connection["interface-name"]),
      autoconnect: connection.autoconnect !== false,
    };
  }

  async #readSettings(path: string, signal: AbortSignal): Promise<Record<string, unknown>> {
    const iface = `${NM}.Settings.Connection`;
    return sectionOf(await this.#call<unknown>(path, iface, "GetSettings", undefined, [], signal));
  }

  async #connectedTo(
    active: string,
    profiles: readonly NetworkProfile[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (active === NOTHING) return undefined;
    const all = await this.#all(active, `${NM}.Connection.Active`, signal).catch(gone);
    if (Number(all?.State) !== ACTIVATED) return undefined;
    const profile = profiles.find(({ path }) => path === all?.Connection);
    return profile && !profile.isHotspot ? profile.ssid : undefined;
  }

  async #inRange(wifi: string, signal: AbortSignal): Promise<WifiInRange[]> {
    const iface = `${NM}.Device.Wireless`;
    const points = await this.#paths(wifi, iface, "GetAllAccessPoints", signal);
    const found = new Map<string, WifiInRange>();
    for (const path of points.slice(0, NETWORKS_MAX)) {
      const all = await this.#all(path, `${NM}.AccessPoint`, signal).catch(gone);
      const ssid = nameOf(all?.Ssid);
      if (!all || !ssid || ssid.includes("\ufffd") || ssid.includes("\0")) continue;
      const signalPercent = Math.min(STRENGTH_MAX, Math.max(0, numberOf(all.Strength)));
      const other = found.get(ssid);
      found.set(ssid, {
        ssid,
        signal: Math.max(other?.signal ?? 0, signalPercent),
        security: bothOf(other?.security, securityOf(all)),
      });
    }
    return [...found.values()].sort((a, b) => b.signal - a.signal || (a.ssid < b.ssid ? -1 : 1));
  }

  async #get<T>(path: string, iface: string, name: string, signal: AbortSignal): Promise<T> {
    return await this.#call<T>(path, PROPERTIES, "Get", "ss", [iface, name], signal);
  }

  async #all(path: string, iface: string, signal: AbortSignal): Promise<Record<string, unknown>> {
    return sectionOf(await this.#call<unknown>(path, PROPERTIES, "GetAll", "s", [iface], signal));
  }

  async #paths(path: string, iface: string, member: string, signal: AbortSignal): Promise<string[]> {
    const paths = await this.#call<unknown>(path, iface, member, undefined, [], signal);
    if (Array.isArray(paths) && paths.every((one) => typeof one === "string")) return paths;
    throw new SvcError(
      "internal",
      `${iface}.${member} of ${path} gave ${typeof paths}, wanted a list of paths`,
    );
  }

  async #call<T = void>(
    path: string,
    iface: string,
    member: string,
    signature: string | undefined,
    args: readonly unknown[],
    signal: AbortSignal,
  ): Promise<T> {
    return await this.bus.call<T>({
      destination: NM,
      path,
      interface: iface,
      member,
      signature,
      args,
      signal,
    });
  }
}

/** Treats objects that have disappeared as absent; throws other errors again. */
function gone(error: unknown): undefined {
  const { code } = SvcError.from(error);
  if (code !== "not_found" && code !== "unimplemented" && code !== "failed_precondition") throw error;
  return undefined;
}

/** Values by name; none if the answer has another form. */
function sectionOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
      !(value instanceof Uint8Array)
    ? value as Record<string, unknown>
    : {};
}

function withUuid(settings: TypedSections, uuid: unknown): TypedSections {
  if (typeof uuid !== "string") return settings;
  return { ...settings, connection: { ...settings.connection, uuid: typed("s", uuid) } };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function nameOf(bytes: unknown): string | undefined {
  return bytes instanceof Uint8Array ? Buffer.from(bytes).toString("utf8") : undefined;
}

const SECURITIES = ["WPA1", "WPA2", "WPA3", "OWE", "OWE-TM", "802.1X", "WEP"];

/** 802.11 security of an access point by its flags (NM80211ApFlags, NM80211ApSecurityFlags). */
function securityOf({ Flags, WpaFlags, RsnFlags }: Record<string, unknown>): string {
  const [flags, wpa, rsn] = [Number(Flags), Number(WpaFlags), Number(RsnFlags)];
  const [PRIVACY, PSK, EAP, SAE, OWE, OWE_TM] = [0x1, 0x100, 0x200, 0x400, 0x800, 0x1000];
  const found = [
    ...wpa !== 0 ? ["WPA1"] : [],
    ...(rsn & (PSK | EAP)) !== 0 ? ["WPA2"] : [],
    ...(rsn & SAE) !== 0 ? ["WPA3"] : [],
    ...(rsn & OWE) !== 0 ? ["OWE"] : [],
    ...(rsn & OWE_TM) !== 0 ? ["OWE-TM"] : [],
    ...((wpa | rsn) & EAP) !== 0 ? ["802.1X"] : [],
  ];
  if (found.length === 0 && (flags & PRIVACY) !== 0) return "WEP";
  return found.join(" ");
}

/** The security of two access points of one network, in the order of `securityOf`; WEP is for networks without more. */
function bothOf(one: string | undefined, other: string): string {
  const words = new Set([...(one ?? "").split(" "), ...other.split(" ")]);
  const known = SECURITIES.filter((word) => words.has(word));
  return (known.length > 1 ? known.filter((word) => word !== "WEP") : known).join(" ");
}

function tooLate(what: string, ms: number): SvcError {
  return new SvcError("deadline_exceeded", `${what} took longer than ${ms / 1000} s`);
}
