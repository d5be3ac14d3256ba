/** The system's network service, as the agent uses it. */

import type { ProfileWanted } from "./profiles.ts";

/** A Wi-Fi network in range. */
export interface WifiInRange {
  readonly ssid: string;
  /** `WPA2`, `WPA2 WPA3`, `OWE` (encrypted without a password), of all its access points; empty for an open network. */
  readonly security: string;
  /** 0 to 100. */
  readonly signal: number;
}

export interface NetworkProfile {
  /** The service's id of the profile. */
  readonly path: string;
  /** The agent's mark; empty for a foreign profile. */
  readonly name: string;
  readonly digest: string;
  readonly id: string;
  readonly ssid?: string;
  readonly priority: number;
  readonly isHotspot: boolean;
  /** Whether the device asks for the network by its name, because the network does not show it. */
  readonly isHidden?: boolean;
  /** The name of the only device that may use it; empty means any. */
  readonly device: string;
  /** Whether the service connects to it by itself. */
  readonly autoconnect: boolean;
}

export interface NetworkView {
  /** The managed Wi-Fi device; absent on a device without one. */
  readonly wifiDevice?: string;
  /** The network that this device is connected to, unless it is its own hotspot. */
  readonly connectedTo?: string;
  /** Whether this device is neither connected nor about to be, to nothing and as no hotspot. */
  readonly isWifiIdle?: boolean;
  /** The service considers the internet reachable. */
  readonly internet: boolean;
  /** Whether the service has tested this, rather than inferred it from routes. */
  readonly checksInternet: boolean;
  /** Strongest first, each name once. */
  readonly inRange: readonly WifiInRange[];
  readonly profiles: readonly NetworkProfile[];
  /** All Wi-Fi is switched off. */
  readonly isWifiOff?: boolean;
  /** The managed Wi-Fi device belongs to another program: the service leaves it alone. */
  readonly isUnmanaged?: boolean;
}

/** Without the service, every call throws `unavailable`. An error says in words why a network could not be joined. */
export interface NetworkPort {
  /** The present state. `interfaceName`: the Wi-Fi device to manage; empty: the first one. */
  look(interfaceName: string, signal: AbortSignal): Promise<NetworkView>;
  /** Makes the service test the internet now. */
  check(signal: AbortSignal): Promise<boolean>;
  /** Makes the Wi-Fi device scan, and waits for the end. */
  scan(wifiDevice: string, signal: AbortSignal): Promise<void>;
  /** Writes a profile, replacing the one with the same name. */
  put(profile: ProfileWanted, known: readonly NetworkProfile[], signal: AbortSignal): Promise<NetworkProfile>;
  remove(profile: NetworkProfile, signal: AbortSignal): Promise<void>;
  /** Sets whether the service connects to one of the agent's profiles by itself; keeps its secrets. */
  setAutoconnect(profile: NetworkProfile, on: boolean, signal: AbortSignal): Promise<void>;
  /** Changes the name in the mark of one of the agent's profiles, to which the service may connect by itself now. */
  rename(profile: NetworkProfile, name: string, signal: AbortSignal): Promise<void>;
  /** Connects, and waits for success. Throws `failed_precondition` with the reason in words. */
  activate(profile: NetworkProfile, deviceName: string, signal: AbortSignal): Promise<void>;
  /** Deactivates a profile; does nothing to an inactive one. */
  deactivate(profile: NetworkProfile, signal: AbortSignal): Promise<void>;
  /**
   * Takes a checkpoint. Unless the caller keeps the later changes, the service rolls back by itself at the end of the
   * time, even if the agent has died.
   */
  checkpoint(withinSeconds: number, signal: AbortSignal): Promise<Checkpoint>;
  /** Makes the service reload its own files. */
  reload(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface Checkpoint {
  keep(signal: AbortSignal): Promise<void>;
  goBack(signal: AbortSignal): Promise<void>;
}
