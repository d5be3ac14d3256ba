/**
 * The network service of a fake device: routers in range, profiles, a hotspot, checkpoints.
 */

import { SvcError } from "../../lib/base/error.ts";
import type {
  Checkpoint,
  NetworkPort,
  NetworkProfile,
  NetworkView,
} from "../../lib/agent/network/network_port.ts";
import type { ProfileWanted } from "../../lib/agent/network/profiles.ts";

/** A router: its password, and whether it leads to the internet. */
export interface FakeRouter {
  readonly password: string;
  readonly internet?: boolean;
  /** By default `WPA2`. */
  readonly security?: string;
}

type Kept = NetworkProfile & { readonly wanted: ProfileWanted };

const DEVICE = "wlan0";

export class FakeNetwork implements NetworkPort {
  /** Without it there is no router and no hotspot, either. */
  hasWifi = true;
  readonly routers = new Map<string, FakeRouter>();
  /** Names of routers that no scan finds: they answer only who asks for them by name. */
  readonly hidden = new Set<string>();
  /** The internet by cable, as long as no pushed profile breaks it. */
  wired = false;
  /** Marks of profiles that break the cable. */
  readonly breaking = new Set<string>();
  /** Why profiles are not taken, by their marks. */
  readonly rejecting = new Map<string, Error>();
  /** Without that, every connection counts as the internet. */
  checksInternet = true;
  /** Without a check, there is a default route even where it leads nowhere. */
  routesOn = false;
  /** All Wi-Fi is switched off. */
  isWifiOff = false;
  /** The Wi-Fi device belongs to another program. */
  isUnmanaged = false;
  /** Joins networks by itself, as the profiles allow. */
  joinsAlone = false;
  /** Addresses of phones that share their connection; it is used by `tethered`. */
  readonly phones = new Set<string>();
  tethered: string | undefined;
  readonly profiles = new Map<string, Kept>();
  active: string | undefined;
  scans = 0;
  reloads = 0;
  closed = false;
  #made = 0;

  /** The hotspot that is open. */
  get hotspot(): string | undefined {
    const active = this.active === undefined ? undefined : this.profiles.get(this.active);
    return active?.isHotspot ? active.ssid : undefined;
  }

  /** The network that the device is connected to. */
  get joined(): string | undefined {
    const active = this.active === undefined ? undefined : this.profiles.get(this.active);
    if (!active || active.isHotspot || !active.ssid || !this.routers.has(active.ssid)) return undefined;
    return active.ssid;
  }

  /** Whether the internet answers, whatever the service thinks. */
  get leadsOut(): boolean {
    const router = this.joined === undefined ? undefined : this.routers.get(this.joined);
    const broken = [...this.profiles.values()].some(({ name }) => this.breaking.has(name));
    return (this.wired && !broken) || this.tethered !== undefined ||
      (router !== undefined && router.internet !== false);
  }

  look(): Promise<NetworkView> {
    if (this.joinsAlone && !this.hotspot && !this.joined) this.#joinAlone();
    return Promise.resolve({
      wifiDevice: this.hasWifi ? DEVICE : undefined,
      connectedTo: this.joined,
      isWifiIdle: this.active === undefined,
      isWifiOff: this.isWifiOff,
      isUnmanaged: this.isUnmanaged,
      internet: this.leadsOut || (!this.checksInternet && (this.routesOn || this.joined !== undefined)),
      checksInternet: this.checksInternet,
      inRange: [...this.routers.keys()].filter((ssid) => !this.hidden.has(ssid)).sort().map((ssid) => ({
        ssid,
        security: this.routers.get(ssid)?.security ?? "WPA2",
        signal: 50,
      })),
      profiles: [...this.profiles.values()],
    });
  }

  async check(): Promise<boolean> {
    return (await this.look()).internet;
  }

  scan(): Promise<void> {
    this.scans++;
    return Promise.resolve();
  }

