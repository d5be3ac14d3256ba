/**
 * Finds machines by multicast DNS: all that answer within a time, or the one with a name.
 *
 * Answers are bounded and checked, and say only where to connect: TLS and the machine's keys prove who answers there.
 */

import { isLinkLocal } from "../../base/address/link_local.ts";
import { Waker } from "../../base/clock.ts";
import { hasHidden } from "../../base/escape.ts";
import type { DnsMessage, DnsRecord } from "./dns_message.ts";
import { type Link, Links, type LinksParts, withInterface } from "./links.ts";
import { DNS_SD_SERVICE, DOMAIN, instanceIn, instancesOf } from "./names.ts";

/** Limit of instances and hosts; no real network has more. */
const ENTRIES_MAX = 2_000;
const ADDRESSES_MAX = 16;
/** Questions are repeated after these times: the first may be lost. */
const AGAIN_MS = [250, 1_000];
/** How long published clients look for a name. */
const LOOKUP_MS = 1_500;

/** A machine, as announced. */
export interface NearMachine {
  /** All its names, dotted ones first. */
  readonly names: readonly string[];
  /** IPv4 first. */
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
  await listen(parts, found, [[DNS_SD_SERVICE, "PTR"]], forMs, () => false);
  return found.machines();
}

/** The machine with this name; `undefined` if none answers. */
export async function lookUp(parts: BrowserParts, name: string): Promise<NearMachine | undefined> {
  const wanted = instancesOf([name]);
  const questions = wanted.flatMap((
    one,
  ): Question[] => [[`${one}.${DNS_SD_SERVICE}`, "SRV"], [`${one}.${DNS_SD_SERVICE}`, "TXT"]]);
  const found = new Found((instance) => wanted.includes(instance));
  const sought = () => found.machines().find(({ names }) => names.some((one) => wanted.includes(one)));
  if (wanted.length === 0) return undefined;

  await listen(
    parts,
    found,
    [...questions, [DNS_SD_SERVICE, "PTR"]],
    LOOKUP_MS,
    () => sought() !== undefined,
  );
  return sought();
}

type Question = readonly [name: string, type: string];

/** Asks on every network, and listens until `enough` or the end of the time. */
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
      const missing = found.take(message, link);
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

/** The collected answers. */
class Found {
  readonly #instances = new Map<string, Instance>();
  /** The hosts of instances; records of other hosts are dropped. */
  readonly #targets = new Set<string>();
  readonly #hosts = new Map<string, Set<string>>();
  /** Follow-up questions asked so far: each is asked once, so that no answer causes endless questions. */
  readonly #asked = new Set<string>();

  /** While it looks for one machine, answers about others must not use up the limits. */
  constructor(private readonly isWanted: (instance: string) => boolean = () => true) {}

  /** Adds a message, and returns the questions that it needs to be complete. */
  take({ type, answers = [], additionals = [] }: DnsMessage, link: Pick<Link, "address">): Question[] {
    if (type !== "response") return [];
    // Addresses come last, because their host must be known.
    const isAddress = ({ type }: DnsRecord) => Number(type === "A" || type === "AAAA");
    const records = [...answers, ...additionals].sort((a, b) => isAddress(a) - isAddress(b));
    for (const record of records) this.#record(record, link);
    const touched = new Set(records.flatMap((record) => instanceOf(record) ?? []));
    return [...touched].flatMap((name) => this.#missing(name)).filter(([name, type]) => {
      const key = `${type} ${name}`;
      if (this.#asked.has(key) || this.#asked.size >= ENTRIES_MAX) return false;
      this.#asked.add(key);
      return true;
    });
  }

  /** Instances with one address and port are one machine, whatever their names. */
  machines(): NearMachine[] {
    const places = new Map<string, Gathered>();
    for (const [name, { target, port, serves }] of this.#instances) {
      const addresses = [...this.#hosts.get(target ?? "") ?? []];
      // Services of this type may belong to devices other than machines.
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
    })).sort(({ names: [a = ""] }, { names: [b = ""] }) => a < b ? -1 : 1);
  }

  #record(record: DnsRecord, link: Pick<Link, "address">): void {
    const gone = record.ttl === 0;
    if (record.type === "A" || record.type === "AAAA") {
      return this.#address(record.name, withInterface(record.data, link), gone);
    }
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
      ...target === undefined ? [[`${name}.${DNS_SD_SERVICE}`, "SRV"] as const] : [],
      ...serves === undefined ? [[`${name}.${DNS_SD_SERVICE}`, "TXT"] as const] : [],
      ...target !== undefined && !this.#hosts.has(target) && isLocal(target)
        ? [[target, "A"] as const, [target, "AAAA"] as const]
        : [],
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

/** IPv4 before IPv6, then link-local addresses, and loopback last. */
function mostUsefulFirst(a: string, b: string): number {
  return usefulness(b) - usefulness(a) || (a < b ? -1 : 1);
}

function usefulness(address: string): number {
  if (address.startsWith("127.")) return 0;
  if (isLinkLocal(address)) return 1;
  return address.includes(":") ? 2 : 3;
}

const SERVES = ["grpc", "webrtc"];

/** The instance of a record. */
function instanceOf(record: DnsRecord): string | undefined {
  const pointed = record.type === "PTR" && record.name.toLowerCase() === DNS_SD_SERVICE
    ? record.data
    : undefined;
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
