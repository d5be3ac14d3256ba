/**
 * Networks in memory, for announcing and finding machines by multicast DNS.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../lib/base/error.ts";
import type { Endpoint } from "../../lib/base/udp.ts";
import { GROUP, type Interface, type MdnsNetwork } from "../../lib/wire/mdns/links.ts";

interface Member {
  readonly host: string;
  readonly port: number;
  readonly received: (bytes: Uint8Array, from: Endpoint) => void;
}

/** A network on which everybody receives everything, the sender included. */
export class FakeLan {
  readonly members = new Set<Member>();
  /** How many messages have been sent. */
  sent = 0;

  deliver(bytes: Uint8Array, from: Endpoint, to: Endpoint): void {
    this.sent++;
    for (const { host, port, received } of [...this.members]) {
      const isMeant = to.host === GROUP.host ? port === to.port : host === to.host && port === to.port;
      if (isMeant) queueMicrotask(() => received(Buffer.from(bytes), from));
    }
  }

  /** A program with a port of its own that asks by plain DNS. */
  stranger(host: string, port: number) {
    const heard: Uint8Array[] = [];
    const member: Member = { host, port, received: (bytes) => void heard.push(bytes) };
    this.members.add(member);
    return { heard, send: (bytes: Uint8Array) => this.deliver(bytes, { host, port }, GROUP) };
  }
}

/** A computer with some interfaces, each on a network of its own. */
export class FakeMdnsNetwork implements MdnsNetwork {
  /** Interfaces that refuse multicast, by address. */
  readonly refusing = new Set<string>();

  constructor(readonly lans: Map<Interface, FakeLan>) {}

  interfaces(): Interface[] {
    return [...this.lans.keys()];
  }

  join(at: string, received: Member["received"]) {
    const [, lan] = [...this.lans].find(([{ address }]) => address === at)!;
    if (this.refusing.has(at)) {
      return Promise.reject(new SvcError("unavailable", `multicast at ${at}: not permitted`));
    }
    const from = { host: withoutInterface(at), port: GROUP.port };
    const member: Member = { ...from, received };
    lan.members.add(member);
    return Promise.resolve({
      send: (bytes: Uint8Array, { host, port }: Endpoint = GROUP) =>
        lan.deliver(bytes, from, { host: withoutInterface(host), port }),
      close: () => Promise.resolve(void lan.members.delete(member)),
    });
  }
}

/** An interface with one address of IPv4, and others. */
export function fakeInterface(address: string, ...more: string[]): Interface {
  const isLoopback = address.startsWith("127.");
  const netmask = isLoopback ? "255.0.0.0" : "255.255.255.0";
  const own = withoutInterface(address);
  const addresses = own === address || more.length === 0 ? [own, ...more] : more;
  return { address, netmask, addresses, isLoopback };
}

/** `fe80::1` of `fe80::1%eth0`: what a sender's address is for others. */
function withoutInterface(address: string): string {
  return address.replace(/%.*/, "");
}
