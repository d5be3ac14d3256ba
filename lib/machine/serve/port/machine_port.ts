/**
 * The machine's port as configured: its address, its certificate, its callers.
 *
 * If the address changes, or TLS comes or goes, the port is reopened, and the resources behind it stay untouched. A
 * new certificate applies to new connections: it takes effect as soon as the configuration or its files have it, even
 * while everything else waits for maintenance. The machine stays reachable: if the new port cannot be opened, the old
 * one stays, and the opening is retried. Keys change while the port is open: tokens and calls of a removed key end at
 * once, others continue.
 *
 * The room owns the machine's port: how it opens, who may call it, and which program is in its way.
 */

import { SerialQueue } from "../../../base/async/serial_queue.ts";
import type { LinkFiles, ReadFiles, WatchFiles, WriteFiles } from "../../../base/files/files.ts";
import type { Clock } from "../../../base/clock.ts";
import { chainOf, SvcError } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import { ResourceName } from "../../../resource/name.ts";
import type { Auth } from "../../../wire/auth/auth.ts";
import type { RouteOptions } from "../../../wire/port/routes.ts";
import { connectionLimit } from "../../../wire/flow/admission.ts";
import { openPort, type Port } from "../../../wire/port/port.ts";
import type { TlsFiles } from "../../../wire/port/tls.ts";
import { anySite, nearSites } from "../../../wire/port/sites.ts";
import { followTlsFiles, readTlsFiles, type TlsPaths } from "../../../wire/port/tls_files.ts";
import type { ServiceTable } from "../../../wire/rpc/service.ts";
import type { MachineConfig } from "../../config/config.ts";
import { authSettingsOf, machineNamesOf, PortGuard } from "./port_guard.ts";
import type { Permissions } from "../permissions.ts";
import { findHolder } from "./port_holder.ts";
import type { Bind } from "../../config/settings.ts";
import type { AnnouncedAddress } from "../announcement.ts";
import {
  type CallsElsewhere,
  MachineWebRtc,
  type MachineWebRtcParts,
  type WebRtcSettings,
} from "../machine_webrtc.ts";
import type { StatusNode } from "../../graph/pass/node.ts";

/** Time limit for calls under way when the port is reopened at its address. */
const REOPEN_DRAIN_MS = 1_000;
const RETRY_MS = 5_000;

/** The port's own entry among the resources of the machine's status (a published name). */
const NODE_NAME = ResourceName.of("rdk-internal:service:web", "builtin");

export interface MachinePortParts {
  /** The services; without `guard`, everybody may call. */
  readonly tableFor: (guard: Auth | undefined, permissions: Permissions) => ServiceTable;
  readonly http: RouteOptions;
  readonly noTls: boolean;
  /** Clients may connect over WebRTC. */
  readonly webrtc: boolean;
  /** Called for each peer that connects over WebRTC; returns a function for the peer's end. */
  readonly joined?: MachineWebRtcParts["joined"];
  /** Another signaling service that brings calls; `given` returns the control plane's present information about it. */
  readonly elsewhere?: (given: () => DialInfo, answer: Parameters<CallsElsewhere>[0]) => ReturnType<
    CallsElsewhere
  >;
  /** Called with the URL whenever it changes. */
  readonly serving: (url: string) => void;
  /** Called with the machine's address and names whenever they may have changed. */
  readonly reached?: (address: AnnouncedAddress) => void;
  readonly host: ReadFiles & WriteFiles & WatchFiles & LinkFiles;
  /** The program's home folder. */
  readonly home: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The control plane's information for calls to the machine through it. */
export interface DialInfo {
  /** The machine's names at the control plane. */
  readonly names: readonly string[];
  /** The signaling server, `https://host:port`, if it is not the control plane itself. */
  readonly signaling?: string;
}

/** The properties that identify a port: if one changes, the port opens anew. */
interface Door {
  readonly bind: Bind;
  readonly tls?: TlsFiles;
  /** The certificate comes from files, not from the configuration. */
  readonly fromFiles: boolean;
  /** Callers must authenticate. */
  readonly guarded: boolean;
  /** The port requests certificates from clients. */
  readonly asksClients: boolean;
}

export class MachinePort {
  readonly #parts: MachinePortParts;
  readonly #names: Names;
  readonly #guard: PortGuard;
  #door: Door;
  #port: Port;
  readonly #work = new SerialQueue();
  #callOffRetry = () => {};
  #unfollowFiles = () => {};
  #closed = false;
  /** The port is open as `#door` describes. False if another program took it while it was reopened. */
  #isOpen = true;
  #problem: { error: string; sinceMs: number } | undefined;

