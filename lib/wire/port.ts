/**
 * The one port: gRPC over HTTP/2 with and without TLS, gRPC-web and plain HTTP, told apart by their first bytes.
 *
 * Owns the listening socket and every connection on it. Promises that no client, however broken or hostile, ends
 * the program or keeps a connection without having said something, and that `close` ends within its deadline.
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import {
  createServer as createHttp,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { createServer as createTls, type Server as TlsServer, type TLSSocket } from "node:tls";
import type { Clock } from "../base/clock.ts";
import { type Code, messageOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log.ts";
import { type Allowance, type ByteLimits, PortAllowance } from "./byte_budget.ts";
import { acceptGrpc } from "./grpc_server.ts";
import { type HttpOptions, type WebBody, type WebRequest, type WebResponse, WebServer } from "./grpc_web.ts";
import { holdBelowTls, readInTurns, type Turns } from "./fair_socket.ts";
import { DEFAULT_CONNECTIONS, type Guest, Guests } from "./guests.ts";
import type { Fields } from "./hpack.ts";
import { Connection } from "./http2.ts";
import { H2 } from "./http2_frame.ts";
import type { Stream, StreamListener } from "./http2_stream.ts";
import { type ListenAddress, Listener } from "./listener.ts";
import type { Peer, ServiceTable } from "./service.ts";

/** A client that has not shown within this time what it wants is cut off. */
const SILENCE_MS = 10_000;
/** Request bytes over HTTP/1.1 that wait for their reader. */
const BODY_BYTES = 1024 * 1024;
/** A connection of HTTP/1.1 without a request is kept this long; in this time its next header has to be complete. */
const HTTP_IDLE_MS = 75_000;
/** A request over HTTP/1.1 brings this many bytes in this time, or its end, unless it waits for us. */
const PROGRESS_BYTES = 64 * 1024;
const PROGRESS_MS = 30_000;
/** A client over HTTP/1.1 that reads nothing of its answer for this long is cut off. */
const UNREAD_MS = 120_000;
const KEEPALIVE_MS = 30_000;
/** How HTTP/2 begins, and the methods of HTTP/1.1. */
const KNOWN_BEGINNINGS = /^(PRI|GET|HEA|POS|PUT|PAT|DEL|OPT|CON|TRA)/;

export interface Port {
  /** `http://host:port`, `https://host:port` or `unix:/path`. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Takes no more calls, waits up to `deadlineMs` for those under way, then cuts them off. */
  close(deadlineMs: number): Promise<void>;
}

export interface TlsFiles {
  readonly certPem: string;
  readonly keyPem: string;
  /** What to call them in errors: usually their paths. */
  readonly certName?: string;
  /** Clients are asked for certificates; good are those that one of `certPem` has issued. */
  readonly asksClients?: boolean;
  readonly keyName?: string;
}

interface Serving {
  readonly table: ServiceTable;
  readonly clock: Clock;
  readonly logger?: Logger;
  readonly http?: HttpOptions;
  /** How much callers may make the program keep, where that is not the default. */
  readonly byteLimits?: Partial<ByteLimits>;
  /** How many may be connected at once (`connectionLimit`), where that is not the default. */
  readonly connections?: number;
}

export interface PortOptions extends Serving {
  /** Port 0 takes a free one. */
  readonly bind: { readonly host: string; readonly port: number };
  readonly tls?: TlsFiles;
}

/** Opens the port. Fails with `unavailable` when the address cannot be had, `invalid_argument` when it or a PEM is wrong. */
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

