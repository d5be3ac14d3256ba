/**
 * gRPC over HTTP/2: channels to other servers. Calls come from a `client`; the server's side is `grpc_server.ts`.
 *
 * Owns the connection of a channel, and how a call and its end look on a stream.
 */

import { connect as connectNet } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { type Clock, race } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import type { CallOptions, Channel } from "./channel.ts";
import {
  checkSize,
  decodeStatusText,
  fieldsOf,
  formatTimeout,
  framed,
  GRPC_CONTENT_TYPE,
  isGrpc,
  MessageReader,
  metadataOf,
} from "./grpc_message.ts";
import type { Fields } from "./hpack.ts";
import { Connection } from "./http2.ts";
import { H2 } from "./http2_frame.ts";
import type { Stream, StreamListener } from "./http2_stream.ts";
import type { Metadata } from "./metadata.ts";
import type { DescMethod } from "./proto.ts";
import { pathOf } from "./service.ts";

const DIAL_TIMEOUT_MS = 20_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

export interface GrpcOptions {
  readonly clock: Clock;
  /** With it the connection is TLS: the server's name is checked against the system's roots or `ca` (PEM). */
  readonly tls?: {
    readonly ca?: string;
    readonly insecureSkipVerify?: boolean;
    readonly serverName?: string;
  };
  /** Sent with every call. */
  readonly header?: Metadata;
  /** Pings the server this often, and gives up the connection when it does not answer. */
  readonly keepaliveMs?: number;
  /** Hears of every end of a connection, whoever ended it. */
  readonly lost?: () => void;
}

/**
 * A channel to `host:port` (443 with TLS, 80 without, where left out) or `unix:/path`. It connects at the first call
 * and again at the next call after a loss; a call that finds no server, or loses it, fails with `unavailable`.
 */
export function connectGrpc(address: string, options: GrpcOptions): Channel {
  return new GrpcChannel(address, options);
}

class GrpcChannel implements Channel {
  #connection: Connection | undefined;
  #connecting: Promise<Connection> | undefined;
  readonly #closed = new AbortController();

  constructor(private readonly address: string, private readonly options: GrpcOptions) {}

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    const call = new ClientCall(pathOf(method), options, this.options.clock, this.#closed.signal);
    const outgoing = requests[Symbol.asyncIterator]();
    try {
      const single = method.methodKind === "unary" || method.methodKind === "server_streaming";
      // A lone request is fetched first, so that all of the call leaves in one write.
      const first = single ? await race(outgoing.next(), call.signal) : undefined;
      const connection = await race(this.#connect(), call.signal);
      if (!connection.hasRoom) await race(connection.room(), call.signal);
      call.start(connection.request(this.#fields(call, options), false, call));
      call.sendAll(outgoing, first);
      yield* call.answers;
    } finally {
      call.finish();
      void outgoing.return?.()?.catch(() => {});
    }
  }

  close(): void {
    const error = new SvcError("canceled", `the channel to ${this.address} was closed`);
    this.#closed.abort(error);
    this.#connection?.destroy(error);
  }

  #fields(call: ClientCall, options: CallOptions): Fields {
    const fields: [string, string][] = [
      [":method", "POST"],
      [":scheme", this.options.tls ? "https" : "http"],
      [":path", call.path],
      [":authority", this.address.startsWith("unix:") ? "localhost" : this.address],
      ["te", "trailers"],
      ["content-type", GRPC_CONTENT_TYPE],
      ["user-agent", "svc"],
    ];
    if (call.remainingMs !== undefined) fields.push(["grpc-timeout", formatTimeout(call.remainingMs)]);
    if (this.options.header) fields.push(...fieldsOf(this.options.header));
    if (options.header) fields.push(...fieldsOf(options.header));
    return fields;
  }

  #connect(): Promise<Connection> {
    if (this.#connection?.open) return Promise.resolve(this.#connection);
    this.#connecting ??= this.#dial().finally(() => this.#connecting = undefined);
    return this.#connecting;
  }

  async #dial(): Promise<Connection> {
    const socket = await dial(this.address, this.options, this.#closed.signal);
    let stop = () => {};
    const closed = () => {
      stop();
      this.options.lost?.();
    };
    const connection = new Connection(socket, { role: "client", closed });
    stop = this.#keepAlive(connection);
    this.#connection = connection;
    return connection;
  }

  #keepAlive(connection: Connection): () => void {
    const { clock, keepaliveMs } = this.options;
    if (keepaliveMs === undefined) return () => {};
    let cancel = () => {};
    const rest = () => {
      cancel();
      cancel = clock.after(keepaliveMs, probe);
    };
    const probe = () => {
      cancel = clock.after(KEEPALIVE_TIMEOUT_MS, () => {
        const problem = `${this.address} did not answer a ping within ${KEEPALIVE_TIMEOUT_MS / 1000} s`;
        connection.destroy(new SvcError("unavailable", problem));
      });
      void connection.ping().then(rest);
    };
    rest();
    return () => cancel();
  }
}

/** One call of a client's: listens to its stream, and ends at the status, the deadline or the caller's wish. */
class ClientCall implements StreamListener {
  readonly answers: MessageReader;
  readonly signal: AbortSignal;
  readonly #over = new AbortController();
  readonly #deadlineMs: number | undefined;
  readonly #release: (() => void)[] = [];
  #stream: Stream | undefined;
  #opened = false;
  /** Whether the status has come. */
  #answered = false;
  #finished = false;

