/**
 * Announces a machine by multicast DNS (RFC 6762 and 6763): when it starts, changes or stops, and in answer to
 * questions.
 *
 * Each instance has a message of its own with everything that a client needs to reach it, because published
 * clients read one message at a time. However many questions arrive, a network gets only a few messages a
 * second.
 */

import type { Endpoint } from "../../base/udp.ts";
import type { DnsMessage, DnsQuestion, DnsRecord } from "./dns_message.ts";
import { GROUP, type Interface, type Link, Links, type LinksParts } from "./links.ts";
import { DNS_SD_SERVICE, DOMAIN, instanceIn, instancesOf, SERVICES } from "./names.ts";

/** Lifetime of the records: of the addresses, and of the instance. */
const HOST_TTL_S = 120;
const SERVICE_TTL_S = 4_500;
/** Lifetime of records in plain DNS answers. */
const DIRECT_TTL_MAX_S = 10;
/** Random delay of answers to the whole network, because several machines may answer the same question. */
const DELAY_MIN_MS = 20;
const DELAY_MAX_MS = 120;
/** Minimum pause between two messages of the same instance to a network. */
const PAUSE_MS = 250;
/** Direct answers per second and network. */
const DIRECT_MAX_A_SECOND = 50;
/** Limit of questions in one message. */
const QUESTIONS_MAX = 50;
/** Each announcement is repeated after this time, in case it was lost. */
const AGAIN_MS = 1_000;
/** The bit of a question that allows a direct answer. */
const CLASSES = ["IN", "ANY", "UNKNOWN_32769"];

export interface Announcement {
  /** Names of the machine, such as `rover-main.abc.example.com`. */
  readonly names: readonly string[];
  readonly port: number;
  /** Its transports: `grpc`, `webrtc`. */
  readonly serves: readonly string[];
  /** The address it listens on; absent, all addresses. */
  readonly address?: string;
}

export type AnnouncerParts = Pick<LinksParts, "network" | "clock" | "logger"> & {
  /** A number from 0 up to 1. */
  readonly random: () => number;
};

/** The subject of one message: an instance, or the list of service types. */
type Topic = string;

/** The state of one network. */
interface Traffic {
  /** Scheduled messages. */
  readonly due: Set<Topic>;
  readonly sentMs: Map<Topic, number>;
  direct: { sinceMs: number; count: number };
  callOff?: () => void;
}

export class Announcer {
  readonly #parts: AnnouncerParts;
  readonly #announcement: Announcement;
  readonly #instances: readonly string[];
  readonly #links: Links;
  readonly #traffic = new Map<Link, Traffic>();
  readonly #timers = new Set<() => void>();

  constructor(announcement: Announcement, parts: AnnouncerParts) {
    this.#parts = parts;
    this.#announcement = announcement;
    this.#instances = instancesOf(announcement.names);
    const { network, clock, logger } = parts;
    const wanted = (one: Interface) => isReachedAt(one, announcement.address);
    const heard: LinksParts["heard"] = (message, from, link) => this.#heard(message, from, link);
    this.#links = new Links({ network, clock, logger, wanted, heard, came: (link) => this.#announce(link) });
  }

  /** Resolves when every usable network has the announcement. */
  open(): Promise<void> {
    return this.#links.open();
  }

  /** Announces that the machine has gone. */
  async close(): Promise<void> {
    for (const callOff of this.#timers) callOff();
    for (const { callOff } of this.#traffic.values()) callOff?.();
    for (const link of this.#links.all) {
      for (const instance of this.#instances) {
        const gone = this.#records(instance, link).map((record) => ({ ...record, ttl: 0 }));
        link.send({ type: "response", answers: gone });
      }
    }
    await this.#links.close();
  }

  #announce(link: Link): void {
    const tell = () => {
      for (const topic of this.#instances) this.#enqueue(link, topic);
    };
    tell();
    const callOff = this.#parts.clock.after(AGAIN_MS, () => {
      this.#timers.delete(callOff);
      tell();
    });
    this.#timers.add(callOff);
  }