class OpenPort implements Port {
  url = "";
  host = "";
  port = 0;
  readonly #listener: Listener;
  readonly #guests: Guests;
  /** By their clients, and by the sockets of HTTP/1.1. */
  readonly #guestOf = new Map<string | Socket, Guest>();
  /** Takes over, from `#listener`, the sockets of clients that begin with a TLS handshake. It never listens itself. */
  readonly #tls: TlsServer | undefined;
  readonly #http: Server;
  readonly #web: WebServer;
  readonly #sockets = new Set<Socket>();
  readonly #connections = new Set<Connection>();
  /** Call off the timers of clients that have not spoken yet; before and after the TLS handshake by their address. */
  readonly #silent = new Map<string, () => void>();
  /** How the connections of HTTP/1.1 are read. */
  readonly #turns = new WeakMap<Socket, Turns>();
  /** Call off the end of connections of HTTP/1.1 that are between two requests. */
  readonly #resting = new Map<Socket, () => void>();
  /** Answers of HTTP/1.1 that are not complete. */
  readonly #open = new Set<ServerResponse>();
  readonly #scheme: string;
  readonly #allowance: PortAllowance;
  /** By the sockets of HTTP/1.1. */
  readonly #allowances = new WeakMap<Socket, Allowance>();
  #nextClient = 0;
  #closing: Promise<void> | undefined;
  #changed = () => {};

