/**
 * Finds machines by multicast DNS: all that a network tells of within a time, or the one that has a name.
 *
 * What others say is bounded and checked, and believed no further than for where to connect to: who answers there is
 * for TLS and the machine's keys to show.
 */

import { Waker } from "../../base/clock.ts";
import { hasHidden } from "../../base/escape.ts";
import type { DnsMessage, DnsRecord } from "./dns_message.ts";
import { Links, type LinksParts } from "./links.ts";
import { DOMAIN, instanceIn, instancesOf, SERVICE } from "./names.ts";

/** Instances and hosts that are kept; a network with more of them is no network of machines. */
const ENTRIES_MAX = 2_000;
const ADDRESSES_MAX = 16;
/** Questions are asked again after these times: the first may be lost. */
const AGAIN_MS = [250, 1_000];
/** How long the published clients look for a name. */
const LOOKUP_MS = 1_500;

/** A machine, as the network tells of it. */
export interface NearMachine {
  /** All names that it has, those with dots first. */
  readonly names: readonly string[];
  /** Those of IPv4 first. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** `grpc`, `webrtc` */
  readonly serves: readonly string[];
}

export type BrowserParts = Pick<LinksParts, "network" | "clock" | "logger"> & {
  readonly signal?: AbortSignal;
};

/** All machines that answer within `forMs`, by name. */
export async function browse(parts: BrowserParts, forMs: number): Promise<NearMachine[]> {
  const found = new Found();
  await listen(parts, found, [[SERVICE, "PTR"]], forMs, () => false);
  return found.machines();
}

/** The machine of this name; `undefined` where none answers. */
export async function lookUp(parts: BrowserParts, name: string): Promise<NearMachine | undefined> {
  const wanted = instancesOf([name]);
  const questions = wanted.flatMap((
    one,
  ): Question[] => [[`${one}.${SERVICE}`, "SRV"], [`${one}.${SERVICE}`, "TXT"]]);
  const found = new Found((instance) => wanted.includes(instance));
  const sought = () => found.machines().find(({ names }) => names.some((one) => wanted.includes(one)));
  if (wanted.length === 0) return undefined;
  await listen(parts, found, [...questions, [SERVICE, "PTR"]], LOOKUP_MS, () => sought() !== undefined);
  return sought();
}

type Question = readonly [name: string, type: string];

/** Asks on every network, and listens until `enough` or the time is over. */
async function listen(
  { network, clock, logger, signal }: BrowserParts,
  found: Found,
  questions: readonly Question[],
  forMs: number,
  enough: () => boolean,
): Promise<void> {
  const waker = new Waker(clock);
  const ask = (which: readonly Question[]): DnsMessage => ({
    type: "query",
    questions: which.map(([name, type]) => ({ name, type })),
  });
  const links = new Links({
    network,
    clock,
    logger,
    wanted: () => true,
    heard: (message, _, link) => {
      const missing = found.take(message);
      if (missing.length > 0) link.send(ask(missing));
      if (enough()) waker.wake();
    },
    came: (link) => link.send(ask(questions)),
  });
  const stop = () => waker.wake();
  signal?.addEventListener("abort", stop, { once: true });
  const timers = AGAIN_MS.filter((ms) => ms < forMs).map((ms) =>
    clock.after(ms, () => [...links.all].forEach((link) => link.send(ask(questions))))
  );
  try {
    signal?.throwIfAborted();
    await links.open();
    const endMs = clock.monotonicMs() + forMs;
    while (!enough() && !signal?.aborted && clock.monotonicMs() < endMs) {
      await waker.sleep(endMs - clock.monotonicMs());
    }
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", stop);
    for (const callOff of timers) callOff();
    await links.close();
  }
}

interface Instance {
  target?: string;
  port?: number;
  serves?: readonly string[];
}

/** What has been heard. */
class Found {
  readonly #instances = new Map<string, Instance>();
  /** Where instances are: of other hosts nothing is kept. */
  readonly #targets = new Set<string>();
  readonly #hosts = new Map<string, Set<string>>();
  /** What has been asked for once more, so that no answer makes it ask for ever. */
  readonly #asked = new Set<string>();

  /** Whoever looks for one machine is not to be kept from it by what others say of theirs. */
  constructor(private readonly isWanted: (instance: string) => boolean = () => true) {}

