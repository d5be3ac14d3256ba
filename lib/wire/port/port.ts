/**
 * The one port: gRPC over HTTP/2 with and without TLS, gRPC-web and plain HTTP, recognized by their first bytes.
 *
 * Owns the listening socket and every connection on it. No client, however broken or hostile, ends the program or
 * keeps a silent connection, and `close` ends within its deadline.
 *
 * The room owns what comes in from outside: sockets, HTTP/1.1, gRPC-web, and the pages.
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { createServer as createTls, type Server as TlsServer, type TLSSocket } from "node:tls";
import type { Clock } from "../../base/clock.ts";
import { assert, type Code, messageOf, SvcError } from "../../base/error.ts";
import type { LoopbackEnds } from "../../base/host.ts";
import type { Logger } from "../../base/log/log.ts";
import { type Allowance, type ByteLimits, PortAllowance } from "../flow/byte_budget.ts";
import { acceptGrpc } from "../grpc/server.ts";
import type { RouteOptions } from "./routes.ts";
import type { WebRequest } from "./exchange.ts";
import type { Sites } from "./sites.ts";
import { WebServer } from "./web_server.ts";
import { holdBelowTls, readInTurns, RoundRobin, type SlicedReader } from "../flow/round_robin.ts";
import {
  type AdmittedConnection,
  ConnectionAdmission,
  DEFAULT_CONNECTIONS,
  waitingWith,
} from "../flow/admission.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { Http1, refusal } from "./http1.ts";
import { PortAbuseLimits } from "../http2/abuse_limits.ts";
import { Connection } from "../http2/connection.ts";
import { H2 } from "../http2/frame.ts";
import type { Stream, StreamListener } from "../http2/stream.ts";
import { type ListenAddress, Listener } from "./listener.ts";
import { loopbackEnds } from "../flow/loopback.ts";
import type { TrustedProxies } from "../rpc/proxies.ts";
import type { Peer, ServiceTable } from "../rpc/service.ts";

/** A client that has not shown its protocol within this time is disconnected. */
const SILENCE_MS = 10_000;
/** The share of a port's connections that makes a crowd. */
const CROWD_SHARE = 3 / 4;
const KEEPALIVE_MS = 30_000;
const TOO_MUCH_UNREAD = "it reads too little of its answers, and others need the memory";
/** The start of HTTP/2, and the methods of HTTP/1.1. */
const KNOWN_BEGINNINGS = /^(PRI|GET|HEA|POS|PUT|PAT|DEL|OPT|CON|TRA)/;

export interface Port {
  /** `http://host:port`, `https://host:port` or `unix:/path`. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /**
   * Uses this certificate for new connections; open connections stay. Throws `invalid_argument` if it is unusable, and
   * then nothing changes. Only for a port that was opened with TLS.
   */
  renew(tls: TlsFiles): void;
  /** Accepts no more calls, waits up to `deadlineMs` for those under way, then ends them. */
  close(deadlineMs: number): Promise<void>;
}

export interface TlsFiles {
  readonly certPem: string;
  readonly keyPem: string;
  /** Their names in errors: usually their paths. */
  readonly certName?: string;
  /** Clients are asked for certificates; one of the authorities in `certPem` must have issued them. */
  readonly asksClients?: boolean;
  readonly keyName?: string;
}

interface Serving {
  readonly table: ServiceTable;
  readonly clock: Clock;
  readonly logger?: Logger;
  readonly http?: RouteOptions;
  /** The sites whose pages may call; any, if left out, because they have no keys. */
  readonly sites?: Sites;
  /** Limits of the memory that callers can occupy, if not the defaults. */
  readonly byteLimits?: Partial<ByteLimits>;
  /** Limit of connections, if not `connectionLimit`. */
  readonly connections?: number;
  /** Reverse proxies that say who calls through them. */
  readonly proxies?: TrustedProxies;
  /** Decides about each connection before anything is read from it: throws to refuse. */
  readonly admit?: (ends: LoopbackEnds) => Promise<void>;
}

export interface PortOptions extends Serving {
  /** Port 0 takes a free one. */
  readonly bind: { readonly host: string; readonly port: number };
  readonly tls?: TlsFiles;
}