  constructor(private readonly serving: Serving, tls?: TlsFiles) {
    this.#scheme = tls ? "https" : "http";
    this.#allowance = new PortAllowance(serving.byteLimits);
    this.#web = new WebServer(serving.table, serving.http ?? {});
    // An offer to change to another protocol is not taken up; the request itself is answered.
    const options = { shouldUpgradeCallback: () => false } as ServerOptions;
    this.#http = createHttp(options, (request, response) => this.#request(request, response));
    // Deno ends a connection after its first answer when the server it belongs to does not listen. This one is
    // handed its connections, and never listens itself.
    Object.defineProperty(this.#http, "listening", { get: () => this.#closing === undefined });
    this.#http.on("clientError", (error, socket) => {
      if (socket.writable) socket.end(notHttp(error));
      // What still comes is read for the answer's sake, and not looked at.
      socket.removeAllListeners("data").resume();
    });
    const { clock, logger, connections = DEFAULT_CONNECTIONS } = serving;
    this.#guests = new Guests(connections);
    this.#listener = new Listener({ clock, logger, accept: (socket) => this.#accept(socket) });
    this.#tls = tls && this.#createTls(tls);
  }

  #createTls(tls: TlsFiles): TlsServer {
    // Who shows no certificate, or one that is not verified, is as good as any other client without one.
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

  close(deadlineMs: number): Promise<void> {
    return this.#closing ??= this.#close(deadlineMs);
  }

  async #close(deadlineMs: number): Promise<void> {
    const stopped = this.#listener.close();
    for (const connection of this.#connections) connection.drain();
    const idle = new Promise<void>((resolve) => {
      this.#changed = () => {
        if (this.#connections.size === 0 && this.#open.size === 0) resolve();
      };
    });
    const cancel = this.serving.clock.after(deadlineMs, () => this.#cut());
    this.#changed();
    await idle;
    cancel();
    this.#cut();
    await stopped;
  }

  #cut(): void {
    for (const connection of [...this.#connections]) {
      connection.destroy(new SvcError("unavailable", "the server is stopping"));
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#open.clear();
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

  /** Watches over a new socket and reads from it. */
  #accept(socket: Socket): void {
    const client = endpoint(socket, this.#nextClient++);
    const guest: Guest = {
      address: socket.remoteAddress,
      usedMs: this.serving.clock.monotonicMs(),
      requests: 0,
      isIdle: () => guest.requests === 0,
      leave: () => void socket.destroy(),
    };
    if (this.#closing || !this.#guests.admit(guest)) {
      socket.destroy();
      return;
    }
    this.#guestOf.set(client, guest);
    const stop = this.serving.clock.after(SILENCE_MS, () => {
      this.#debug(`${client} said nothing for ${SILENCE_MS / 1000} s and is cut off`);
      socket.destroy();
    });
    const spoke = () => {
      stop();
      this.#silent.delete(client);
    };
    this.#silent.set(client, spoke);
    this.#sockets.add(socket);
    socket.on("close", () => {
      spoke();
      this.#sockets.delete(socket);
      this.#guestOf.delete(client);
      this.#guests.remove(guest);
    });
    socket.setNoDelay?.(true);
    socket.setKeepAlive?.(true, KEEPALIVE_MS);
    if (this.#tls) this.#beginTls(socket, client, this.#tls);
    else this.#begin(socket, client);
  }

  /** What is not TLS gets an answer that a person can read, if it is something like HTTP. */
  #beginTls(socket: Socket, client: string, tls: TlsServer): void {
    socket.on("error", (error) => this.#debug(`connection of ${client}: ${error.message}`));
    socket.once("readable", () => {
      const bytes = socket.read() as Buffer | null;
      if (bytes?.[0] !== TLS_HANDSHAKE) {
        this.#debug(`${client} does not begin with TLS, which is on here`);
        // What still comes is read, so that the client's own end is seen.
        if (bytes && /^[A-Z]/.test(bytes.toString("latin1"))) socket.resume().end(NOT_TLS);
        else socket.destroy();
        return;
      }
      socket.unshift(bytes);
      tls.emit("connection", socket);
    });
  }

  #begin(socket: Socket, client = endpoint(socket)): void {
    socket.on("error", (error) => this.#debug(`connection of ${client}: ${error.message}`));
    this.#sniff(socket, client, Buffer.alloc(0), readInTurns(socket, this.serving.clock));
  }

  /** Reads until it is clear which protocol this is, and puts the bytes back. */
  #sniff(socket: Socket, client: string, head: Buffer, turns: Turns): void {
    socket.once("readable", () => {
      const bytes = socket.read() as Buffer | null;
      if (!bytes) return this.#sniff(socket, client, head, turns);
      head = Buffer.concat([head, bytes]);
      const beginning = head.subarray(0, 3).toString("latin1");
      if (head.length < 3 && /^[A-Z]+$/.test(beginning)) return this.#sniff(socket, client, head, turns);
      if (!KNOWN_BEGINNINGS.test(beginning)) {
        this.#debug(`${client} speaks neither HTTP/1.1 nor HTTP/2${hint(head[0])}`);
        socket.destroy();
        return;
      }
      socket.unshift(head);
      if (beginning === "PRI") {
        turns.release();
        return this.#http2(socket, client);
      }
      // A request over a file system's socket cannot be told from others by its address.
      if (socket.remoteAddress === undefined) this.#silent.get(client)?.();
      this.#turns.set(socket, turns);
      this.#http1(socket, client);
    });
  }

  #http1(socket: Socket, client: string): void {
    const guest = this.#guestOf.get(client);
    if (guest) this.#guestOf.set(socket, guest);
    socket.once("close", () => {
      this.#guestOf.delete(socket);
      this.#wake(socket);
    });
    this.#http.emit("connection", socket);
  }

  /** Cuts a connection of HTTP/1.1 off after `ms`, unless the returned function is called. */
  #cutAfter(ms: number, socket: Socket, why: string): () => void {
    return this.serving.clock.after(ms, () => {
      this.#debug(`${endpoint(socket)} ${why} for ${ms / 1000} s and is cut off`);
      socket.destroy();
    });
  }

  /** A request is here. */
  #wake(socket: Socket): void {
    this.#resting.get(socket)?.();
    this.#resting.delete(socket);
  }

  /** The last request is answered: the next one has not for ever to come. */
  #rest(socket: Socket): void {
    const guest = this.#guestOf.get(socket);
    if (!guest || --guest.requests > 0) return;
    guest.usedMs = this.serving.clock.monotonicMs();
    this.#wake(socket);
    this.#resting.set(socket, this.#cutAfter(HTTP_IDLE_MS, socket, "made no whole request"));
  }

  #http2(socket: Socket, client: string): void {
    const allowance = this.#allowance.connection();
    const others = (stream: Stream, fields: Fields, peer: Peer) =>
      this.#webStream(stream, fields, peer, allowance);
    const connection: Connection = new Connection(socket, {
      role: "server",
      clock: this.serving.clock,
      accept: acceptGrpc(this.serving.table, peerOf(socket), allowance, others),
      unread: allowance.unread,
      ready: () => this.#silent.get(client)?.(),
      closed: (error) => {
        this.#connections.delete(connection);
        this.#debug(`connection of ${client} ended: ${error.message}`);
        this.#changed();
      },
    });
    this.#connections.add(connection);
    const guest = this.#guestOf.get(client);
    if (guest) {
      guest.isIdle = () => {
        const { idleSinceMs } = connection;
        guest.usedMs = idleSinceMs ?? guest.usedMs;
        return idleSinceMs !== undefined;
      };
      // It is told, and then its file is needed: nobody waits until it has read that.
      guest.leave = () => {
        socket.once("finish", () => void socket.destroy());
        connection.drain();
      };
    }
    if (this.#closing) connection.drain();
  }

  // The web over either HTTP.

  #webStream(stream: Stream, fields: Fields, peer: Peer, allowance: Allowance): StreamListener {
    const pseudo = new Map(fields);
    const request: WebRequest = {
      method: pseudo.get(":method") ?? "",
      target: pseudo.get(":path") ?? "",
      fields,
      peer,
      allowance,
      taken: (bytes) => stream.credit(bytes),
    };
    const body = this.#web.open(request, {
      start: (status, answer) => stream.headers([[":status", String(status)], ...answer], false),
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

  #request(message: IncomingMessage, response: ServerResponse): void {
    this.#silent.get(endpoint(message.socket))?.();
    this.#turns.get(message.socket)?.requested();
    this.#open.add(response);
    const { socket } = message;
    const guest = this.#guestOf.get(socket);
    if (guest) guest.requests++;
    this.#wake(socket);
    const watch = this.#watchBody(message);
    const stall = () => this.#cutAfter(UNREAD_MS, socket, "read nothing of its answer");
    let unread = 0;
    const request: WebRequest = {
      method: message.method ?? "",
      target: message.url ?? "",
      fields: pairs(message.rawHeaders),
      peer: { ...peerOf(message.socket), origin: originOf(this.#scheme, message.headers.host) },
      allowance: this.#allowances.getOrInsertComputed(message.socket, () => this.#allowance.connection()),
      taken(bytes) {
        unread -= bytes;
        if (unread <= BODY_BYTES) message.resume();
      },
    };
    const body = this.#web.open(
      request,
      new HttpResponse(response, () => this.#closing !== undefined, stall),
    );
    message.on("data", (bytes: Uint8Array) => {
      unread += bytes.length;
      watch.arrived(bytes.length);
      if (unread > BODY_BYTES) message.pause();
      body.data(bytes);
    });
    message.on("end", () => body.ended());
    message.on(
      "error",
      (error) => this.#debug(`request of ${message.socket.remoteAddress}: ${error.message}`),
    );
    response.on(
      "error",
      (error) => this.#debug(`answer to ${message.socket.remoteAddress}: ${error.message}`),
    );
    this.#whenOver(message, response, body, watch.stop);
  }

  /** Cuts off a client whose request comes too slowly; `arrived` hears of what comes. */
  #watchBody(message: IncomingMessage) {
    const { socket } = message;
    let missing = PROGRESS_BYTES;
    let stop = () => {};
    const begin = () => {
      missing = PROGRESS_BYTES;
      stop();
      stop = this.serving.clock.after(PROGRESS_MS, () => {
        // A request that waits for its reader is not slow itself.
        if (message.isPaused()) return begin();
        this.#debug(`${endpoint(socket)} sends its request too slowly and is cut off`);
        socket.destroy();
      });
    };
    begin();
    message.once("end", () => stop());
    return {
      arrived: (bytes: number) => {
        missing -= bytes;
        if (missing <= 0) begin();
      },
      stop: () => stop(),
    };
  }

  #whenOver(message: IncomingMessage, response: ServerResponse, body: WebBody, stop: () => void): void {
    const over = () => {
      stop();
      if (!response.writableFinished) {
        body.gone(new SvcError("canceled", `${message.url} was canceled: the client went away`));
      }
      if (!this.#open.delete(response)) return;
      this.#rest(message.socket);
      this.#changed();
    };
    response.on("finish", over);
    response.on("close", over);
    message.socket.on("close", over);
    response.on("finish", () => message.socket.removeListener("close", over));
  }
}