  #heard(message: DnsMessage, from: Endpoint, link: Link): void {
    if (message.type !== "query") return;
    const topics = this.#topicsOf(message);
    if (from.port === GROUP.port) {
      for (const topic of topics) this.#enqueue(link, topic);
    } else this.#answerDirectly(message, topics, from, link);
  }

  /** The subjects of a question, without those that the asker knows already. */
  #topicsOf({ questions = [], answers: known = [] }: DnsMessage): Set<Topic> {
    const knows = new Set(
      known.flatMap((record) => record.type === "PTR" && isFresh(record) ? record.data.toLowerCase() : []),
    );
    const asked = questions.slice(0, QUESTIONS_MAX).filter((one) => CLASSES.includes(one.class ?? "IN"));
    return new Set(asked.flatMap((question) => {
      const isNews = (instance: string) => question.type !== "PTR" || !knows.has(fullName(instance));
      const about = this.#instances.filter((instance) => isAbout(question, instance) && isNews(instance));
      return asks(question, SERVICES, "PTR") ? [...about, SERVICES] : about;
    }));
  }

  #enqueue(link: Link, topic: Topic): void {
    const { clock, random } = this.#parts;
    const traffic = this.#trafficOf(link);
    traffic.due.add(topic);
    if (traffic.callOff) return;
    const delayMs = DELAY_MIN_MS + random() * (DELAY_MAX_MS - DELAY_MIN_MS);
    const pausedMs = Math.max(
      ...[...traffic.due].map((one) => (traffic.sentMs.get(one) ?? -Infinity) + PAUSE_MS),
    );
    const waitMs = Math.max(delayMs, pausedMs - clock.monotonicMs());
    traffic.callOff = clock.after(waitMs, () => this.#flush(link, traffic));
  }

  #trafficOf(link: Link): Traffic {
    return this.#traffic.getOrInsertComputed(link, () => ({
      due: new Set(),
      sentMs: new Map(),
      direct: { sinceMs: this.#parts.clock.monotonicMs(), count: 0 },
    }));
  }

  #flush(link: Link, traffic: Traffic): void {
    traffic.callOff = undefined;
    for (const topic of traffic.due) {
      traffic.sentMs.set(topic, this.#parts.clock.monotonicMs());
      const [answer, ...more] = this.#recordsOf(topic, link);
      if (answer) link.send({ type: "response", answers: [answer], additionals: more });
    }
    traffic.due.clear();
  }

  /** Answers a program that asks by plain DNS, at its own port, as plain DNS does. */
  #answerDirectly({ id, questions }: DnsMessage, topics: Set<Topic>, from: Endpoint, link: Link): void {
    const traffic = this.#trafficOf(link);
    const nowMs = this.#parts.clock.monotonicMs();
    if (nowMs - traffic.direct.sinceMs >= 1_000) traffic.direct = { sinceMs: nowMs, count: 0 };

    for (const topic of topics) {
      if (traffic.direct.count++ >= DIRECT_MAX_A_SECOND) return;
      const records = this.#recordsOf(topic, link).map((record) => ({
        ...record,
        flush: false,
        ttl: Math.min(record.ttl ?? 0, DIRECT_TTL_MAX_S),
      }));
      link.send({
        id,
        type: "response",
        questions,
        answers: records.slice(0, 1),
        additionals: records.slice(1),
      }, from);
    }
  }

  #recordsOf(topic: Topic, link: Link): DnsRecord[] {
    if (topic !== SERVICES) return this.#records(topic, link);
    return [{ name: SERVICES, type: "PTR", ttl: SERVICE_TTL_S, data: DNS_SD_SERVICE }];
  }

  /** Everything needed to reach the machine: the instance, its host and port, its transports, its addresses. */
  #records(instance: string, { addresses, isLoopback }: Link): DnsRecord[] {
    const { port, serves, address } = this.#announcement;
    const [name, target] = [fullName(instance), `${instance}.${DOMAIN}`];
    const reached = isLoopback || address === undefined ? addresses : [address];
    return [
      { name: DNS_SD_SERVICE, type: "PTR", ttl: SERVICE_TTL_S, data: name },
      { name, type: "SRV", ttl: HOST_TTL_S, flush: true, data: { target, port, priority: 0, weight: 0 } },
      { name, type: "TXT", ttl: SERVICE_TTL_S, flush: true, data: serves },
      ...reached.map((data): DnsRecord => ({
        name: target,
        type: data.includes(":") ? "AAAA" : "A",
        ttl: HOST_TTL_S,
        flush: true,
        data,
      })),
    ];
  }
}

function fullName(instance: string): string {
  return `${instance}.${DNS_SD_SERVICE}`;
}

function asks({ name, type }: DnsQuestion, wanted: string, ...types: string[]): boolean {
  return name.toLowerCase() === wanted && (type === "ANY" || types.includes(type));
}

function isAbout(question: DnsQuestion, instance: string): boolean {
  return asks(question, DNS_SD_SERVICE, "PTR") ||
    instanceIn(question.name) === instance && asks(question, fullName(instance), "SRV", "TXT") ||
    asks(question, `${instance}.${DOMAIN}`, "A", "AAAA");
}

/** Whether a known record is valid long enough: half its lifetime is left. */
function isFresh({ ttl = 0 }: DnsRecord): boolean {
  return ttl >= SERVICE_TTL_S / 2;
}

/** Whether a machine that listens on `address` (absent, on all) is reachable at an interface. */
function isReachedAt({ isLoopback, addresses }: Interface, address: string | undefined): boolean {
  if (address === undefined) return true;
  return isLoopback ? /^127\.|^::1$/.test(address) : addresses.includes(address);
}