/**
 * Opens the port. Fails with `unavailable` if the address cannot be used, `invalid_argument` for an invalid address or
 * PEM.
 */
export async function openPort(options: PortOptions): Promise<Port> {
  const { bind, tls } = options;
  if (!Number.isInteger(bind.port) || bind.port < 0 || bind.port > 65_535) {
    throw new SvcError(
      "invalid_argument",
      `cannot listen on port ${bind.port}, wanted a number from 0 to 65535`,
    );
  }
  const opened = new OpenPort(options, tls);
  const address = `${bracketed(bind.host)}:${bind.port}`;
  await opened.listen(address, { host: bind.host, port: bind.port });
  return opened;
}

/** The same calls without TLS on a socket of the file system. The file must not exist yet. */
export async function openUnixPort(options: Serving & { readonly path: string }): Promise<Port> {
  const opened = new OpenPort(options);
  await opened.listen(options.path, { path: options.path });
  return opened;
}

/** A connection as the port sees it. */
interface PortConnection {
  readonly admitted: AdmittedConnection;
  /** Stops the time limit of silent connections: the client has shown its protocol. */
  readonly protocolKnown: () => void;
  /** Sends GOAWAY before the connection is evicted, if the protocol has it. */
  sayGoaway: () => void;
}

class OpenPort implements Port {
  url = "";
  host = "";
  port = 0;
  readonly #listener: Listener;
  readonly #admission: ConnectionAdmission;
  /** By name; a client keeps its name through the TLS handshake. */
  readonly #byClient = new Map<string, PortConnection>();
  /** Takes sockets that start a TLS handshake from `#listener`. It never listens itself. */
  #tls: TlsServer | undefined;
  readonly #http1: Http1;
  readonly #web: WebServer;
  readonly #sockets = new Set<Socket>();
  readonly #connections = new Set<Connection>();
  readonly #scheme: string;
  readonly #allowance: PortAllowance;
  readonly #abuse: PortAbuseLimits;
  readonly #scheduler = new RoundRobin();
  #nextClient = 0;
  #closing: Promise<void> | undefined;
  #changed = () => {};

