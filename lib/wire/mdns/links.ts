/**
 * This computer's networks for multicast DNS: one socket for each, opened and closed as interfaces come and go.
 *
 * If a network refuses multicast, this is reported once and retried. Datagrams from outside a socket's network are
 * dropped.
 *
 * The room owns multicast DNS: how machines announce themselves on a network, and how they are found there.
 */

import { networkInterfaces } from "node:os";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { type Endpoint, type GroupSocket, openGroup } from "../../base/udp.ts";
import { decodeDns, type DnsMessage, encodeDns } from "./dns_message.ts";

export const GROUP: Endpoint = { host: "224.0.0.251", port: 5353 };

/** Interval of the search for interfaces. */
const LOOK_MS = 15_000;
/** Limit of interfaces. On a computer with more, most belong to containers. */
const LINKS_MAX = 32;
/** Limit of distinct reported problems. */
const PROBLEMS_MAX = 100;

/** An interface with an IPv4 address. */
export interface Interface {
  /** `192.168.1.7` */
  readonly address: string;
  readonly netmask: string;
  /** Its addresses, the IPv4 one first. */
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
  join: (at, received, failed) => openGroup({ group: GROUP, at, received, failed }),
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
      if (message) heard(message, from, link);
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

function interfacesOf(all: SystemInterfaces): Interface[] {
  return Object.values(all).flatMap((addresses = []) => {
    const v4 = addresses.find(({ family }) => family === "IPv4");
    if (!v4) return [];
    // A link-local IPv6 address is useless without the name of its interface.
    const v6 = addresses.filter(({ family, address }) => family === "IPv6" && !/^fe[89ab]/i.test(address));
    const isLoopback = v4.internal;
    return [{
      address: v4.address,
      netmask: v4.netmask,
      addresses: [v4.address, ...isLoopback ? [] : v6.map(({ address }) => address)],
      isLoopback,
    }];
  });
}

/** Whether an IPv4 address belongs to the interface's network. */
function isOn({ address, netmask }: Interface, host: string): boolean {
  const bits = (text: string) => text.split(".").reduce((sum, byte) => (sum << 8) | Number(byte), 0);
  const mask = bits(netmask);
  return (bits(address) & mask) === (bits(host) & mask);
}
