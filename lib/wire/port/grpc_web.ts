/**
 * gRPC-web and the few plain HTTP answers of the port, blind to the version of HTTP that carries them.
 *
 * Owns the layout of gRPC-web (binary and text; trailers as the last frame of the body), what browsers ask
 * across origins, and which path and method gets which answer. Whoever has the exchange hands it over as a
 * `WebRequest` and a `WebResponse` and feeds the returned `WebBody`.
 */

import { Buffer } from "node:buffer";
import { messageOf, SvcError } from "../../base/error.ts";
import { Cancellation } from "../cancellation.ts";
import type { Allowance } from "./byte_budget.ts";
import { giveBackAll } from "../given_back.ts";
import {
  answerFieldsOf,
  checkSize,
  encodeStatusText,
  framed,
  metadataOf,
  parseTimeoutMs,
} from "../grpc/message.ts";
import { CallMark, type Guest } from "./guests.ts";
import type { Fields } from "../http2/hpack.ts";
import { admit, ByteQueue, MessageReader } from "../grpc/message_reader.ts";
import { Metadata } from "../metadata.ts";
import {
  canceledByCaller,
  type Peer,
  type RawCall,
  type RawSink,
  type ServiceTable,
  type Status,
} from "../service.ts";

const TRAILER_FRAME = 0x80;
const PREFLIGHT_SECONDS = 7200;

export interface WebRequest {
  readonly method: string;
  /** Path and query, as they came. */
  readonly target: string;
  readonly fields: Fields;
  readonly peer: Peer;
  /** Hears of bytes of the body that have been read. */
  taken(bytes: number): void;
  /** What its connection may use. */
  readonly allowance: Allowance;
  /** Hears of calls that begin, and of their ends. */
  readonly guest?: Pick<Guest, "began" | "ended">;
}

export interface WebResponse {
  /** How many more bytes may wait for the client. */
  readonly roomBytes?: number;
  start(status: number, fields: Fields): void;
  /** Sends a part of the body; a returned promise asks to wait. Throws `resource_exhausted` where too much waits. */
  send(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
  /** Breaks off, so that the client can tell that the body is not whole. */
  abort(): void;
}

/** Takes the body of a request as it comes. */
export interface WebBody {
  /** Bytes that are lent for the call: whoever keeps them copies them. */
  data(bytes: Uint8Array): void;
  ended(): void;
  /** The client went away before its answer was complete. */
  gone(error: SvcError): void;
}

/** A page of the port. */
export type Route = (request: RouteRequest) => RouteAnswer | Promise<RouteAnswer>;

export interface RouteRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly fields: Fields;
  readonly peer: Peer;
  /** What the client sends, to be read once; it waits for as long as nobody reads on. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}

export interface RouteAnswer {
  readonly status: number;
  readonly contentType: string;
  /** A stream is read as fast as the client takes it, and not at all for HEAD. */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** How long a stream is. */
  readonly bytes?: number;
  readonly fields?: Fields;
}

export interface HttpOptions {
  /** What `GET /restart_status` answers, as JSON, to callers on this machine. */
  readonly restartStatus?: () => unknown;
  /** Further pages by path, `/files/*` for all beneath a folder; each decides on its methods. */
  readonly routes?: ReadonlyMap<string, Route>;
}

/** Where everything goes that is not gRPC proper. */
export class WebServer {
  constructor(private readonly table: ServiceTable, private readonly options: HttpOptions) {}

  open(request: WebRequest, response: WebResponse): WebBody {
    const { method, target, fields } = request;
    const [path, query] = split(target);
    const type = field(fields, "content-type") ?? "";
    if (method === "OPTIONS") return preflight(fields, response);
    if (method === "POST" && isGrpcWeb(type)) return this.#call(path, type, request, response);
    const { peer } = request;
    const body = new RouteBody(request);
    const asked = {
      method,
      path,
      query: new URLSearchParams(query),
      fields,
      peer,
      body,
      signal: body.signal,
    };
    this.#answer(asked, type)
      .catch((error) => text(500, `cannot answer ${method} ${path}: ${messageOf(error)}`))
      .then((answer) => send(response, answer, asked))
      .finally(() => body.over());
    return body;
  }