  constructor(
    readonly path: string,
    private readonly options: CallOptions,
    private readonly clock: Clock,
    channelClosed: AbortSignal,
  ) {
    this.signal = this.#over.signal;
    this.answers = new MessageReader({ taken: (bytes) => this.#stream?.credit(bytes) });
    const { timeoutMs, signal } = options;
    if (timeoutMs !== undefined) {
      this.#deadlineMs = clock.monotonicMs() + timeoutMs;
      this.#release.push(clock.after(timeoutMs, () => {
        this.#cancel(new SvcError("deadline_exceeded", `${path} did not end within ${timeoutMs} ms`));
      }));
    }
    for (const source of [signal, channelClosed]) if (source) this.#follow(source);
  }

  get remainingMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - this.clock.monotonicMs();
  }

  start(stream: Stream): void {
    this.#stream = stream;
  }

  /** Sends `first`, if there is one, or else all that comes. */
  sendAll(outgoing: AsyncIterator<Uint8Array>, first?: IteratorResult<Uint8Array>): void {
    const stream = this.#stream!;
    try {
      if (first) {
        if (!first.done) this.#send(first.value);
        stream.end();
        return;
      }
    } catch (error) {
      return this.#cancel(SvcError.from(error));
    }
    void (async () => {
      for (let next; !(next = await outgoing.next()).done && !this.#finished;) await this.#send(next.value);
      stream.end();
    })().catch((error) => this.#cancel(SvcError.from(error)));
  }

  #send(message: Uint8Array): Promise<void> | undefined {
    checkSize(message, this.path);
    return this.#stream!.send(framed(message));
  }

  /** Lets go of everything; a stream that is still open is canceled. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    for (const release of this.#release) release();
    if (this.#stream?.closed === false) {
      this.#stream.reset(H2.cancel, new SvcError("canceled", `${this.path} was given up`));
    }
  }

  headers(fields: Fields, ended: boolean): void {
    const values = new Map(fields);
    if (!this.#opened && values.get(":status")?.startsWith("1")) return;
    if (!this.#opened && !ended) {
      this.#opened = true;
      const problem = notGrpc(values);
      if (problem) return this.answers.abort(problem);
      this.options.onHeader?.(metadataOf(fields));
      return;
    }
    this.#answered = true;
    const status = values.get("grpc-status");
    if (status === undefined) {
      const missing = new SvcError("unknown", `${this.path} ended without a status`);
      return this.answers.end((this.#opened ? undefined : notGrpc(values)) ?? missing);
    }
    this.options.onTrailer?.(metadataOf(fields));
    if (status === "0") return this.answers.end();
    const message = decodeStatusText(values.get("grpc-message") ?? "");
    this.answers.end(SvcError.fromStatus(Number(status), message));
  }

  data(bytes: Uint8Array): void {
    this.answers.push(bytes);
  }

  ended(): void {}

  closed(error: SvcError | undefined): void {
    if (this.#answered) return;
    this.answers.end(error ?? new SvcError("internal", `${this.path} ended without a status`));
  }

  #follow(source: AbortSignal): void {
    const follow = () => this.#cancel(aborted(source, this.path));
    if (source.aborted) return follow();
    source.addEventListener("abort", follow, { once: true });
    this.#release.push(() => source.removeEventListener("abort", follow));
  }

  #cancel(error: SvcError): void {
    this.#over.abort(error);
    this.answers.abort(error);
    this.#stream?.reset(H2.cancel, error);
  }
}

function aborted(signal: AbortSignal, path: string): SvcError {
  if (signal.reason instanceof SvcError) return signal.reason;
  return new SvcError("canceled", `${path} was canceled: ${messageOf(signal.reason)}`, {
    cause: signal.reason,
  });
}

/** What an answer without gRPC in it means (source: gRPC's table of HTTP statuses). */
function notGrpc(values: Map<string, string>): SvcError | undefined {
  const status = values.get(":status") ?? "";
  const type = values.get("content-type") ?? "";
  if (status === "200" && isGrpc(type)) return undefined;
  const codes: Record<string, ConstructorParameters<typeof SvcError>[0]> = {
    400: "internal",
    401: "unauthenticated",
    403: "permission_denied",
    404: "unimplemented",
    429: "unavailable",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
  };
  return new SvcError(
    codes[status] ?? "unknown",
    `the server answered HTTP ${status} "${type}", wanted gRPC`,
  );
}

/** How a handshake fails with a server that hangs up on it, or answers it in the clear. */
const NOT_TLS = /before secure TLS|corrupt message|wrong version|packet length|ECONNRESET|reset by peer/i;
/** Part of the error where it looks like that. */
export const WITHOUT_TLS = "does it serve without TLS?";

/** A connected socket, after the TLS handshake if there is one. */
async function dial(address: string, options: GrpcOptions, signal: AbortSignal): Promise<Duplex> {
  signal.throwIfAborted();
  const { tls, clock } = options;
  const target = parseAddress(address, tls !== undefined);
  const servername = tls?.serverName ?? (target.host && /[a-z]/i.test(target.host) ? target.host : undefined);
  const socket = tls
    ? connectTls({
      ...target,
      ALPNProtocols: ["h2"],
      ca: tls.ca,
      rejectUnauthorized: !tls.insecureSkipVerify,
      servername,
    })
    : connectNet(target as { host: string; port: number });
  const failed = (reason: string, cause?: unknown) =>
    new SvcError("unavailable", `cannot connect to ${address}: ${reason}`, { cause });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = clock.after(
    DIAL_TIMEOUT_MS,
    () => reject(failed(`no answer for ${DIAL_TIMEOUT_MS / 1000} s`)),
  );
  const onError = (error: Error) => {
    const message = messageOf(error);
    reject(failed(tls && NOT_TLS.test(message) ? `${message} (${WITHOUT_TLS})` : message, error));
  };
  const onAbort = () => reject(signal.reason);
  const onClose = () => reject(failed(`the connection was closed${tls ? ` (${WITHOUT_TLS})` : ""}`));
  signal.addEventListener("abort", onAbort, { once: true });
  socket.once(tls ? "secureConnect" : "connect", resolve).once("error", onError).once("close", onClose);
  try {
    await promise;
    // Whoever closed the channel just now will not come back for this socket.
    signal.throwIfAborted();
    if (!tls) socket.setNoDelay(true);
    return socket;
  } catch (error) {
    // Its end may still report an error, which nobody waits for any more.
    socket.on("error", () => {});
    socket.destroy();
    throw error;
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
    socket.removeListener("error", onError);
    socket.removeListener("close", onClose);
  }
}

/** Exported for its tests. */
export function parseAddress(
  address: string,
  secure: boolean,
): { host?: string; port?: number; path?: string } {
  if (address.startsWith("unix:")) return { path: address.slice("unix:".length).replace(/^\/\/(?=\/)/, "") };
  const match = /^(?:\[([^\]/\s]+)\]|([^:[\]/\s]+))(?::(\d{1,5}))?$/.exec(address);
  const port = Number(match?.[3] ?? (secure ? 443 : 80));
  if (!match || port > 65_535) {
    throw new SvcError("invalid_argument", `"${address}" is no address, wanted host:port or unix:/path`);
  }
  return { host: match[1] ?? match[2], port };
}
