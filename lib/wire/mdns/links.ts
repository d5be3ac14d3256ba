/**
 * This computer's networks for multicast DNS: one socket for each, opened and closed as interfaces come and go.
 *
 * A network is used by IPv4; one that has none, by IPv6 and its link-local addresses, which need the name of the
 * interface (`fe80::1%eth0`). If a network refuses multicast, this is reported once and retried. Datagrams from outside a
 * socket's network are dropped.
 *
 * The room owns multicast DNS: how machines announce themselves on a network, and how they are found there.
 */

import { networkInterfaces } from "node:os";
import { isLinkLocal } from "../../base/address/link_local.ts";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { type Endpoint, type GroupSocket, openGroup } from "../../base/udp.ts";
import { decodeDns, type DnsMessage, encodeDns } from "./dns_message.ts";

export const GROUP: Endpoint = { host: "224.0.0.251", port: 5353 };
const GROUP_V6: Endpoint = { ...GROUP, host: "ff02::fb" };

/** Interval of the search for interfaces. */
const LOOK_MS = 15_000;
/** Limit of interfaces. On a computer with more, most belong to containers. */
const LINKS_MAX = 32;
/** Limit of distinct reported problems. */
const PROBLEMS_MAX = 100;

/** An interface with an IPv4 address, or one with IPv6 addresses alone. */
export interface Interface {
  /** `192.168.1.7`, `fe80::1%eth0` */
  readonly address: string;
  readonly netmask: string;
  /** The addresses at which others reach this computer, the IPv4 one first. */
  readonly addresses: readonly string[];
  readonly isLoopback: boolean;
}

/** The system's part of multicast DNS. */
export interface MdnsNetwork {
  interfaces(): readonly Interface[];
  join(
    at: string,
    received: (bytes: Uint8Array, from: Endpoint) => void,
    failed: (error: SvcError) => void,
  ): Promise<GroupSocket>;
}

/** This computer's networks. */
export const SYSTEM_NETWORK: MdnsNetwork = {
  interfaces: () => interfacesOf(networkInterfaces()),
  join: (at, received, failed) =>
    openGroup({ group: at.includes(":") ? GROUP_V6 : GROUP, at, received, failed }),
};

export interface Link extends Interface {
  /** Sends to the whole network, or to one sender. */
  send(message: DnsMessage, to?: Endpoint): void;
}

export interface LinksParts {
  readonly network: MdnsNetwork;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly wanted: (one: Interface) => boolean;
  readonly heard: (message: DnsMessage, from: Endpoint, link: Link) => void;
  /** Called when a network has been opened. */
  readonly came: (link: Link) => void;
}

interface Open extends Link {
  readonly socket: GroupSocket;
}

export class Links {
  readonly #parts: LinksParts;
  readonly #open = new Map<string, Open>();
  readonly #reported = new Set<string>();
  readonly #work = new SerialQueue();
  #callOff = () => {};
  #closed = false;

  constructor(parts: LinksParts) {
    this.#parts = parts;
  }

  get all(): Iterable<Link> {
    return this.#open.values();
  }

  /** Resolves when every usable network is open. */
  open(): Promise<void> {
    this.#callOff();
    return this.#work.run(() => this.#look());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#callOff();
    await this.#work.idle();
    await Promise.all([...this.#open.values()].map(({ socket }) => socket.close()));
    this.#open.clear();
  }

  async #look(): Promise<void> {
    if (this.#closed) return;
    const { network, wanted, clock } = this.#parts;
    const there = network.interfaces().filter(wanted).slice(0, LINKS_MAX);
    for (const [key, { socket }] of this.#open) {
      if (there.some((one) => keyOf(one) === key)) continue;
      this.#open.delete(key);
      await socket.close();
    }
    for (const one of there) if (!this.#open.has(keyOf(one))) await this.#join(one);
    if (!this.#closed) this.#callOff = clock.after(LOOK_MS, () => void this.open());
  }

  async #join(one: Interface): Promise<void> {
    const { network, heard, came } = this.#parts;
    const failed = (error: SvcError) => this.#tell(error);
    const received = (bytes: Uint8Array, from: Endpoint) => {
      const link = this.#open.get(keyOf(one));
      if (!link || !isOn(one, from.host)) return;
      const message = decodeDns(bytes);
      if (message) heard(message, { ...from, host: withInterface(from.host, one) }, link);
    };
    try {
      const socket = await network.join(one.address, received, failed);
      const send = (message: DnsMessage, to?: Endpoint) => socket.send(encodeDns(message), to);
      const link = { ...one, socket, send };
      this.#open.set(keyOf(one), link);
      came(link);
    } catch (error) {
      this.#tell(SvcError.from(error));
    }
  }

  /** Reports a problem once, however often it recurs. */
  #tell(error: SvcError): void {
    const text = messageOf(error);
    if (this.#reported.has(text) || this.#reported.size >= PROBLEMS_MAX) return;
    this.#reported.add(text);
    this.#parts.logger.debug(`multicast DNS skips a network: ${text}`);
  }
}

function keyOf({ address, netmask, addresses }: Interface): string {
  return [address, netmask, ...addresses].join(" ");
}

type SystemInterfaces = ReturnType<typeof networkInterfaces>;

/** Those with IPv4 first: the others are many on a computer with containers. */
export function interfacesOf(all: SystemInterfaces): Interface[] {
  const found = Object.entries(all).flatMap(([name, addresses = []]): Interface[] => {
    const v4 = addresses.find(({ family }) => family === "IPv4");
    const v6 = addresses.filter(({ family }) => family === "IPv6");
    const global = v6.flatMap(({ address }) => isLinkLocal(address) ? [] : [address]);
    if (v4) {
      const { address, netmask, internal: isLoopback } = v4;
      // A link-local IPv6 address is useless without the name of the asker's interface, and here is a better one.
      return [{ address, netmask, addresses: [address, ...isLoopback ? [] : global], isLoopback }];
    }
    const own = v6.find(({ address }) => isLinkLocal(address));
    if (!own) return [];
    const { address, netmask } = own;
    return [{
      address: `${address}%${name}`,
      netmask,
      addresses: global.length === 0 ? [address] : global,
      isLoopback: false,
    }];
  });
  const isV6 = ({ address }: Interface) => Number(address.includes(":"));
  return found.toSorted((one, other) => isV6(one) - isV6(other));
}

/** Whether an address belongs to the interface's network. By IPv6 everybody on it sends from a link-local address. */
function isOn({ address, netmask }: Interface, host: string): boolean {
  if (address.includes(":")) return isLinkLocal(host);
  const bits = (text: string) => text.split(".").reduce((sum, byte) => (sum << 8) | Number(byte), 0);
  const mask = bits(netmask);
  return (bits(address) & mask) === (bits(host) & mask);
}

/** A link-local IPv6 address on the network of an interface as this computer reaches it; any other address as it is. */
export function withInterface(host: string, { address }: Pick<Interface, "address">): string {
  const [, name] = address.split("%");
  return name === undefined || host.includes("%") || !isLinkLocal(host) ? host : `${host}%${name}`;
}