  #call(path: string, type: string, request: WebRequest, response: WebResponse): WebBody {
    const call = new WebCall(path, type, request);
    void this.table.handle(call, new WebReply(response, path, type));
    return call;
  }

  async #answer(request: RouteRequest, type: string): Promise<RouteAnswer> {
    const { method, path, peer } = request;
    const route = this.#routeFor(path);
    if (route) return await route(request);
    const isPage = path === "/" || (path === "/restart_status" && this.options.restartStatus !== undefined);
    if (isPage && method !== "GET" && method !== "HEAD") {
      return text(405, `${path} answers GET, not ${method}`);
    }
    if (path === "/") {
      return text(200, "This is svc-server, a machine; reach it with a client library at this address.");
    }
    if (isPage) return await this.#restartStatus(peer);
    if (!/^\/[\w.]+\/\w+$/.test(path)) return text(404, `there is nothing at ${path}`);
    if (method !== "POST") {
      return text(405, `${path} looks like a gRPC method, which answers POST, not ${method}`);
    }
    if (type.startsWith("application/grpc")) {
      return text(415, "gRPC takes HTTP/2; over this connection use gRPC-web");
    }
    return text(415, `content type is "${type}", wanted application/grpc-web or application/grpc-web-text`);
  }

  #routeFor(path: string): Route | undefined {
    const { routes } = this.options;
    const exact = routes?.get(path);
    if (exact) return exact;
    for (let end = path.lastIndexOf("/"); end >= 0; end = end === 0 ? -1 : path.lastIndexOf("/", end - 1)) {
      const route = routes?.get(`${path.slice(0, end)}/*`);
      if (route) return route;
    }
    return undefined;
  }

  async #restartStatus(peer: Peer): Promise<RouteAnswer> {
    if (!isOnThisMachine(peer)) return text(403, "/restart_status answers only callers on the same machine");
    return {
      status: 200,
      contentType: "application/json",
      body: JSON.stringify(await this.options.restartStatus!()),
    };
  }
}

const IGNORED: WebBody = { data() {}, ended() {}, gone() {} };

function isGrpcWeb(type: string): boolean {
  return /^application\/grpc-web(?:-text)?(?:\+proto)?\s*(?:;|$)/i.test(type);
}

function isText(type: string): boolean {
  return /^application\/grpc-web-text/i.test(type);
}

function split(target: string): [path: string, query: string] {
  const at = target.indexOf("?");
  return at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
}

/** The first value of a header field; names are in lower case. */
export function field(fields: Fields, name: string): string | undefined {
  return fields.find(([key]) => key === name)?.[1];
}

