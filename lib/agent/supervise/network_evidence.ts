/**
 * Checks whether the device's network works although the control plane does not answer: any answer from another host
 * proves it.
 *
 * It tries all of these at the same time, and takes the first answer: the control plane's host or the proxy before it
 * (a connection or its refusal suffices), the name servers, the gateways, and neighbours on the local network. A host
 * that drops every packet still answers for its hardware address, which the system's table of neighbours shows. It
 * needs no network service, so it works on devices without NetworkManager, in containers, and on Windows.
 */

import { isLinkLocal } from "../../base/address/link_local.ts";
import type { Clock } from "../../base/clock.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import type { ReachTarget } from "../../wire/dial/reach.ts";
import type { Commands } from "../system/commands.ts";
import { ROUTES_FILE, routesOf } from "../system/routes.ts";
import { innerBridges } from "./inner_bridges.ts";

export interface NetworkEvidenceParts {
  /** The host to which the agent connects for the control plane: its own, or that of a proxy. */
  readonly cloud: ReachTarget;
  readonly os: string;
  readonly host: Pick<ReadFiles, "readTextFile" | "readFolder">;
  readonly commands: Pick<Commands, "try">;
  readonly clock: Clock;
  /** Whether a host answers in time. */
  readonly answers: (
    target: ReachTarget,
    clock: Clock,
    timeoutMs: number,
    signal: AbortSignal,
  ) => Promise<boolean>;
}

const ANSWER_MS = 4_000;
/** The port of name servers. Gateways often are name servers; a refusal is an answer, too. */
const NAME_PORT = 53;
/** Limits of the hosts to try, by kind. */
const HOSTS_MAX = 4;
/** resolv.conf of the system, and the servers behind the local one of systemd. */
const NAME_SERVER_FILES = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
const ROUTES_6 = "/proc/net/ipv6_route";
const NEIGHBOURS = "/proc/net/arp";
/** Flags of include/uapi/linux/if_arp.h and ipv6_route.h. */
const ARP_COMPLETE = 0x2;
const ROUTE_GATEWAY = 0x2;
const NO_GATEWAY = "0.0.0.0";

export class NetworkEvidence {
  constructor(private readonly parts: NetworkEvidenceParts) {}

  /** The host whose answer shows that the network works; `undefined` if none answers. Takes at most a few seconds. */
  async find(signal: AbortSignal): Promise<string | undefined> {
    const { cloud } = this.parts;
    const [servers, gateways, before] = await Promise.all([
      this.#nameServers(),
      this.#gateways(signal),
      this.#neighbours(signal),
    ]);
    const near = [...new Set([...gateways, ...before])].slice(0, 2 * HOSTS_MAX);
    const targets = [
      cloud,
      ...[...new Set([...servers, ...near])].map((host) => ({ host, port: NAME_PORT })),
    ];
    const found = await this.#first(targets, signal);
    if (found || signal.aborted) return found?.host;
    // The connection attempts have made the system request the hardware addresses again.
    const after = await this.#neighbours(signal);
    return near.find((host) => after.includes(host));
  }

