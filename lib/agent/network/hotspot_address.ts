/**
 * The address of the device in its own hotspot: the published one, or another where a network of the device has it
 * already (a cluster's pods, a cable). With both, answers to phones would go to that network. Pure.
 */

import { BlockList } from "node:net";
import { type NetworkRoute, routesOf } from "../system/routes.ts";

/** The published address, and others in the order of choice, of private networks that few devices have. */
const ADDRESSES = ["10.42.0.1", "192.168.142.1", "172.30.142.1", "10.142.142.1"] as const;
export const HOTSPOT_ADDRESS = ADDRESSES[0];
export const HOTSPOT_PREFIX = 24;
/** Wider ones are ways out, to a company's network for example: whatever is in the hotspot, the rest of them works. */
const NETWORK_BITS_MIN = 12;

export interface HotspotAddress {
  readonly address: string;
  /** The network of the device that has the published address. */
  readonly taken?: string;
}

/**
 * The address for the hotspot. `table` has the device's routes; those of the hotspot's own device end when it opens.
 * `present` is the address of an open hotspot, which stays while nothing else has it.
 */
export function hotspotAddress(table: string, wifiDevice: string, present?: string): HotspotAddress {
  const networks = routesOf(table).filter(({ device, bits }) =>
    device !== wifiDevice && bits >= NETWORK_BITS_MIN
  );
  const takerOf = (address: string) => networks.find((network) => overlaps(network, address));
  if (present !== undefined && !takerOf(present)) return { address: present };
  const taker = takerOf(HOTSPOT_ADDRESS);
  if (!taker) return { address: HOTSPOT_ADDRESS };
  const taken = `${taker.destination}/${taker.bits} of ${taker.device}`;
  return { address: ADDRESSES.find((one) => !takerOf(one)) ?? HOTSPOT_ADDRESS, taken };
}

/** Whether a network and the hotspot with this address have an address in common. */
function overlaps({ destination, bits }: NetworkRoute, address: string): boolean {
  const wider = new BlockList();
  wider.addSubnet(destination, Math.min(bits, HOTSPOT_PREFIX), "ipv4");
  return wider.check(address, "ipv4");
}
