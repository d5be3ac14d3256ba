/**
 * The network check: which outside services this machine reaches, for people whose machine cannot be reached.
 *
 * Owns the hosts that are asked, and the meaning of their answers. Every check ends within its deadline, an impossible
 * check says why, and nothing here throws: the report is complete without any network, too.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { readStunAnswer, stunRequest } from "../../wire/webrtc/stun.ts";
import type { UdpSocket } from "../../base/udp.ts";
import { counted } from "../../base/log/counted.ts";

/** The system's part of the check. Everything rejects with an `SvcError`. */
export interface CheckNetwork {
  /** IPv4 and IPv6 addresses of a name. */
  resolve(host: string): Promise<readonly string[]>;
  /** Connects and, given a request, sends it and resolves with the first bytes of the answer. */
  tcp(host: string, port: number, signal: AbortSignal, request?: Uint8Array): Promise<Uint8Array>;
  /** A socket with a port of its own, IPv4. */
  udp(received: (bytes: Uint8Array) => void): Promise<UdpSocket>;
  /** The default router. Rejects with `unavailable` if the system does not reveal it. */
  gateway(): Promise<string>;
  /** The output of the system's `ping` for `count` probes. Rejects with `unavailable` if there is no `ping`. */
  ping(address: string, count: number, signal: AbortSignal): Promise<string>;
}

export interface NetworkCheckParts {
  readonly network: CheckNetwork;
  readonly clock: Clock;
  /** The control plane: a URL or `host:port`; absent if the machine has none. */
  readonly appAddress?: string;
  /** Aborts the checks. */
  readonly signal?: AbortSignal;
}

export interface Finding {
  readonly group: "DNS" | "UDP" | "TCP" | "Packet loss";
  readonly subject: string;
  readonly outcome: "ok" | "failed" | "not checked";
  readonly detail: string;
  /** The public address of a UDP check's socket. */
  readonly seenAs?: string;
}

interface Server {
  readonly host: string;
  readonly port: number;
}

/** The STUN servers from which WebRTC connections learn their public address; the first is the published default. */
const STUN_SERVERS: readonly Server[] = [
  { host: "global.stun.twilio.com", port: 3478 },
  { host: "stun.cloudflare.com", port: 3478 },
  { host: "stun.l.google.com", port: 19302 },
];
/** Servers with STUN over TCP, too. */
const STUN_TCP_SERVERS = STUN_SERVERS.slice(0, 2);
/** A server with a numeric address: works without DNS. */
const FAR_HOST = "1.1.1.1";

const CHECK_MS = 5_000;
/** Datagrams get lost, so each is sent at these times. */
const UDP_SENDS_MS = [0, 500, 1_500, 3_000];
const PINGS = 10;
const PING_MS = 25_000;

/** Runs all checks in parallel; the findings are in the order of the report. */
export async function checkNetwork(parts: NetworkCheckParts): Promise<Finding[]> {
  const app = parts.appAddress === undefined ? undefined : serverOf(parts.appAddress);
  const hosts = [...(app ? [app] : []), ...STUN_SERVERS].map(({ host }) => host);
  const groups = await Promise.all([
    Promise.all(hosts.map((host) => checkDns(host, parts))),
    checkUdp(parts),
    Promise.all([checkApp(app, parts), ...STUN_TCP_SERVERS.map((server) => checkTcp(server, true, parts))]),
    Promise.all([checkGateway(parts), checkLoss(FAR_HOST, FAR_HOST, parts)]),
  ]);
  return groups.flat();
}

/** The check in the background of a running machine: one log line with the outcome. Never rejects. */
export async function tellNetwork(
  { network, ...parts }: Partial<NetworkCheckParts> & { readonly clock: Clock },
  logger: Logger,
): Promise<void> {
  if (!network || parts.signal?.aborted) return;
  const findings = await checkNetwork({ network, ...parts });
  if (parts.signal?.aborted) return;
  const failed = findings.filter(({ outcome }) => outcome === "failed");
  const shown = failed.map(({ group, subject, detail }) => `${group} ${subject}: ${detail}`);
  logger.info(`network checks: ${conclusions(findings).join(" ")}`);
  for (const one of shown) logger.debug(`network check failed: ${one}`);
}