  constructor(private readonly serving: Serving, tls?: TlsFiles) {
    this.#scheme = tls ? "https" : "http";
    this.#allowance = new PortAllowance(serving.byteLimits);
    this.#abuse = new PortAbuseLimits(serving.clock);
    this.#web = new WebServer(serving.table, serving.http ?? {}, serving.sites);

    const { clock, logger, connections = DEFAULT_CONNECTIONS } = serving;
    this.#http1 = new Http1({
      clock,
      web: this.#web,
      scheme: this.#scheme,
      proxies: serving.proxies,
      debug: (message) => this.#debug(message),
      closing: () => this.#closing !== undefined,
      changed: () => this.#changed(),
    });
    this.#admission = new ConnectionAdmission(connections, clock);
    this.#listener = new Listener({
      clock,
      logger,
      backlog: waitingWith(connections),
      crowd: Math.ceil(CROWD_SHARE * connections),
      accept: (socket) => this.#accept(socket),
    });
    this.#tls = tls && this.#createTls(tls);
  }

  #createTls(tls: TlsFiles): TlsServer {
    // An unverified certificate counts as none; the call's own credentials decide.
    const asked = tls.asksClients && { requestCert: true, rejectUnauthorized: false, ca: [tls.certPem] };
    const server = createTls({
      ...checked(tls),
      ...asked,
      ALPNProtocols: ["h2", "http/1.1"],
      minVersion: "TLSv1.2",
    });
    server.on("secureConnection", (socket: Socket) => {
      holdBelowTls(socket);
      this.#begin(socket);
    });
    server.on("tlsClientError", (error: Error, socket: Socket) => {
      this.#debug(`TLS handshake failed: ${error.message}`);
      socket.destroy();
    });

    return server;
  }

  async listen(name: string, address: ListenAddress): Promise<void> {
    try {
      await this.#listener.listen(name, address);
    } catch (error) {
      throw cannotListen(name, error);
    }
    this.#name(address.path);
  }

  renew(tls: TlsFiles): void {
    assert(this.#tls, "a port without TLS has no certificate");
    this.#tls = this.#createTls(tls);
  }

  close(deadlineMs: number): Promise<void> {
    return this.#closing ??= this.#close(deadlineMs);
  }

  async #close(deadlineMs: number): Promise<void> {
    const stopped = this.#listener.close();
    for (const connection of this.#connections) connection.drain();
    const idle = new Promise<void>((resolve) => {
      this.#changed = () => {
        if (this.#connections.size === 0 && this.#http1.busy === 0 && !this.#isParting) resolve();
      };
    });
    const cancel = this.serving.clock.after(deadlineMs, () => this.#cut());
    this.#changed();
    await idle;
    cancel();
    this.#cut();
    await stopped;
  }

  /** Whether a client has yet to take its last answers. */
  get #isParting(): boolean {
    return [...this.#sockets].some((socket) => socket.writableEnded);
  }

  #cut(): void {
    for (const connection of [...this.#connections]) {
      connection.destroy(new SvcError("unavailable", "the server is stopping"));
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#changed();
  }

  #name(path: string | undefined): void {
    if (path !== undefined) {
      this.host = path;
      this.url = `unix:${path}`;
      return;
    }
    const { address, port } = this.#listener.address;
    this.host = address;
    this.port = port;
    this.url = `${this.#scheme}://${bracketed(address)}:${port}`;
  }

  #debug(message: string): void {
    this.serving.logger?.debug(message);
  }

  // Connections.

  /** Watches a new socket and reads from it. */
  #accept(socket: Socket): void {
    const client = endpoint(socket, this.#nextClient++);
    if (this.#closing) {
      socket.destroy();
      return;
    }

    const stop = this.serving.clock.after(SILENCE_MS, () => {
      this.#debug(`${client} said nothing for ${SILENCE_MS / 1000} s and is cut off`);
      socket.destroy();
    });
    // The connections of a proxy are those of many callers, as those of programs on this computer are.
    const { proxies } = this.serving;
    const address = proxies?.has(socket.remoteAddress) ? undefined : socket.remoteAddress;
    const admitted = this.#admission.admit(address, () => {
      this.#debug(`${client} makes room for a new connection`);
      entry.sayGoaway();
      socket.destroy();
    });
    const entry: PortConnection = { admitted, protocolKnown: stop, sayGoaway: () => {} };
    this.#byClient.set(client, entry);

    this.#sockets.add(socket);
    socket.on("close", () => {
      stop();
      this.#sockets.delete(socket);
      this.#byClient.delete(client);
      this.#admission.remove(admitted);
      this.#changed();
    });
    socket.setNoDelay?.(true);
    socket.setKeepAlive?.(true, KEEPALIVE_MS);

    const { admit } = this.serving;
    if (admit) void this.#admit(socket, client, admit);
    else this.#welcome(socket, client);
  }

  async #admit(socket: Socket, client: string, admit: NonNullable<Serving["admit"]>): Promise<void> {
    socket.on("error", (error) => this.#debug(`connection of ${client}: ${error.message}`));
    try {
      await admit(loopbackEnds(socket, "server"));
      if (!socket.destroyed) this.#welcome(socket, client);
    } catch (error) {
      this.serving.logger?.warn(`refused a connection: ${messageOf(error)}`);
      socket.destroy();
    }
  }

  #welcome(socket: Socket, client: string): void {
    if (this.#tls) this.#beginTls(socket, client, this.#tls);
    else this.#begin(socket, client);
  }

  /** Input that is not TLS gets a readable answer, if it resembles HTTP. */
  #beginTls(socket: Socket, client: string, tls: TlsServer): void {
    socket.on("error", (error) => this.#debug(`connection of ${client}: ${error.message}`));
    socket.once("readable", () => {
      const bytes = socket.read() as Buffer | null;
      if (bytes?.[0] !== TLS_HANDSHAKE) {
        this.#debug(`${client} does not begin with TLS, which is on here`);
        if (bytes && /^[A-Z]/.test(bytes.toString("latin1"))) answerAndEnd(socket, NOT_TLS);
        else socket.destroy();
        return;
      }
      socket.unshift(bytes);
      tls.emit("connection", socket);
    });
  }

  #begin(socket: Socket, client = endpoint(socket)): void {
    socket.on("error", (error) => this.#debug(`connection of ${client}: ${error.message}`));
    this.#detectProtocol(
      socket,
      client,
      Buffer.alloc(0),
      readInTurns(socket, this.serving.clock, this.#scheduler),
    );
  }

  /** Reads until the protocol is clear, and puts the bytes back. */
  #detectProtocol(socket: Socket, client: string, head: Buffer, turns: SlicedReader): void {
    socket.once("readable", () => {
      const bytes = socket.read() as Buffer | null;
      if (!bytes) return this.#detectProtocol(socket, client, head, turns);

      head = Buffer.concat([head, bytes]);
      if (head[0] === TLS_HANDSHAKE) {
        this.#debug(`${client} begins with TLS, which is off here`);
        return answerAndEnd(socket, NO_TLS_HERE);
      }

      const beginning = head.subarray(0, 3).toString("latin1");
      if (head.length < 3 && /^[A-Z]+$/.test(beginning)) {
        return this.#detectProtocol(socket, client, head, turns);
      }
      if (!KNOWN_BEGINNINGS.test(beginning)) {
        this.#debug(`${client} speaks neither HTTP/1.1 nor HTTP/2`);
        socket.destroy();
        return;
      }

      socket.unshift(head);
      if (beginning === "PRI") {
        turns.release();
        return this.#takeHttp2(socket, client);
      }

      this.#takeHttp1(socket, client, turns);
    });
  }

  #takeHttp1(socket: Socket, client: string, turns: SlicedReader): void {
    const entry = this.#byClient.get(client);
    if (!entry) return void socket.destroy();

    const { admitted, protocolKnown: spoke } = entry;
    const allowance = this.#allowance.connection(() => {
      this.#debug(`${client} is cut off: ${TOO_MUCH_UNREAD}`);
      socket.destroy();
    });
    socket.once("close", () => allowance.end());
    this.#http1.take(socket, {
      name: client,
      peer: peerOf(socket),
      admitted,
      turns,
      allowance,
      spoke,
    });
  }

  #takeHttp2(socket: Socket, client: string): void {
    const entry = this.#byClient.get(client);
    if (!entry) return void socket.destroy();

    const { admitted } = entry;
    const allowance = this.#allowance.connection(() => connection.evict(TOO_MUCH_UNREAD));
    socket.once("close", () => allowance.end());

    const others = (stream: Stream, fields: HeaderFields, peer: Peer) =>
      this.#webStream(stream, fields, peer, allowance, admitted);
    const calls = acceptGrpc(this.serving.table, peerOf(socket), allowance, {
      others,
      admitted,
      proxies: this.serving.proxies,
    });
    const connection: Connection = new Connection(socket, {
      role: "server",
      clock: this.serving.clock,
      accept: (stream, fields) => {
        admitted.progressed();
        return calls(stream, fields);
      },
      scheduler: this.#scheduler,
      unread: allowance.unread,
      abuse: this.#abuse,
      transferred: (bytes) => admitted.transferred(bytes),
      ready: () => {
        entry.protocolKnown();
        admitted.progressed();
      },
      closed: (error) => {
        this.#connections.delete(connection);
        this.#debug(`connection of ${client} ended: ${error.message}`);
        this.#changed();
      },
    });
    this.#connections.add(connection);
    entry.sayGoaway = () => connection.evict("the server is full and closes this connection to make room");
    if (this.#closing) connection.drain();
  }

  // The web over either HTTP.

  #webStream(
    stream: Stream,
    fields: HeaderFields,
    peer: Peer,
    allowance: Allowance,
    admitted: AdmittedConnection,
  ): StreamListener {
    const pseudo = new Map(fields);
    const request: WebRequest = {
      method: pseudo.get(":method") ?? "",
      target: pseudo.get(":path") ?? "",
      fields,
      peer,
      allowance,
      admitted,
      taken: (bytes) => stream.consumed(bytes),
    };
    const body = this.#web.open(request, {
      start: (status, answer) => stream.headers([[":status", String(status)], ...answer], false),
      unread: stream.unread,
      send: (bytes) => stream.send(bytes),
      end: () => stream.end(),
      abort: () => stream.fail(H2.internal, "the answer broke off"),
    });
    return {
      headers() {},
      data: (bytes) => body.data(bytes),
      ended: () => body.ended(),
      closed: (error) => error && body.gone(error),
    };
  }
}

