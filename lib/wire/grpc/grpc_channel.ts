/**
 * gRPC over HTTP/2: channels to other servers. `client` makes calls; one call is in `call.ts`, the server side in
 * `server.ts`.
 *
 * Owns the connections of a channel and the calls that wait for one. At the server's limit of concurrent calls further
 * calls wait, in order, and none fails; when the server closes a connection, waiting calls move to the next one.
 */

import { connect as connectNet, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { withoutZone, zoneOf } from "../../base/address/link_local.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { LinkedList } from "../../base/collections/linked_list.ts";
import { clockHint } from "../../base/log/clock_hint.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { LoopbackEnds } from "../../base/host.ts";
import type { CallOptions, Channel } from "../rpc/channel.ts";
import { holdBelowTls } from "../flow/round_robin.ts";
import { loopbackEnds } from "../flow/loopback.ts";
import { connectTcp, type TcpSocket } from "../flow/tcp.ts";
import { type CallLink, ClientCall, type StreamQueue } from "./call.ts";
import { fieldsOf, formatTimeout, GRPC_CONTENT_TYPE } from "../rpc/message.ts";
import { KeepAlive, PING_ANSWER_MS } from "./keep_alive.ts";
import { Connection, WITHOUT_HTTP2 } from "../http2/connection.ts";
import type { HeaderFields, Metadata } from "../rpc/metadata.ts";
import type { DescMethod } from "../rpc/proto.ts";
import { pathOf } from "../rpc/service.ts";
import { processEnv } from "../../base/native/environment.ts";
import { connectThrough, proxyOf } from "./proxy.ts";

/** Time limit for a server to accept a connection, and then to speak HTTP/2 on it. */
const DIAL_TIMEOUT_MS = 20_000;
/** Limit of calls that wait for a stream. */
const MAX_WAITING = 10_000;
/** Limit of a channel's connections, nearly all of them closing. */
const MAX_CONNECTIONS = 16;

export interface GrpcOptions {
  readonly clock: Clock;
  /** Uses TLS: checks the server's name against the system's roots or `ca` (PEM). */
  readonly tls?: {
    readonly ca?: string;
    /** Authorities (PEM) to trust besides the system's roots; asked for when the roots do not suffice. */
    readonly alsoTrusted?: () => string | undefined;
    readonly insecureSkipVerify?: boolean;
    readonly serverName?: string;
    /**
     * If given, a server that answers the TLS hello in clear text is called without TLS, and this function is called.
     * Leave it out if secrets travel.
     */
    readonly downgraded?: () => void;
  };
  /** Uses the proxy that the environment names for this address, if any (`proxy.ts`). */
  readonly proxied?: boolean;
  /** Sent with every call. */
  readonly header?: Metadata;
  /**
   * Pings a server that is silent for this long or leaves a call without an answer, and drops the connection if no answer
   * comes.
   */
  readonly keepaliveMs?: number;
  /**
   * Decides, before anything is sent, whether the server on the loopback interface is the right one: throws to refuse.
   * Not for TLS.
   */
  readonly admit?: (ends: LoopbackEnds) => Promise<void>;
  /** Called when a connection has ended, on either side. */
  readonly lost?: () => void;
}

/**
 * A channel to `host:port` (by default 443 with TLS, 80 without) or `unix:/path`. It connects at the first call and
 * again at the next call after a loss; a call that finds no server, or loses it, fails with `unavailable`. A call that
 * the server has not processed is retried a few times.
 */
export function connectGrpc(address: string, options: GrpcOptions): Channel {
  return new GrpcChannel(address, options);
}

/** A connection, and whether the server has answered a call on it. */
interface Link {
  readonly connection: Connection;
  readonly scheme: Scheme;
  readonly keepAlive: KeepAlive | undefined;
  answered: boolean;
}

type Scheme = "http" | "https";

class GrpcChannel implements Channel, StreamQueue {
  #link: Link | undefined;
  #dialing = false;
  /** All open connections, closing ones included; oldest first. */
  readonly #connections = new Set<Connection>();
  /** Calls that wait for a stream; retries go first. */
  readonly #again = new Set<ClientCall>();
  readonly #waiting = new Set<ClientCall>();
  readonly #calls = new LinkedList<ClientCall>();
  readonly #closed = new AbortController();

  constructor(private readonly address: string, private readonly options: GrpcOptions) {}

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    this.#closed.signal.throwIfAborted();
    const call = new ClientCall(pathOf(method), options, this.options.clock, this);
    const place = this.#calls.add(call);

    const outgoing = requests[Symbol.asyncIterator]();
    try {
      const single = method.methodKind === "unary" || method.methodKind === "server_streaming";
      // With a single request, waits for it first, so that the whole call goes out in one write.
      if (single) call.sendOnly(await race(outgoing.next(), call.signal));
      call.signal.throwIfAborted();
      this.enter(call);
      if (!single) call.sendAll(outgoing);
      yield* call.answers;
    } finally {
      call.finish();
      this.#calls.delete(place);
      void outgoing.return?.()?.catch(() => {});
    }
  }

  close(error = new SvcError("canceled", `the channel to ${this.address} was closed`)): void {
    this.#closed.abort(error);
    for (const call of this.#calls.values()) call.cancel(error);
    for (const connection of [...this.#connections]) connection.destroy(error);
  }

  enter(call: ClientCall): void {
    this.#leaveEnded();
    if (this.#again.size + this.#waiting.size === 0 && this.#begin(call)) return;
    if (call.tries === 0 && this.#waiting.size >= MAX_WAITING) {
      const problem = `${call.path} cannot wait for ${this.address}: ${MAX_WAITING} calls wait already`;
      throw new SvcError("resource_exhausted", problem);
    }
    (call.tries === 0 ? this.#waiting : this.#again).add(call);
    this.#advance();
  }

  lack(): string {
    return this.#dialing ? `${this.address} has not answered yet` : "no connection has room for it";
  }

  leave(call: ClientCall): void {
    this.#again.delete(call);
    this.#waiting.delete(call);
  }

  /** Begins waiting calls in order, as far as there is room; connects if there is no connection. */
  #advance(): void {
    this.#leaveEnded();
    while (this.#again.size + this.#waiting.size > 0) {
      const [call] = this.#again.size > 0 ? this.#again : this.#waiting;
      if (!this.#link?.connection.open) return this.#connect();
      if (!call || !this.#begin(call)) return;
    }
  }

  /** Begins a call if a connection has room for it. */
  #begin(call: ClientCall): boolean {
    const link = this.#link;
    if (!link?.connection.open || !link.connection.hasRoom) return false;
    this.leave(call);
    call.begin(link.connection, this.#fields(call, link.scheme), callLinkOf(link));
    return true;
  }

  /** Advances after all streams have processed the server's frame. */
  #advanceSoon(): void {
    if (this.#again.size + this.#waiting.size > 0) queueMicrotask(() => this.#advance());
  }

  /**
   * Drops a connection that takes no more calls. If the server has answered no call on it, each waiting call counts a
   * failed try, so that no call redials forever a server that hangs up at once.
   */
  #leaveEnded(): void {
    const link = this.#link;
    if (!link || link.connection.open) return;
    this.#link = undefined;
    link.connection.drain();
    if (link.answered) return;
    this.#takeWaiting().forEach((call) =>
      call.tryAgain(new SvcError("unavailable", `${this.address} ended the connection before it answered`))
    );
  }

  #takeWaiting(): ClientCall[] {
    const calls = [...this.#again, ...this.#waiting];
    this.#again.clear();
    this.#waiting.clear();
    return calls;
  }

  #connect(): void {
    if (this.#dialing) return;
    this.#dialing = true;
    dial(this.address, this.options, this.#closed.signal).then(({ socket, scheme }) => {
      this.#dialing = false;
      if (this.#closed.signal.aborted) return void socket.destroy();
      this.#link = this.#linkOver(socket, scheme);
      this.#advance();
    }, (error) => {
      this.#dialing = false;
      for (const call of this.#takeWaiting()) call.fail(SvcError.from(error));
    });
  }

  #linkOver(socket: Duplex, scheme: Scheme): Link {
    const silent = this.options.clock.after(DIAL_TIMEOUT_MS, () => {
      const problem = `${this.address} did not answer in HTTP/2 within ${DIAL_TIMEOUT_MS / 1000} s`;
      connection.destroy(new SvcError("unavailable", problem));
    });
    const connection: Connection = new Connection(socket, {
      role: "client",
      clock: this.options.clock,
      ready: silent,
      changed: () => this.#advanceSoon(),
      closed: () => {
        this.#advanceSoon();
        silent();
        keepAlive?.stop();
        this.#connections.delete(connection);
        this.options.lost?.();
      },
    });
    const keepAlive = this.#keepAlive(connection);
    this.#connections.add(connection);

    const [oldest] = this.#connections;
    if (oldest && this.#connections.size > MAX_CONNECTIONS) {
      oldest.destroy(
        new SvcError("unavailable", `${this.address} left ${MAX_CONNECTIONS} connections to end`),
      );
    }

    return { connection, scheme, keepAlive, answered: false };
  }

  #fields(call: ClientCall, scheme: Scheme): HeaderFields {
    const fields: [string, string][] = [
      [":method", "POST"],
      [":scheme", scheme],
      [":path", call.path],
      [":authority", authorityOf(this.address)],
      ["te", "trailers"],
      ["content-type", GRPC_CONTENT_TYPE],
      ["user-agent", "svc"],
    ];
    if (call.remainingMs !== undefined) fields.push(["grpc-timeout", formatTimeout(call.remainingMs)]);
    if (this.options.header) fields.push(...fieldsOf(this.options.header));
    if (call.options.header) fields.push(...fieldsOf(call.options.header));
    return fields;
  }

  #keepAlive(connection: Connection): KeepAlive | undefined {
    const { clock, keepaliveMs } = this.options;
    if (keepaliveMs === undefined) return undefined;

    const problem = `${this.address} did not answer a ping within ${PING_ANSWER_MS / 1000} s`;
    return new KeepAlive(
      connection,
      clock,
      keepaliveMs,
      () => connection.destroy(new SvcError("unavailable", problem)),
    );
  }
}

/** What a call that begins now tells of its connection. */
function callLinkOf(link: Link): CallLink {
  const { framesReceived } = link.connection;
  return {
    noteAnswer: () => void (link.answered = true),
    noteSilence: () => link.keepAlive?.doubt(framesReceived),
  };
}

/** Error texts of a TLS handshake with a server that hangs up, or answers in the clear. */
const NOT_TLS = /before secure TLS|corrupt message|wrong version|packet length|ECONNRESET|reset by peer/i;
/** The hint in the error for this case. */
export const WITHOUT_TLS = "does it serve without TLS?";

/** What a path does on which large packets vanish, such as a handshake's certificates. */
const SMALL_PACKETS_ONLY = "does not answer in TLS (does the network drop large packets?)";

/** The error of a handshake with a server or a proxy that has HTTP/1.1 alone. */
const NO_HTTP2 = /no_?application_?protocol/i;

/** The error of a handshake whose first answer is not a TLS record. Silence and a reset are not answers. */
const IN_THE_CLEAR = /InvalidContentType|wrong version number/i;

/** The error of a handshake with a certificate of an unknown authority. */
const NOT_TRUSTED = /self-signed certificate|unable to (verify|get)|UnknownIssuer/i;

/** A connected socket, after the TLS handshake if there is one. */
async function dial(
  address: string,
  options: GrpcOptions,
  signal: AbortSignal,
): Promise<{ socket: Duplex; scheme: Scheme }> {
  const { tls } = options;
  const target = parseAddress(address, tls !== undefined);
  try {
    const socket = await connectTo(target, address, options, signal);
    return { socket, scheme: tls ? "https" : "http" };
  } catch (error) {
    const ca = NOT_TRUSTED.test(messageOf(error)) ? tls?.alsoTrusted?.() : undefined;
    if (ca !== undefined) {
      return {
        socket: await connectTo(target, address, { ...options, tls: { ...tls, ca } }, signal),
        scheme: "https",
      };
    }
    if (!tls?.downgraded || !IN_THE_CLEAR.test(messageOf(error))) throw error;
    const socket = await connectTo(target, address, { ...options, tls: undefined }, signal);
    tls.downgraded();
    return { socket, scheme: "http" };
  }
}

async function connectTo(
  target: Target,
  address: string,
  { tls, clock, admit, proxied }: GrpcOptions,
  signal: AbortSignal,
): Promise<Duplex> {
  signal.throwIfAborted();
  const tunnel = proxied ? await tunnelTo(target, address, tls !== undefined, clock, signal) : undefined;
  if (tunnel && !tls) {
    tunnel.setNoDelay(true);
    return tunnel;
  }

  const limits = { address, secure: tls !== undefined, clock, signal };
  const isZoned = tls !== undefined && zoneOf(target.host ?? "") !== undefined;
  const below = isZoned ? await opened(socketTo(target), { ...limits, secure: false }) : tunnel;
  const socket = await opened(tls ? secureSocketTo(target, tls, below) : socketTo(target), limits);
  try {
    // The caller has closed the channel meanwhile, and will not use this socket.
    signal.throwIfAborted();
    if (tls) holdBelowTls(socket);
    else socket.setNoDelay(true);
    await admit?.(loopbackEnds(socket, "client"));
    signal.throwIfAborted();
    return socket;
  } catch (error) {
    abandon(socket);
    throw error;
  }
}

interface DialLimits {
  readonly address: string;
  readonly secure: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A socket that begins to connect. */
function socketTo({ host = "", port = 0, path }: Target): TcpSocket {
  return path === undefined ? connectTcp(host, port) : connectNet({ path });
}

/** The same, with a TLS handshake; over a connection that is there already, if there is one. */
function secureSocketTo(
  { host = "", port = 0, path }: Target,
  { ca, insecureSkipVerify, serverName }: NonNullable<GrpcOptions["tls"]>,
  below: TcpSocket | undefined,
): TcpSocket {
  const own = path === undefined ? { host: withoutZone(host), port } : { path };
  const wanted = serverName ?? own.host;
  return connectTls({
    ...own,
    ...below ? { socket: below as Socket } : {},
    ALPNProtocols: ["h2"],
    ca,
    rejectUnauthorized: !insecureSkipVerify,
    // TLS names no address, but the certificate is checked for it.
    servername: wanted !== undefined && isIP(wanted) === 0 ? wanted : undefined,
  });
}

/** The socket when it is connected, after the TLS handshake if it is a secure one. */
async function opened<S extends TcpSocket>(
  socket: S,
  { address, secure, clock, signal }: DialLimits,
): Promise<S> {
  const failed = (reason: string, cause?: unknown) =>
    new SvcError("unavailable", `cannot connect to ${address}: ${reason}`, { cause });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let accepted = false;
  if (secure) socket.once("connect", () => accepted = true);
  const cancel = clock.after(DIAL_TIMEOUT_MS, () => {
    const what = accepted ? `it accepts connections, but ${SMALL_PACKETS_ONLY}` : "no answer";
    reject(failed(`${what} for ${DIAL_TIMEOUT_MS / 1000} s`));
  });
  const onError = (error: Error) => {
    const message = messageOf(error);
    reject(failed(secure ? handshakeReason(message) + clockHint(message, clock.nowMs()) : message, error));
  };

  const onAbort = () => reject(signal.reason);
  const onClose = () => reject(failed(`the connection was closed${secure ? ` (${WITHOUT_TLS})` : ""}`));
  signal.addEventListener("abort", onAbort, { once: true });
  socket.once(secure ? "secureConnect" : "connect", resolve).once("error", onError).once("close", onClose);

  try {
    await promise;
    return socket;
  } catch (error) {
    abandon(socket);
    throw error;
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
    socket.removeListener("error", onError);
    socket.removeListener("close", onClose);
  }
}

function abandon(socket: TcpSocket): void {
  // The closing socket may still report an error, which nobody needs.
  socket.on("error", () => {});
  socket.destroy();
}

/** What the error of a TLS handshake means. */
function handshakeReason(message: string): string {
  if (NO_HTTP2.test(message)) return WITHOUT_HTTP2;
  return NOT_TLS.test(message) ? `${message} (${WITHOUT_TLS})` : message;
}

/** A connection through the environment's proxy; `undefined` if it names none for this address. */
async function tunnelTo(
  { host, port }: Target,
  address: string,
  secure: boolean,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket | undefined> {
  const target = host === undefined || port === undefined ? undefined : { host, port };
  const proxy = target && proxyOf(target, secure, processEnv);
  if (!proxy) return undefined;

  const late = () =>
    new SvcError(
      "unavailable",
      `the proxy ${proxy.host}:${proxy.port} of ${proxy.variable} gives no answer for ${
        DIAL_TIMEOUT_MS / 1000
      } s`,
    );
  const limit = deadline(clock, DIAL_TIMEOUT_MS, late, signal);
  try {
    return await connectThrough(proxy, target, limit.signal, clock);
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    // A proxy does not speak for the server: its answer must not change credentials or settings.
    throw new SvcError("unavailable", `cannot connect to ${address} through a proxy`, { cause });
  } finally {
    limit.done();
  }
}

/** The server's name in requests: without an interface of this computer (RFC 6874). */
function authorityOf(address: string): string {
  return address.startsWith("unix:") ? "localhost" : address.replace(/%[^\]]*(?=\])/, "");
}

interface Target {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
}

/** Exported for its tests. */
export function parseAddress(address: string, secure: boolean): Target {
  if (address.startsWith("unix:")) return { path: address.slice("unix:".length).replace(/^\/\/(?=\/)/, "") };
  const match = /^(?:\[([^\]/\s]+)\]|([^:[\]/\s]+))(?::(\d{1,5}))?$/.exec(address);
  const port = Number(match?.[3] ?? (secure ? 443 : 80));
  if (!match || port > 65_535) {
    throw new SvcError("invalid_argument", `"${address}" is no address, wanted host:port or unix:/path`);
  }
  return { host: match[1] ?? match[2], port };
}