/** Whether every check that could run has failed. */
export function isOffline(findings: readonly Finding[]): boolean {
  const outcomes = new Set(findings.map(({ outcome }) => outcome));
  return outcomes.has("failed") && !outcomes.has("ok");
}

/** For people: the findings by group, and a conclusion. */
export function formatReport(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ subject }) => subject.length));
  const lines: string[] = [];
  let last = "";
  for (const { group, subject, outcome, detail } of findings) {
    if (group !== last) lines.push(...(last === "" ? [] : [""]), group);
    last = group;
    const shown = outcome === "failed" ? "FAILED" : outcome;
    lines.push(`  ${shown.padEnd(11)}  ${subject.padEnd(width)}  ${detail}`);
  }
  return [...lines, "", "Result", ...conclusions(findings).map((line) => `  ${line}`), ""].join("\n");
}

/** What the findings mean, in sentences. */
export function conclusions(findings: readonly Finding[]): string[] {
  const of = (wanted: Finding["group"]) => findings.filter(({ group }) => group === wanted);
  const works = (some: readonly Finding[]) => some.some(({ outcome }) => outcome === "ok");
  const failed = findings.filter(({ outcome }) => outcome === "failed").length;
  const seen = [...new Set(of("UDP").flatMap(({ seenAs }) => seenAs === undefined ? [] : [seenAs]))];
  if (!works(findings)) {
    return ["Nothing outside this machine answers: is it connected, is there a firewall?"];
  }

  const lines = [];
  if (!works(of("DNS"))) lines.push("Names cannot be resolved: look at the DNS servers of this machine.");
  if (!works(of("UDP"))) lines.push("No UDP answer: clients outside this network need a relay (TURN).");

  if (seen.length > 1) {
    lines.push(
      `The router shows another address to each server (${
        seen.join(", ")
      }): a hard NAT; direct connections from ` +
        "outside this network are unlikely to work without a relay (TURN).",
    );
  }

  lines.push(
    failed === 0
      ? "Every possible check succeeded."
      : `${failed} of ${counted(findings.length, "check")} failed.`,
  );
  return lines;
}

async function checkDns(host: string, parts: NetworkCheckParts): Promise<Finding> {
  return await finding("DNS", host, parts, async () => {
    const addresses = await parts.network.resolve(host);
    return { detail: addresses.join(", ") };
  });
}

function checkApp(app: Server | undefined, parts: NetworkCheckParts): Finding | Promise<Finding> {
  if (app) return checkTcp(app, false, parts);
  const detail = "the configuration names none";
  return { group: "TCP", subject: "control plane", outcome: "not checked", detail };
}

async function checkTcp(server: Server, stun: boolean, parts: NetworkCheckParts): Promise<Finding> {
  const { host, port } = server;
  return await finding("TCP", `${host}:${port}`, parts, async (signal) => {
    if (!stun) {
      await parts.network.tcp(host, port, signal);
      return { detail: "connected" };
    }
    const answer = readStunAnswer(await parts.network.tcp(host, port, signal, stunRequest().bytes));
    if (!answer) throw new SvcError("data_loss", "it connects, but its answer is not STUN");
    return { detail: `sees this machine as ${answer.seenAs ?? "something else than IPv4"}` };
  });
}

/** One socket asks all servers: a good router maps it to one address for all of them. */
async function checkUdp(parts: NetworkCheckParts): Promise<Finding[]> {
  const waiting = new Map<string, (seenAs: string | undefined) => void>();
  let socket: UdpSocket;
  try {
    socket = await parts.network.udp((bytes) => {
      const answer = readStunAnswer(bytes);
      if (answer) waiting.get(answer.id)?.(answer.seenAs);
    });
  } catch (error) {
    return [{ group: "UDP", subject: "a socket", outcome: "failed", detail: messageOf(error) }];
  }

  try {
    return await Promise.all(STUN_SERVERS.map((server) => checkStun(server, socket, waiting, parts)));
  } finally {
    socket.close();
  }
}