const NOT_TLS = refusal("400 Bad Request", "this port speaks TLS: use https:// in place of http://\n");
/**
 * The published Go client begins with TLS. It goes on without only if it reads something that is no TLS, as Go's own
 * servers answer; it takes a connection that just ends for a failure.
 */
const NO_TLS_HERE =
  "HTTP/1.0 400 Bad Request\r\n\r\nthis port is without TLS: use http:// in place of https://\n";
/** Input that a client may still send after its last answer; any TLS hello is shorter. */
const UNHEARD_BYTES = 64 * 1024;

/**
 * Sends a last answer. Input that comes after it is read and dropped, because a socket that closes with unread input
 * resets the connection, and the client loses the answer. The limit of silent connections applies on.
 */
function answerAndEnd(socket: Socket, answer: string): void {
  let left = UNHEARD_BYTES;
  socket.on("data", (bytes: Uint8Array) => {
    left -= bytes.length;
    if (left < 0) socket.destroy();
  });
  socket.resume().end(answer);
}
/** The first byte of a client's TLS. */
const TLS_HANDSHAKE = 0x16;

function peerOf(socket: Socket): Peer {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  return {
    kind: "grpc",
    remoteAddress,
    remotePort,
    localPort,
    localAddress,
    certificateNames: certificateNames(socket),
  };
}