  private constructor(
    parts: MachinePortParts,
    names: Names,
    guard: PortGuard,
    door: Door,
    port: Port,
  ) {
    this.#parts = parts;
    this.#names = names;
    this.#guard = guard;
    this.#door = door;
    this.#port = port;
    parts.serving(this.url);
  }

  /** Throws if the port does not open as configured. */
  static async open(config: MachineConfig, parts: MachinePortParts): Promise<MachinePort> {
    const door = await readDoor(config, parts);
    const guard = await PortGuard.open(config, parts);
    try {
      const names = new Names(config);
      const opened = await open(door, guard.auth, guard.permissions, names, parts);
      const port = new MachinePort(parts, names, guard, door, opened);
      port.#followFiles(config);
      port.#announce(config);
      return port;
    } catch (error) {
      await guard.close();
      throw error;
    }
  }

  /** Where to reach the machine from this computer: published clients dial a bare address only by the name localhost. */
  get url(): string {
    const { host } = this.#door.bind;
    const { url, port } = this.#port;
    const named = /[a-z]/i.test(host) && !host.includes(":") ? host : undefined;
    const everywhere = ["", "0.0.0.0", "::"].includes(host);
    const shown = named ?? (everywhere ? "localhost" : undefined);
    return shown === undefined ? url : `${url.split("://")[0]}://${shown}:${port}`;
  }

  /** An entry for the machine's status if the port differs from the configuration: the reason. */
  get status(): StatusNode | undefined {
    if (!this.#problem) return undefined;
    const { error, sinceMs } = this.#problem;
    return { name: NODE_NAME, state: "unhealthy", error, updatedMs: sinceMs, revision: "" };
  }

  /**
   * Applies the keys and the certificate of `config` from now on, if the port has authentication and TLS. Changes
   * nothing else.
   */
  admit(config: MachineConfig): void {
    this.#admit(config);
    this.#work.run(async () => {
      await this.#guard.moveKeys(config);
      await this.#renew(config);
    }).catch((error) => this.#parts.logger.warn(`the certificate does not change: ${chainOf(error)}`));
  }

  #admit(config: MachineConfig): void {
    this.#names.change(config);
    this.#guard.change(config);
  }