async function checkStun(
  { host, port }: Server,
  socket: UdpSocket,
  waiting: Map<string, (seenAs: string | undefined) => void>,
  parts: NetworkCheckParts,
): Promise<Finding> {
  return await finding("UDP", `${host}:${port}`, parts, async () => {
    const { id, bytes } = stunRequest();
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    waiting.set(id, resolve);
    const send = () => void socket.send(host, port, bytes).catch(reject);
    const callOff = UDP_SENDS_MS.map((ms) => parts.clock.after(ms, send));
    try {
      const seenAs = await withinDeadline(promise, parts.clock, CHECK_MS, parts.signal);
      return { detail: `sees this machine as ${seenAs ?? "something else than IPv4"}`, seenAs };
    } finally {
      callOff.forEach((one) => one());
    }
  });
}

async function checkGateway(parts: NetworkCheckParts): Promise<Finding> {
  try {
    const address = await parts.network.gateway();
    return await checkLoss(`gateway ${address}`, address, parts);
  } catch (error) {
    return { group: "Packet loss", subject: "gateway", outcome: "not checked", detail: messageOf(error) };
  }
}

async function checkLoss(subject: string, address: string, parts: NetworkCheckParts): Promise<Finding> {
  return await finding("Packet loss", subject, parts, async (signal) => {
    const counts = readPing(await parts.network.ping(address, PINGS, signal));
    if (!counts) throw new SvcError("unavailable", "the output of the system's ping is unreadable");
    const { sent, received, averageMs } = counts;
    const detail = `${received} of ${sent} came back`;
    if (received < sent) throw new SvcError("data_loss", detail);
    return { detail: averageMs === undefined ? detail : `${detail}, after ${averageMs} ms on average` };
  }, PING_MS);
}

/** Parses the summary of the `ping` of Linux (iputils and busybox), macOS and Windows. */
export function readPing(text: string): { sent: number; received: number; averageMs?: number } | undefined {
  const counts = /(\d+) packets transmitted, (\d+)/.exec(text) ??
    /= (\d+),[^=]*= (\d+),[^=]*= \d+ \(\d+%/.exec(text);
  if (!counts) return undefined;
  const average = /= [\d.]+\/([\d.]+)\//.exec(text) ??
    /= \d+ ?ms, [^=]*= \d+ ?ms, [^=]*= (\d+) ?ms/.exec(text);
  return {
    sent: Number(counts[1]),
    received: Number(counts[2]),
    averageMs: average ? Number(average[1]) : undefined,
  };
}

/** The result of a check: `unavailable` means that it could not run. */
async function finding(
  group: Finding["group"],
  subject: string,
  { clock, signal }: NetworkCheckParts,
  check: (signal: AbortSignal) => Promise<{ detail: string; seenAs?: string }>,
  timeoutMs = CHECK_MS,
): Promise<Finding> {
  const begunMs = clock.monotonicMs();
  try {
    const { detail, seenAs } = await withinDeadline(check, clock, timeoutMs, signal);
    const ms = Math.round(clock.monotonicMs() - begunMs);
    return {
      group,
      subject,
      outcome: "ok",
      detail: group === "Packet loss" ? detail : `${detail} (${ms} ms)`,
      seenAs,
    };
  } catch (error) {
    const outcome = SvcError.from(error).code === "unavailable" ? "not checked" : "failed";
    return { group, subject, outcome, detail: messageOf(error) };
  }
}

async function withinDeadline<T>(
  work: Promise<T> | ((signal: AbortSignal) => Promise<T>),
  clock: Clock,
  timeoutMs: number,
  parent: AbortSignal | undefined,
): Promise<T> {
  const late = () => new SvcError("deadline_exceeded", `no answer within ${timeoutMs / 1000} s`);
  const { signal, done } = deadline(clock, timeoutMs, late, parent);
  try {
    return await race(typeof work === "function" ? work(signal) : work, signal);
  } finally {
    done();
  }
}

/** `https://host`, `host:port` or `host`. */
function serverOf(address: string): Server {
  const { scheme = "https", host = "", port } =
    /^(?:(?<scheme>https?):\/\/)?(?<host>[^/:]*)(?::(?<port>\d+))?/
      .exec(address)!.groups as Record<string, string>;
  const usual = scheme === "http" ? 80 : 443;
  return { host, port: port === undefined ? usual : Number(port) };
}
