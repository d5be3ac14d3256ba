/** What the agent asks of the system's network service, whichever it is. */

import type { Secret } from "../../base/secret.ts";
import type { ProfileWanted } from "./profiles.ts";

/** A Wi-Fi network in range. */
export interface WifiInRange {
  readonly ssid: string;
  /** `WPA2`, `WPA1 WPA2`; empty for an open network. */
  readonly security: string;
  /** 0 to 100. */
  readonly signal: number;
}

export interface Profile {
  /** By which the service knows it. */
  readonly path: string;
  /** The agent's mark; empty for a profile of somebody else's. */
  readonly name: string;
  readonly digest: string;
  readonly id: string;
  readonly ssid?: string;
  readonly priority: number;
  readonly isHotspot: boolean;
}

export interface NetworkView {
  /** The Wi-Fi device that is managed; none on a device without one. */
  readonly wifiDevice?: string;
  /** The network that this device is connected to, but for its own hotspot. */
  readonly connectedTo?: string;
  /** The service thinks that the internet answers. */
  readonly internet: boolean;
  /** It has tried that, and does not just guess by the routes. */
  readonly checksInternet: boolean;
  /** The strongest first, each name once. */
  readonly inRange: readonly WifiInRange[];
  readonly profiles: readonly Profile[];
}

/** Errors are `unavailable` where the service does not answer, and say in words why a network could not be joined. */
export interface NetworkPort {
  /** What there is now. `interfaceName`: the Wi-Fi device to manage; empty: the first one. */
  look(interfaceName: string, signal: AbortSignal): Promise<NetworkView>;
  /** Has the service try now whether the internet answers. */
  check(signal: AbortSignal): Promise<boolean>;
  /** Has the Wi-Fi device look for networks, and waits until it has. */
  scan(wifiDevice: string, signal: AbortSignal): Promise<void>;
  /** Writes a profile, in the place of the one of the same name. */
  put(profile: ProfileWanted, known: readonly Profile[], signal: AbortSignal): Promise<Profile>;
  remove(profile: Profile, signal: AbortSignal): Promise<void>;
  /** Connects, and waits until that has worked. Throws `failed_precondition` with the reason in words. */
  activate(profile: Profile, deviceName: string, signal: AbortSignal): Promise<void>;
  /** Takes a profile out of use; nothing where it is in none. */
  deactivate(profile: Profile, signal: AbortSignal): Promise<void>;
  /**
   * Remembers all there is. Unless it is told to keep what comes after, the service goes back to it by itself when the
   * time is over, also if the agent has gone.
   */
  checkpoint(withinSeconds: number, signal: AbortSignal): Promise<Checkpoint>;
  /** Has the service read its own files again. */
  reload(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface Checkpoint {
  keep(signal: AbortSignal): Promise<void>;
  goBack(signal: AbortSignal): Promise<void>;
}

/** The hotspot's name and password. */
export interface HotspotName {
  readonly ssid: string;
  readonly password: Secret;
}