  async #renew(config: MachineConfig): Promise<void> {
    // The certificate's files are followed separately, for the configuration in force.
    if (this.#closed || !this.#isOpen || !this.#door.tls || this.#door.fromFiles) return;
    const { tls, fromFiles } = await readDoor(config, this.#parts);
    if (tls && !fromFiles) this.#show(tls);
  }

  /** Shows a changed certificate to new connections. */
  #show(tls: TlsFiles): void {
    if (JSON.stringify(tls) === JSON.stringify(this.#door.tls)) return;
    this.#port.renew({ ...tls, asksClients: this.#door.asksClients });
    this.#door = { ...this.#door, tls };
    this.#parts.logger.info("the port has another certificate", { file: tls.certName });
  }

  /** Reopens the port if `config` needs another one. Never rejects; a later call overrides an earlier one. */
  change(config: MachineConfig): Promise<void> {
    this.#callOffRetry();
    this.#unfollowFiles();
    return this.#work.run(() => this.#change(config));
  }

  /** Takes no more calls and waits up to `drainMs` for those under way. */
  async close(drainMs: number): Promise<void> {
    this.#closed = true;
    this.#callOffRetry();
    this.#unfollowFiles();
    await this.#work.idle();
    await this.#guard.close();
    await this.#port.close(drainMs);
  }

  async #change(config: MachineConfig): Promise<void> {
    const { logger, clock } = this.#parts;
    if (this.#closed) return;
    // The old port, too, must refuse callers that lost access, even if the new port does not open.
    this.#admit(config);
    this.#followFiles(config);
    await this.#guard.moveKeys(config);
    try {
      const door = await readDoor(config, this.#parts);
      if (this.#isOpen && door.tls && this.#door.tls && isSameBut(door, this.#door)) {
        this.#show(door.tls);
        this.#door = door;
      } else if (!this.#isOpen || JSON.stringify(door) !== JSON.stringify(this.#door)) {
        const auth = this.#guard.authFor(config);
        await this.#reopen(door, auth);
        this.#guard.use(auth);
      }
      this.#announce(config);
      this.#problem = undefined;
    } catch (error) {
      const state = this.#isOpen ? `stays ${this.url}` : "is closed";
      const text = `the port ${state}: ${chainOf(error)}`;
      if (text !== this.#problem?.error) {
        logger.error(text);
        this.#problem = { error: text, sinceMs: clock.nowMs() };
      }
      this.#callOffRetry = clock.after(RETRY_MS, () => void this.change(config));
    }
  }

  #announce({ network, cloud }: MachineConfig): void {
    const names = [network.fqdn ?? cloud?.fqdn, cloud?.localFqdn].filter((name) => name !== undefined);
    const { host: address, port } = this.#port;
    this.#parts.reached?.({ names: [...new Set(names)], address, port });
  }

  /** Follows changes of the certificate's files. */
  #followFiles(config: MachineConfig): void {
    this.#unfollowFiles();
    const paths = tlsPathsOf(config);
    if (!paths || this.#closed) return;
    this.#unfollowFiles = followTlsFiles(paths, this.#parts, () => void this.change(config));
  }

  async #reopen(door: Door, auth: Auth | undefined): Promise<void> {
    const [oldDoor, oldPort, oldAuth] = [this.#door, this.#port, this.#guard.auth];
    const openAt = (place: Door, guard: Auth | undefined) =>
      open(place, guard, this.#guard.permissions, this.#names, this.#parts);
    // Keep a port that the system chose: clients know it by now.
    const same = door.bind.port === 0 && oldDoor.bind.port === 0 && door.bind.host === oldDoor.bind.host;
    const target = same ? at(door, oldPort.port) : door;
    try {
      this.#port = await openAt(target, auth);
    } catch (error) {
      if (!isInUse(error) || target.bind.port !== oldPort.port) throw error;
      // The old port itself is in the way. All other parts of the new port are valid.
      this.#isOpen = false;
      await oldPort.close(REOPEN_DRAIN_MS);
      try {
        this.#port = await openAt(target, auth);
      } catch (cause) {
        this.#port = await openAt(at(oldDoor, oldPort.port), oldAuth);
        this.#isOpen = true;
        throw cause;
      }
    }
    this.#isOpen = true;
    this.#door = door;
    this.#parts.serving(this.url);
    await oldPort.close(REOPEN_DRAIN_MS);
  }
}

/** Whether two doors differ in nothing but their certificates. */
function isSameBut(one: Door, other: Door): boolean {
  const [a, b] = [one, other].map((door) =>
    JSON.stringify({ ...door, tls: undefined, fromFiles: undefined })
  );
  return a === b;
}

function tlsPathsOf({ network: { tlsCertFile, tlsKeyFile } }: MachineConfig): TlsPaths | undefined {
  if (tlsCertFile === undefined || tlsKeyFile === undefined) return undefined;
  return { certFile: tlsCertFile, keyFile: tlsKeyFile };
}

function at(door: Door, port: number): Door {
  return { ...door, bind: { ...door.bind, port } };
}

function isInUse(error: unknown): boolean {
  return (error as { cause?: { code?: string } }).cause?.code === "EADDRINUSE";
}

/** The error of a port that does not open, with the setting that names it and the program that has it. */
async function refusedPort(error: unknown, { port }: Bind, host: MachinePortParts["host"]): Promise<unknown> {
  if (!(error instanceof SvcError) || !error.message.startsWith("cannot listen on")) return error;
  const holder = isInUse(error) ? await findHolder(port, host) : undefined;
  const message = holder === undefined
    ? error.message
    : error.message.replace("it is in use", `it is in use by ${holder}`);
  return new SvcError(error.code, `network.bind_address: ${message}`, { cause: error.cause });
}

/** The port, and WebRTC beside it: both serve the same table, and end together. */
async function open(
  { bind, tls, asksClients }: Door,
  guard: Auth | undefined,
  permissions: Permissions,
  names: Names,
  { tableFor, http, host, clock, logger, webrtc: wanted, joined, elsewhere }: MachinePortParts,
): Promise<Port> {
  if (asksClients && !tls) {
    logger.warn("auth.tls_auth_entities: without TLS no client can show a certificate, so it admits nobody");
  }
  const connections = await connectionLimit(host);
  const offered = tls && { ...tls, asksClients };
  const table = tableFor(guard, permissions);
  const webrtc = wanted
    ? new MachineWebRtc({
      table,
      guard,
      permissions,
      names: () => names.now,
      settings: () => names.webrtc,
      elsewhere: elsewhere && ((answer) => elsewhere(() => names.given, answer)),
      clock,
      logger,
      joined,
    })
    : undefined;
  const renamed = () => webrtc?.renamed();
  names.changed.add(renamed);
  try {
    const sites = guard ? anySite : nearSites(() => names.now);
    const port = await openPort({ table, bind, tls: offered, http, sites, clock, logger, connections });
    const { url, host: address, port: number } = port;
    const close = async (deadlineMs: number) => {
      names.changed.delete(renamed);
      await Promise.all([port.close(deadlineMs), webrtc?.close(deadlineMs)]);
    };
    return { url, host: address, port: number, close, renew: (tls) => port.renew(tls) };
  } catch (error) {
    names.changed.delete(renamed);
    await webrtc?.close(0);
    throw await refusedPort(error, bind, host);
  }
}

/** The machine's names and WebRTC settings, which may change while the port is open. */
class Names {
  now: readonly string[];
  given: DialInfo;
  webrtc: WebRtcSettings;
  readonly changed = new Set<() => void>();

  constructor(config: MachineConfig) {
    this.now = machineNamesOf(config);
    this.given = dialInfoOf(config);
    this.webrtc = webrtcOf(config);
  }

  change(config: MachineConfig): void {
    const before = JSON.stringify(this.given);
    this.now = machineNamesOf(config);
    this.given = dialInfoOf(config);
    this.webrtc = webrtcOf(config);
    if (JSON.stringify(this.given) === before) return;
    for (const hear of [...this.changed]) hear();
  }
}

function webrtcOf({ network: { webrtc } }: MachineConfig): WebRtcSettings {
  const { maxPeers: peers, maxOffers: offers, maxCandidates: candidates, maxCalls: calls, iceServers } =
    webrtc;
  return {
    limits: { peers, offers, candidates, calls },
    iceServers: iceServers.map((one) => ({ ...one, credential: one.credential?.reveal() })),
  };
}

/** The control plane's information for calls to the machine through it. */
export function dialInfoOf({ cloud }: Pick<MachineConfig, "cloud">): DialInfo {
  const { fqdn, localFqdn, signalingAddress: address, signalingInsecure } = cloud ?? {};
  const names = [fqdn, localFqdn].filter((name) => name !== undefined);
  if (!address) return { names };
  const signaling = address.includes("://")
    ? address
    : `${signalingInsecure ? "http" : "https"}://${address}`;
  return { names, signaling };
}

/** Reads the certificate, if there is one. */
async function readDoor(config: MachineConfig, { noTls, host: files }: MachinePortParts): Promise<Door> {
  const { network, auth: { tlsAuthEntities } } = config;
  const tls = noTls || network.noTls ? undefined : await readTls(config, files);
  const { host, port, managedHost } = network.bindAddress;
  const managed = tls && !network.tlsCertFile;
  return {
    bind: { host: managed && managedHost !== undefined ? managedHost : host, port },
    tls,
    fromFiles: tlsPathsOf(config) !== undefined,
    asksClients: tlsAuthEntities.length > 0,
    guarded: authSettingsOf(config) !== undefined,
  };
}

async function readTls(config: MachineConfig, host: ReadFiles): Promise<TlsFiles | undefined> {
  const paths = tlsPathsOf(config);
  if (paths) return await readTlsFiles(paths, host);
  const { cloud } = config;
  if (!cloud?.tlsCertificate || !cloud.tlsPrivateKey) return undefined;
  return {
    certPem: cloud.tlsCertificate,
    keyPem: cloud.tlsPrivateKey.reveal(),
    certName: "the certificate of the control plane",
    keyName: "the private key of the control plane",
  };
}