/** The whole answer to what the parser of HTTP/1.1 does not understand. */
function notHttp(error: Error): string {
  const tooLarge = (error as { code?: string }).code === "HPE_HEADER_OVERFLOW";
  return tooLarge
    ? refusal("431 Request Header Fields Too Large", "the request has more header fields than are taken\n")
    : refusal("400 Bad Request", "this is not a request of HTTP/1.1\n");
}

function refusal(status: string, line: string): string {
  const head = `HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\ncontent-length: ${line.length}\r\n`;
  return `${head}connection: close\r\n\r\n${line}`;
}

const NOT_TLS = refusal("400 Bad Request", "this port speaks TLS: use https:// in place of http://\n");
/** The first byte of a client's TLS. */
const TLS_HANDSHAKE = 0x16;

class HttpResponse implements WebResponse {
  /** `stall` cuts the client off in a while; the function that it returns calls that off. */
  constructor(
    private readonly response: ServerResponse,
    private readonly closing: () => boolean,
    private readonly stall: () => () => void,
  ) {}

  start(status: number, fields: Fields): void {
    if (this.response.headersSent || this.response.destroyed) return;
    for (const [name, value] of fields) this.response.appendHeader(name, value);
    if (this.closing()) this.response.setHeader("connection", "close");
    this.response.writeHead(status);
  }

