/**
 * The networks that this computer is on, as multicast DNS uses them: one socket for each, opened and closed as
 * interfaces come and go.
 *
 * Promises that a network that refuses multicast does no harm: it is told of once, tried again, and left aside until
 * then. What is heard comes from a computer on that same network; anything else is dropped.
 *
 * The room owns multicast DNS: how machines announce themselves on a network, and how they are found there.
 */

import { networkInterfaces } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { type Endpoint, type GroupSocket, openGroup } from "../../base/udp.ts";
import { decodeDns, type DnsMessage, encodeDns } from "./dns_message.ts";

export const GROUP: Endpoint = { host: "224.0.0.251", port: 5353 };

/** How often it is looked which interfaces there are. */
const LOOK_MS = 15_000;
/** A computer with more of them has most of them for containers. */
const LINKS_MAX = 32;
/** Different problems that are told of. */
const PROBLEMS_MAX = 100;

/** An interface that has an address of IPv4. */
export interface Interface {
  /** `192.168.1.7` */
  readonly address: string;
  readonly netmask: string;
  /** All addresses that others reach it by, the one of IPv4 first. */
  readonly addresses: readonly string[];
  readonly isLoopback: boolean;
}

/** What multicast DNS needs of a computer. */
export interface MdnsNetwork {
  interfaces(): readonly Interface[];
  join(
    at: string,
    received: (bytes: Uint8Array, from: Endpoint) => void,
    failed: (error: SvcError) => void,
  ): Promise<GroupSocket>;
}

/** The networks of this computer. */
export const SYSTEM_NETWORK: MdnsNetwork = {
  interfaces: () => interfacesOf(networkInterfaces()),
  join: (at, received, failed) => openGroup({ group: GROUP, at, received, failed }),
};

export interface Link extends Interface {
  /** To everybody on the network, or to one of those who were heard. */
  send(message: DnsMessage, to?: Endpoint): void;
}

export interface LinksParts {
  readonly network: MdnsNetwork;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly wanted: (one: Interface) => boolean;
  readonly heard: (message: DnsMessage, from: Endpoint, link: Link) => void;
  /** Hears of each that has been opened. */
  readonly came: (link: Link) => void;
}

interface Open extends Link {
  readonly socket: GroupSocket;
}

export class Links {
  readonly #parts: LinksParts;
  readonly #open = new Map<string, Open>();
  readonly #told = new Set<string>();
  #work = Promise.resolve();
  #callOff = () => {};
  #closed = false;

  constructor(parts: LinksParts) {
    this.#parts = parts;
  }

  get all(): Iterable<Link> {
    return this.#open.values();
  }

  /** Resolves when every network that can be used is. */
  open(): Promise<void> {
    this.#callOff();
    return this.#work = this.#work.then(() => this.#look());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#callOff();
    await this.#work;
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

  /** Once, however often it is tried again. */
  #tell(error: SvcError): void {
    const text = messageOf(error);
    if (this.#told.has(text) || this.#told.size >= PROBLEMS_MAX) return;
    this.#told.add(text);
    this.#parts.logger.debug(`multicast DNS does without a network: ${text}`);
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
    // An address of IPv6 that holds for one link alone means nothing without the name of the interface.
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

/** Whether an address of IPv4 is one of the interface's network. */
function isOn({ address, netmask }: Interface, host: string): boolean {
  const bits = (text: string) => text.split(".").reduce((sum, byte) => (sum << 8) | Number(byte), 0);
  const mask = bits(netmask);
  return (bits(address) & mask) === (bits(host) & mask);
}