/** The DNS names in the client's verified certificate. */
function certificateNames(socket: Socket): readonly string[] | undefined {
  const { authorized, getPeerCertificate } = socket as Partial<TLSSocket>;
  if (authorized !== true || !getPeerCertificate) return undefined;
  const names = getPeerCertificate.call(socket as TLSSocket).subjectaltname ?? "";
  return names.split(", ").flatMap((name) => name.startsWith("DNS:") ? [name.slice("DNS:".length)] : []);
}

/** The identity of a client; sockets of the file system have only a number. */
function endpoint(socket: Socket, number?: number): string {
  const { remoteAddress, remotePort } = socket;
  return remoteAddress === undefined ? `local client ${number}` : `${bracketed(remoteAddress)}:${remotePort}`;
}

/** A host as it stands before a port: an IPv6 address in brackets. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

type Advice = [code: Code, advice: string];

function cannotListen(address: string, cause: unknown): SvcError {
  const { code } = cause as { code?: string };
  const elsewhere: Advice = [
    "unavailable",
    "this machine has no such address; choose one of its own, or 0.0.0.0 for all",
  ];
  const known: Record<string, Advice> = {
    EADDRINUSE: ["unavailable", "it is in use; stop the program that has it or choose another one"],
    EADDRNOTAVAIL: elsewhere,
    EINVAL: elsewhere,
    EACCES: ["permission_denied", "the system does not allow it; ports below 1024 need a privileged user"],
    ENOTFOUND: ["invalid_argument", "the name of the host is not known"],
    ENOENT: ["not_found", "its folder does not exist"],
  };
  const [kind, advice] = known[code ?? ""] ?? ["unavailable", messageOf(cause)];
  return new SvcError(kind, `cannot listen on ${address}: ${advice}`, { cause });
}

/** Certificate and key, fully checked. */
function checked(tls: TlsFiles): { cert: string; key: string } {
  const certName = tls.certName ?? "the certificate", keyName = tls.keyName ?? "the private key";
  const certificate = parsed(
    `cannot read ${certName}: wanted a PEM certificate`,
    () => new X509Certificate(tls.certPem),
  );
  const key = parsed(`cannot read ${keyName}: wanted a PEM private key`, () => createPrivateKey(tls.keyPem));
  const form = { type: "spki", format: "pem" } as const;
  if (createPublicKey(key).export(form) !== certificate.publicKey.export(form)) {
    const problem = `${keyName} is not the key of ${certName}; give the two files that were made together`;
    throw new SvcError("invalid_argument", problem);
  }
  return { cert: tls.certPem, key: tls.keyPem };
}

function parsed<T>(problem: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new SvcError("invalid_argument", `${problem}, found ${messageOf(cause)}`, { cause });
  }
}