function text(status: number, line: string): RouteAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${line}\n` };
}

async function send(response: WebResponse, answer: RouteAnswer, request: RouteRequest): Promise<void> {
  const { status, contentType, body, bytes, fields = [] } = answer;
  const whole = typeof body === "string" || body instanceof Uint8Array ? Buffer.from(body) : undefined;
  const length = whole?.length ?? bytes;
  response.start(status, [
    ["content-type", contentType],
    ...(length === undefined || status === 304
      ? []
      : [["content-length", String(length)] as [string, string]]),
    ["access-control-allow-origin", "*"],
    ["x-content-type-options", "nosniff"],
    ...fields,
  ]);
  try {
    if (request.method !== "HEAD") await sendBody(response, whole ?? body, request.signal);
    response.end();
  } catch {
    // The answer has begun: all that is left to say is that it is not complete.
    response.abort();
  }
}

async function sendBody(
  response: WebResponse,
  body: RouteAnswer["body"],
  signal: AbortSignal,
): Promise<void> {
  if (typeof body === "string" || body instanceof Uint8Array) {
    if (body.length > 0) response.send(Buffer.from(body));
    return;
  }
  for await (const chunk of body) {
    if (signal.aborted) return;
    await response.send(chunk);
  }
}

/** Lets pages of every origin call: who may do what is a matter of tokens, which browsers do not add by themselves. */
function preflight(fields: Fields, response: WebResponse): WebBody {
  const answer: [string, string][] = [
    ["access-control-allow-origin", "*"],
    ["access-control-allow-methods", "GET, POST, OPTIONS"],
    // A wildcard would leave out `authorization`, so what is asked for is repeated.
    ["access-control-allow-headers", field(fields, "access-control-request-headers") ?? "*"],
    ["access-control-max-age", String(PREFLIGHT_SECONDS)],
    ["vary", "access-control-request-headers"],
  ];
  if (field(fields, "access-control-request-private-network") === "true") {
    answer.push(["access-control-allow-private-network", "true"]);
  }
  response.start(204, answer);
  response.end();
  return IGNORED;
}

/** Loopback, or a connection from an address of this machine to itself. */
function isOnThisMachine({ remoteAddress, localAddress }: Peer): boolean {
  const address = remoteAddress?.replace(/^::ffff:/, "");
  if (address === undefined) return false;
  return address === "::1" || address.startsWith("127.") || address === localAddress?.replace(/^::ffff:/, "");
}

/** What a client sends to a page. */
class RouteBody implements WebBody, AsyncIterable<Uint8Array> {
  readonly #gone = new AbortController();
  readonly #waiting: ByteQueue;
  #ended = false;
  #over = false;
  #news = Promise.withResolvers<void>();

  constructor(private readonly request: WebRequest) {
    this.#waiting = new ByteQueue(request.allowance.known);
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return this.request.taken(bytes.length);
    try {
      this.#waiting.append(bytes);
    } catch (error) {
      this.gone(SvcError.from(error));
    }
    this.#news.resolve();
  }

  ended(): void {
    this.#ended = true;
    this.#news.resolve();
  }

  gone(error: SvcError): void {
    this.over();
    this.#gone.abort(error);
    this.#news.resolve();
  }

  /** Nobody reads any more. */
  over(): void {
    this.#over = true;
    const { length } = this.#waiting;
    this.#waiting.clear();
    if (length > 0) this.request.taken(length);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const { length } = this.#waiting;
      if (length > 0) {
        yield this.#waiting.take(length);
        this.request.taken(length);
        continue;
      }
      this.signal.throwIfAborted();
      if (this.#ended) return;
      this.#news = Promise.withResolvers();
      await this.#news.promise;
    }
  }
}

/** The client's half of a call. */
class WebCall implements RawCall, WebBody {
  readonly header: Metadata;
  readonly timeoutMs?: number;
  readonly peer: Peer;
  readonly requests: MessageReader;
  readonly cancellation = new Cancellation();
  readonly #base64: Base64Reader | undefined;
  readonly #mark: CallMark;
  /** Bytes that came beyond those that were decoded; below zero for a moment, where a group of base64 came in parts. */
  #overheadBytes = 0;

  constructor(readonly path: string, type: string, private readonly request: WebRequest) {
    const { fields } = request;
    this.peer = request.peer;
    this.#mark = new CallMark(request.guest);
    this.header = metadataOf(fields);
    this.requests = new MessageReader({
      encoding: field(fields, "grpc-encoding"),
      taken: (bytes) => request.taken(bytes),
      budget: request.allowance.strangers,
      inflater: request.allowance.inflater,
    });
    if (isText(type)) this.#base64 = new Base64Reader();
    const timeout = field(fields, "grpc-timeout");
    if (timeout !== undefined) this.#guard(() => Object.assign(this, { timeoutMs: parseTimeoutMs(timeout) }));
  }

  admitted(caller: "known" | "stranger"): void {
    admit(this.requests, caller, this.request.allowance);
    this.#mark.admitted(caller);
  }

  begun(): void {
    this.#mark.begun();
  }

  decoding(bytes: number): void {
    this.requests.decoding(bytes);
  }

  refused(bytes: Uint8Array): void {
    giveBackAll(bytes);
  }

  released(): void {
    this.#mark.released();
    this.requests.release();
  }

  data(bytes: Uint8Array): void {
    this.#guard(() => this.requests.push(this.#base64 ? this.#decoded(bytes, this.#base64) : bytes));
  }

  /** What the encoding adds needs no room any more; the reader tells of the rest. */
  #decoded(bytes: Uint8Array, base64: Base64Reader): Uint8Array {
    this.#overheadBytes += bytes.length;
    const decoded = base64.read(bytes);
    this.#overheadBytes -= decoded.length;
    if (this.#overheadBytes > 0) {
      this.request.taken(this.#overheadBytes);
      this.#overheadBytes = 0;
    }
    return decoded;
  }

  ended(): void {
    this.#guard(() => this.#base64?.end());
    this.requests.end();
  }

  gone(error: SvcError): void {
    this.requests.abort(error);
    this.cancellation.cancel(canceledByCaller(this.path));
  }

  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.requests.abort(SvcError.from(error));
    }
  }
}

/** Decodes base64 that comes in pieces, and whose parts may each have padding of their own. */
class Base64Reader {
  #left = "";

  read(bytes: Uint8Array): Uint8Array {
    const text = this.#left + Buffer.from(bytes).toString("latin1").replace(/\s/g, "");
    if (/[^A-Za-z0-9+/=]/.test(text)) throw new SvcError("internal", "the body is not base64");
    const whole = text.length - text.length % 4;
    this.#left = text.slice(whole);
    const parts = text.slice(0, whole).split(/(?<==)(?!=)/);
    return Buffer.concat(parts.map((part) => Buffer.from(part, "base64")));
  }

  end(): void {
    if (this.#left !== "") throw new SvcError("internal", "the body ends in the middle of a group of base64");
  }
}

/** The server's half of a call. */
class WebReply implements RawSink {
  readonly #text: boolean;
  #opened = false;

  constructor(private readonly response: WebResponse, private readonly path: string, type: string) {
    this.#text = isText(type);
  }

  header(header: Metadata): void {
    if (this.#opened) return;
    this.#opened = true;
    const custom = answerFieldsOf(header);
    const exposed = ["grpc-status", "grpc-message", "grpc-encoding", ...custom.map(([name]) => name)];
    this.response.start(200, [
      ["content-type", this.#text ? "application/grpc-web-text+proto" : "application/grpc-web+proto"],
      ["access-control-allow-origin", "*"],
      ["access-control-expose-headers", [...new Set(exposed)].join(", ")],
      ["cache-control", "no-store"],
      ...custom,
    ]);
  }

  get roomBytes(): number | undefined {
    return this.response.roomBytes;
  }

  message(bytes: Uint8Array): Promise<void> | undefined {
    checkSize(bytes, this.path);
    return this.#send(framed(bytes));
  }

  /** The status always travels in the body, where every client looks for it. */
  end(status: Status, trailer: Metadata): void {
    this.header(new Metadata());
    const trailers: [string, string][] = [
      ["grpc-status", String(status.code)],
      ["grpc-message", encodeStatusText(status.message)],
      ...answerFieldsOf(trailer),
    ];
    const lines = trailers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    try {
      void this.#send(framed(Buffer.from(lines), TRAILER_FRAME));
      this.response.end();
    } catch {
      // Too much waits for this reader already: without trailers it can tell that the answer is not whole.
      this.response.abort();
    }
  }

  #send(frame: Uint8Array): Promise<void> | undefined {
    return this.response.send(this.#text ? Buffer.from(Buffer.from(frame).toString("base64")) : frame);
  }
}