  async #first(targets: readonly ReachTarget[], signal: AbortSignal): Promise<ReachTarget | undefined> {
    const { answers, clock } = this.parts;
    const enough = new AbortController();
    const both = AbortSignal.any([signal, enough.signal]);
    const asked = targets.map(async (target) => {
      if (await answers(target, clock, ANSWER_MS, both)) return target;
      throw new Error("no answer");
    });
    try {
      return await Promise.any(asked);
    } catch {
      return undefined;
    } finally {
      enough.abort();
      await Promise.allSettled(asked);
    }
  }

  async #nameServers(): Promise<readonly string[]> {
    const texts = await Promise.all(NAME_SERVER_FILES.map((path) => this.#read(path)));
    return nameServersOf(texts.join("\n"));
  }

  async #gateways(signal: AbortSignal): Promise<readonly string[]> {
    const { os } = this.parts;
    if (os === "linux") {
      return [...gatewaysOf(await this.#read(ROUTES_FILE)), ...gateways6Of(await this.#read(ROUTES_6))];
    }
    if (os !== "windows") return [];
    const [four, six] = await Promise.all([
      this.#ask("route", ["print", "-4"], signal),
      this.#ask("route", ["print", "-6"], signal),
    ]);
    return [...windowsGatewaysOf(four), ...windowsGateways6Of(six)];
  }

  /** The neighbours whose hardware address is known. */
  async #neighbours(signal: AbortSignal): Promise<readonly string[]> {
    const { os } = this.parts;
    if (os === "linux") {
      // The kernel does not list IPv6 neighbours in a file.
      const six = await this.#ask("ip", ["-6", "neighbour", "show"], signal);
      const all = [...neighboursOf(await this.#read(NEIGHBOURS)), ...neighbours6Of(six)];
      // Containers of this device answer without any network.
      const inner = await innerBridges(all.map(({ device }) => device), this.parts.host);
      return all.filter(({ device }) => !inner.has(device)).map(({ address }) => address)
        .slice(0, 2 * HOSTS_MAX);
    }
    if (os !== "windows") return [];
    const six = ["interface", "ipv6", "show", "neighbors"];
    const tables = await Promise.all([this.#ask("arp", ["-a"], signal), this.#ask("netsh", six, signal)]);
    return tables.flatMap(windowsNeighboursOf);
  }

  #read(path: string): Promise<string> {
    return this.parts.host.readTextFile(path).catch(() => "");
  }

  #ask(command: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    return this.parts.commands.try(command, args, { signal, timeoutMs: ANSWER_MS })
      .then(({ output }) => output, () => "");
  }
}

/** The name servers of resolv.conf(5) that are other hosts. */
export function nameServersOf(text: string): string[] {
  const found = text.matchAll(/^\s*nameserver\s+([\da-fA-F.:]+(?:%[\w.-]+)?)/gm);
  return [...new Set([...found].map(([, address = ""]) => address))].filter((one) =>
    !/^(127\.|::1$|0\.0\.0\.0$)/.test(one)
  ).slice(0, HOSTS_MAX);
}

/** A host on a network of the device whose hardware address is known, and the device's end of that network. */
interface Neighbour {
  readonly address: string;
  readonly device: string;
}

/** The gateways of default routes in Linux's table. */
export function gatewaysOf(table: string): string[] {
  const found = routesOf(table).filter(({ bits, gateway }) => bits === 0 && gateway !== NO_GATEWAY)
    .map(({ gateway }) => gateway);
  return [...new Set(found)].slice(0, HOSTS_MAX);
}

export function neighboursOf(table: string): Neighbour[] {
  return table.split("\n").slice(1).map((line) => line.trim().split(/\s+/))
    .filter(([, , flags]) => Number(flags) & ARP_COMPLETE)
    .map(([address = "", , , , , device = ""]) => ({ address, device }));
}

/** The gateways of default routes in Linux's table for IPv6; link-local ones with their interface. */
export function gateways6Of(table: string): string[] {
  const found = table.split("\n").map((line) => line.trim().split(/\s+/))
    .filter(([destination = "", length, , , , , , , flags]) =>
      /^0{32}$/.test(destination) && length === "00" && (Number(`0x${flags}`) & ROUTE_GATEWAY) !== 0
    )
    .flatMap(([, , , , gateway, , , , , device]) => onLink(gateway?.match(/.{4}/g)?.join(":"), device));
  return [...new Set(found)].slice(0, HOSTS_MAX);
}

/** Lines of `ip neighbour`: address, device, hardware address if it is known, and state. */
export function neighbours6Of(table: string): Neighbour[] {
  const found = table.matchAll(/^([\da-f:]+) dev (\S+) lladdr \S+ (?:.* )?([A-Z]+)\s*$/gm);
  return [...found].filter(([, , , state]) => state !== "FAILED" && state !== "INCOMPLETE")
    .flatMap(([, address, device = ""]) => onLink(address, device).map((one) => ({ address: one, device })));
}

/** An address in its short form, with the interface if it is link-local; empty for a malformed one. */
function onLink(address = "", device = ""): string[] {
  const url = `http://[${address}]`;
  if (!URL.canParse(url)) return [];
  const short = new URL(url).hostname.slice(1, -1);
  return [isLinkLocal(short) ? `${short}%${device}` : short];
}

/** The words of `route` and `arp` are in the language of the system; their numbers are not. */
export function windowsGatewaysOf(table: string): string[] {
  const found = table.matchAll(/^\s*0\.0\.0\.0\s+0\.0\.0\.0\s+(\d+\.\d+\.\d+\.\d+)\s/gm);
  return [...new Set([...found].map(([, gateway = ""]) => gateway))].slice(0, HOSTS_MAX);
}

/** The first number is the interface's. */
export function windowsGateways6Of(table: string): string[] {
  const found = table.matchAll(/^\s*(\d+)\s+\d+\s+::\/0\s+([\da-f]*:[\da-f:]+)\s*$/gim);
  return [...new Set([...found].flatMap(([, device, gateway]) => onLink(gateway, device)))].slice(
    0,
    HOSTS_MAX,
  );
}

/** Leaves out broadcast and multicast addresses, which belong to no host. */
export function windowsNeighboursOf(table: string): string[] {
  const found = table.matchAll(
    /^\s*(\d+\.\d+\.\d+\.\d+|[\da-f]*:[\da-f:]+)\s+((?:[\da-f]{2}-){5}[\da-f]{2})\s/gim,
  );
  return [...found]
    .filter(([, , hardware = ""]) => !/^(ff-ff|01-00-5e|33-33|00-00-00-00-00-00)/i.test(hardware))
    .map(([, address = ""]) => address).slice(0, 2 * HOSTS_MAX);
}