  /** Takes over what a message says, and tells what has to be asked to make sense of it. */
  take({ type, answers = [], additionals = [] }: DnsMessage): Question[] {
    if (type !== "response") return [];
    // Addresses make sense once it is known who has them.
    const isAddress = ({ type }: DnsRecord) => Number(type === "A" || type === "AAAA");
    const records = [...answers, ...additionals].sort((a, b) => isAddress(a) - isAddress(b));
    for (const record of records) this.#record(record);
    const touched = new Set(records.flatMap((record) => instanceOf(record) ?? []));
    return [...touched].flatMap((name) => this.#missing(name)).filter(([name, type]) => {
      const key = `${type} ${name}`;
      if (this.#asked.has(key) || this.#asked.size >= ENTRIES_MAX) return false;
      this.#asked.add(key);
      return true;
    });
  }

  /** What answers at one address and port is one machine, whatever its names. */
  machines(): NearMachine[] {
    const places = new Map<string, Gathered>();
    for (const [name, { target, port, serves }] of this.#instances) {
      const addresses = [...this.#hosts.get(target ?? "") ?? []];
      // Others may have services of the same kind that are no machines.
      if (port === undefined || !serves?.some((one) => SERVES.includes(one))) continue;
      const known = addresses.map((address) => places.get(`${address} ${port}`)).find((one) => one);
      const machine = known ?? { names: new Set(), addresses: new Set(), port, serves };
      machine.names.add(name);
      for (const address of addresses) {
        machine.addresses.add(address);
        places.set(`${address} ${port}`, machine);
      }
    }
    return [...new Set(places.values())].map(({ names, addresses, port, serves }) => ({
      names: [...names].sort(dotsFirst),
      addresses: [...addresses].sort(mostUsefulFirst),
      port,
      serves,
    })).sort((a, b) => a.names[0] < b.names[0] ? -1 : 1);
  }

  #record(record: DnsRecord): void {
    const gone = record.ttl === 0;
    if (record.type === "A" || record.type === "AAAA") return this.#address(record.name, record.data, gone);
    const name = instanceOf(record);
    const known = name === undefined ? undefined : this.#instance(name, gone);
    if (known && record.type === "TXT") known.serves = textsOf(record.data);
    if (known && record.type === "SRV") {
      const { target, port } = record.data;
      Object.assign(known, { target: target.toLowerCase(), port });
      if (this.#targets.size < ENTRIES_MAX) this.#targets.add(target.toLowerCase());
    }
  }

  #address(name: string, address: string, gone: boolean): void {
    const host = name.toLowerCase();
    if (!this.#targets.has(host)) return;
    if (gone) return void this.#hosts.delete(host);
    const addresses = this.#hosts.getOrInsertComputed(host, () => new Set());
    if (addresses.size < ADDRESSES_MAX) addresses.add(address);
  }

  #instance(name: string, gone: boolean): Instance | undefined {
    if (!this.isWanted(name)) return undefined;
    if (gone) return void this.#instances.delete(name);
    if (!this.#instances.has(name) && this.#instances.size >= ENTRIES_MAX) return undefined;
    return this.#instances.getOrInsertComputed(name, () => ({}));
  }

  #missing(name: string): Question[] {
    const known = this.#instances.get(name);
    if (!known) return [];
    const { target, serves } = known;
    return [
      ...target === undefined ? [[`${name}.${SERVICE}`, "SRV"] as const] : [],
      ...serves === undefined ? [[`${name}.${SERVICE}`, "TXT"] as const] : [],
      ...target !== undefined && !this.#hosts.has(target) && isLocal(target) ? [[target, "A"] as const] : [],
    ];
  }
}

interface Gathered {
  readonly names: Set<string>;
  readonly addresses: Set<string>;
  readonly port: number;
  readonly serves: readonly string[];
}

function dotsFirst(a: string, b: string): number {
  return Number(b.includes(".")) - Number(a.includes(".")) || (a < b ? -1 : 1);
}

/** IPv4 before IPv6, and last what reaches a machine from itself alone. */
function mostUsefulFirst(a: string, b: string): number {
  const rank = (address: string) => address.startsWith("127.") ? 2 : Number(address.includes(":"));
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}

const SERVES = ["grpc", "webrtc"];

/** The instance that a record is about. */
function instanceOf(record: DnsRecord): string | undefined {
  const pointed = record.type === "PTR" && record.name.toLowerCase() === SERVICE ? record.data : undefined;
  const instance = instanceIn(pointed ?? record.name);
  return instance === undefined || hasHidden(instance) ? undefined : instance;
}

function isLocal(host: string): boolean {
  return host.endsWith(`.${DOMAIN}`);
}

function textsOf(data: readonly (string | Uint8Array)[] | string | Uint8Array): string[] {
  const all = Array.isArray(data) ? data : [data];
  return all.map((one) => typeof one === "string" ? one : new TextDecoder().decode(one)).filter((one) =>
    !hasHidden(one)
  );
}
