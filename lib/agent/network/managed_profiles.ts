/** Which of the network service's profiles the agent manages, and which of them counts for a network. */

import { firstNetwork } from "./decision.ts";
import type { NetworkProfile, NetworkView } from "./network_port.ts";
import { CHOSEN, TRIED } from "./profiles.ts";

/** Whether it is a choice that has not connected yet. */
export function isTried({ name }: Pick<NetworkProfile, "name">): boolean {
  return name.startsWith(TRIED);
}

export type WifiProfile = NetworkProfile & { readonly ssid: string };

/** The profiles of Wi-Fi networks for the managed device. */
export function managedProfiles({ profiles, wifiDevice }: NetworkView): WifiProfile[] {
  return profiles.filter((one): one is WifiProfile =>
    one.ssid !== undefined && !one.isHotspot && (one.device === "" || one.device === wifiDevice)
  );
}

/** The profile of the first network for the managed device. */
export function firstProfile(view: NetworkView): WifiProfile | undefined {
  const networks = managedProfiles(view);
  return profileFor(networks, firstNetwork(networks.map(wifiFactsOf))?.ssid);
}

export function wifiFactsOf({ name, ssid, priority, isHidden = false }: WifiProfile) {
  return { ssid, priority, isHidden, isChosen: name.startsWith(CHOSEN), isTried: isTried({ name }) };
}

/** The profile of a network: the one to try, the chosen one, or else the one with the highest priority. */
export function profileFor<P extends NetworkProfile>(profiles: readonly P[], ssid?: string): P | undefined {
  const rank = ({ name }: NetworkProfile) =>
    ["", CHOSEN, TRIED].findLastIndex((mark) => name.startsWith(mark));
  return profiles.filter((one) => one.ssid === ssid)
    .sort((a, b) => rank(b) - rank(a) || b.priority - a.priority)[0];
}