  put(wanted: ProfileWanted): Promise<NetworkProfile> {
    const { name, digest, settings } = wanted;
    if (this.rejecting.has(name)) return Promise.reject(this.rejecting.get(name));
    const value = (section: string, key: string) => settings[section]?.[key]?.[1];
    const there = [...this.profiles.values()].find((one) => one.name === name);
    const bytes = value("802-11-wireless", "ssid") as Uint8Array | undefined;
    const profile: Kept = {
      path: there?.path ?? `/profile/${++this.#made}`,
      ...{ name, digest, wanted },
      id: String(value("connection", "id")),
      ssid: bytes && new TextDecoder().decode(bytes),
      priority: Number(value("connection", "autoconnect-priority")),
      isHotspot: value("802-11-wireless", "mode") === "ap",
      isHidden: value("802-11-wireless", "hidden") === true,
      device: String(value("connection", "interface-name") ?? ""),
      autoconnect: value("connection", "autoconnect") !== false,
    };
    this.profiles.set(profile.path, profile);
    return Promise.resolve(profile);
  }

  remove({ path }: NetworkProfile): Promise<void> {
    this.profiles.delete(path);
    if (this.active === path) this.active = undefined;
    return Promise.resolve();
  }

  setAutoconnect({ path }: NetworkProfile, autoconnect: boolean): Promise<void> {
    this.profiles.set(path, { ...this.profiles.get(path)!, autoconnect });
    return Promise.resolve();
  }

  rename({ path }: NetworkProfile, name: string): Promise<void> {
    this.profiles.set(path, { ...this.profiles.get(path)!, name, autoconnect: true });
    return Promise.resolve();
  }

  activate({ path }: NetworkProfile, device: string): Promise<void> {
    const profile = this.profiles.get(path)!;
    if (profile.wanted.settings.bluetooth) {
      if (!this.phones.has(device)) {
        return Promise.reject(new SvcError("not_found", `there is no device ${device}`));
      }
      this.tethered = device;
      return Promise.resolve();
    }
    const { isHotspot, ssid = "" } = profile;
    this.active = undefined;
    const router = this.routers.get(ssid);
    if (!isHotspot && ssid !== "" && !this.#lets(profile)) {
      const why = router ? "the password may be wrong" : "the network is out of range";
      return Promise.reject(new SvcError("failed_precondition", why));
    }
    if (ssid !== "") this.active = path;
    return Promise.resolve();
  }

  deactivate({ path }: NetworkProfile): Promise<void> {
    if (this.active === path) this.active = undefined;
    return Promise.resolve();
  }

  checkpoint(): Promise<Checkpoint> {
    const before = new Map(this.profiles);
    return Promise.resolve({
      keep: () => Promise.resolve(),
      goBack: () => {
        this.profiles.clear();
        for (const [path, profile] of before) this.profiles.set(path, profile);
        return Promise.resolve();
      },
    });
  }

  reload(): Promise<void> {
    this.reloads++;
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  #joinAlone(): void {
    const [first] = [...this.profiles.values()]
      .filter((one) => one.autoconnect && !one.isHotspot && this.#lets(one))
      .sort((a, b) => b.priority - a.priority);
    if (first) this.active = first.path;
  }

  /** Whether its router is in range and accepts its password. */
  #lets({ ssid, isHidden, wanted }: Kept): boolean {
    if (ssid !== undefined && this.hidden.has(ssid) && !isHidden) return false;
    const security = wanted.settings["802-11-wireless-security"];
    const psk = security?.psk?.[1] ?? "";
    const isOwe = ssid !== undefined && this.routers.get(ssid)?.security === "OWE";
    const keys = security?.["key-mgmt"]?.[1];
    if (isOwe !== (keys === "owe")) return false;
    const offered = this.routers.get(ssid ?? "")?.security ?? "WPA2";
    if (keys === "wpa-psk" && offered === "WPA3") return false;
    if (keys === "sae" && !offered.includes("WPA3")) return false;
    return ssid !== undefined && this.routers.get(ssid)?.password === psk;
  }
}