  send(bytes: Uint8Array): Promise<void> | undefined {
    const { response } = this;
    if (response.destroyed || response.writableEnded || response.write(bytes)) return undefined;
    return new Promise((resolve) => {
      const read = this.stall();
      const go = () => {
        read();
        response.removeListener("drain", go).removeListener("close", go);
        resolve();
      };
      response.on("drain", go).on("close", go);
    });
  }

  end(): void {
    if (!this.response.destroyed) this.response.end();
  }

  abort(): void {
    this.response.destroy();
  }
}

function originOf(scheme: string, host: string | undefined): string | undefined {
  return host === undefined ? undefined : `${scheme}://${host}`;
}

function pairs(raw: readonly string[]): [string, string][] {
  const fields: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) fields.push([raw[i].toLowerCase(), raw[i + 1]]);
  return fields;
}

function peerOf(socket: Socket): Peer {
  const { remoteAddress, localAddress } = socket;
  return { kind: "grpc", remoteAddress, localAddress, certificateNames: certificateNames(socket) };
}

/** The DNS names in the certificate that a client has shown and that was verified. */
function certificateNames(socket: Socket): readonly string[] | undefined {
  const { authorized, getPeerCertificate } = socket as Partial<TLSSocket>;
  if (authorized !== true || !getPeerCertificate) return undefined;
  const names = getPeerCertificate.call(socket as TLSSocket).subjectaltname ?? "";
  return names.split(", ").flatMap((name) => name.startsWith("DNS:") ? [name.slice("DNS:".length)] : []);
}

/** What tells one client from the others; sockets of the file system have only a number. */
function endpoint(socket: Socket, number?: number): string {
  const { remoteAddress, remotePort } = socket;
  return remoteAddress === undefined ? `local client ${number}` : `${bracketed(remoteAddress)}:${remotePort}`;
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function hint(first: number): string {
  return first === TLS_HANDSHAKE ? ": it looks like TLS, which is off here" : "";
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
    EACCES: ["permission_denied", "the system does not allow it; ports below 1024 take a privileged user"],
    ENOTFOUND: ["invalid_argument", "the name of the host is not known"],
    ENOENT: ["not_found", "its folder does not exist"],
  };
  const [kind, advice] = known[code ?? ""] ?? ["unavailable", messageOf(cause)];
  return new SvcError(kind, `cannot listen on ${address}: ${advice}`, { cause });
}

/** Certificate and key after all that can be wrong with them has been looked for. */
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
