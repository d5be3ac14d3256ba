/**
 * HTTP/1.1 on the connections of a port: passes each request to the `WebServer` and its answer to the client.
 *
 * Owns the limits of idle time, of slow requests, of unread answers and of waiting requests. A connection that exceeds
 * one ends.
 */

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { nodeHttp } from "../../base/native/environment.ts";
import { giveBack } from "../flow/given_back.ts";
import type { Allowance, ByteBudget } from "../flow/byte_budget.ts";
import type { SlicedReader } from "../flow/round_robin.ts";
import type { WebBody, WebRequest, WebResponse } from "./exchange.ts";
import type { WebServer } from "./web_server.ts";
import { type AdmittedConnection, PROGRESS_BYTES } from "../flow/admission.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { forwardedBy, type TrustedProxies } from "../rpc/proxies.ts";
import type { Peer } from "../rpc/service.ts";

/** Request bytes that wait for their reader. */
const BODY_BYTES = 1024 * 1024;
/**
 * Idle time of a connection; its next header must be complete within it. Longer than reverse proxies keep theirs (nginx
 * 60 s, cloudflared and Traefik 90 s, Caddy 120 s): a proxy that sends a request while this side closes the connection
 * answers its caller with 502.
 */
const IDLE_MS = 130_000;
/** A request delivers `PROGRESS_BYTES` in this time, or its end, unless it waits for us. */
const PROGRESS_MS = 30_000;
/** A client that reads nothing of its answer for this long is disconnected. */
const UNREAD_MS = 120_000;
/**
 * Requests that are read before the first one is answered; hardly any client sends a second one. Further ones wait
 * unread.
 */
const REQUESTS_AHEAD = 2;
/** Limit of unanswered requests of one connection: requests that arrive in one piece cannot be left unread. */
const MAX_WAITING_REQUESTS = 100;

/** A connection with HTTP/1.1. */
export interface Http1Client {
  /** Its name in the log. */
  readonly name: string;
  readonly peer: Peer;
  readonly admitted: AdmittedConnection;
  readonly turns: SlicedReader;
  readonly allowance: Allowance;
  /** Called when the client has sent its first complete request. */
  readonly spoke: () => void;
}

export interface Http1Parts {
  readonly clock: Clock;
  readonly web: WebServer;
  readonly scheme: string;
  /** The proxies that are trusted to name their callers. */
  readonly proxies?: TrustedProxies;
  readonly debug: (message: string) => void;
  /** Whether the port is closing. */
  readonly closing: () => boolean;
  /** `busy` has changed. */
  readonly changed: () => void;
}

export class Http1 {
  readonly #server: Server;
  readonly #connections = new WeakMap<Socket, Http1Connection>();
  #busy = 0;

  constructor(private readonly parts: Http1Parts) {
    // An offer to change the protocol is ignored; the request itself is answered.
    const options = {
      shouldUpgradeCallback: () => false,
      // This file has limits of its own, which tell a slow client from one that waits for us.
      keepAliveTimeout: 0,
      headersTimeout: 0,
      requestTimeout: 0,
    } as ServerOptions;
    this.#server = nodeHttp().createServer(options, (message, response) => {
      this.#connections.get(message.socket)?.request(message, response);
    });
    // Deno ends a connection after its first answer if its server does not listen. This server gets its connections
    // from the port, and never listens itself.
    Object.defineProperty(this.#server, "listening", { get: () => !parts.closing() });
    this.#server.on("clientError", (error, socket) => {
      if (socket.writable) socket.end(notHttp(error));
      // Reads and drops the remaining input, so that the client gets the answer.
      socket.removeAllListeners("data").resume();
    });
  }

  /** Unfinished answers. */
  get busy(): number {
    return this.#busy;
  }

  /** Takes over a connection. */
  take(socket: Socket, client: Http1Client): void {
    const connection = new Http1Connection(socket, client, this.parts, (change) => {
      this.#busy += change;
      this.parts.changed();
    });
    this.#connections.set(socket, connection);
    this.#server.emit("connection", socket);
  }
}

class Http1Connection {
  /** Unfinished requests. */
  readonly #coming = new Set<IncomingMessage>();
  /** The clean-up of each request under way when the connection ends. */
  readonly #requests = new Set<() => void>();
  #rested = () => {};

  constructor(
    private readonly socket: Socket,
    private readonly client: Http1Client,
    private readonly parts: Http1Parts,
    private readonly busier: (change: 1 | -1) => void,
  ) {
    client.turns.giveBackUnless(() => this.#coming.values().some((message) => message.readableLength > 0));
    socket.once("close", () => {
      for (const over of [...this.#requests]) over();
      this.#rested();
    });
  }

  request(message: IncomingMessage, response: ServerResponse): void {
    const { client } = this;
    // Ignores the rest of a disconnected client's input.
    if (this.socket.destroyed) return;

    client.spoke();
    client.turns.requested();
    client.admitted.progressed();
    this.#rested();
    if (this.#requests.size >= MAX_WAITING_REQUESTS) {
      return this.#cut(`made ${MAX_WAITING_REQUESTS} requests without waiting for their answers`);
    }
    const target = targetOf(message);
    if (target === undefined) {
      response.writeHead(400, { "content-type": "text/plain; charset=utf-8", connection: "close" });
      response.end(
        "found several Host fields, or another host in the target: wanted one\n",
        () => this.socket.destroy(),
      );
      return;
    }

    this.#coming.add(message);
    for (const over of ["end", "close"]) message.once(over, () => this.#coming.delete(message));
    const watch = this.#watchBody(message);
    const stall = () => this.#cutAfter(UNREAD_MS, "read nothing of its answer");
    let unread = 0;
    const fields = pairs(message.rawHeaders);

    const origin = originOf(this.parts.scheme, message.headers.host);
    const direct = { ...client.peer, origin, ...forwardedBy(fields) };
    const request: WebRequest = {
      method: message.method ?? "",
      target,
      fields,
      peer: this.parts.proxies?.callerOf(direct, fields) ?? direct,
      allowance: client.allowance,
      admitted: client.admitted,
      taken(bytes) {
        unread -= bytes;
        if (unread <= BODY_BYTES) message.resume();
      },
    };
    const body = this.parts.web.open(
      request,
      new HttpResponse(response, this.parts.closing, stall, client.allowance.unread),
    );
    message.on("data", (bytes: Uint8Array) => {
      unread += bytes.length;
      client.turns.piece();
      client.admitted.transferred(bytes.length);
      watch.arrived(bytes.length);
      if (unread > BODY_BYTES) message.pause();
      body.data(bytes);
      giveBack(bytes);
    });
    message.on("end", () => body.ended());

    message.on("error", (error) => this.parts.debug(`request of ${client.name}: ${error.message}`));
    response.on("error", (error) => this.parts.debug(`answer to ${client.name}: ${error.message}`));
    this.#whenOver(message, response, body, watch.stop);
  }

  #cut(why: string): void {
    this.parts.debug(`${this.client.name} ${why} and is cut off`);
    this.socket.destroy();
  }

  /** Disconnects after `ms`, unless the returned function is called. */
  #cutAfter(ms: number, why: string): () => void {
    return this.parts.clock.after(ms, () => this.#cut(`${why} for ${ms / 1000} s`));
  }

  /** Disconnects a client whose request arrives too slowly; `arrived` reports its progress. */
  #watchBody(message: IncomingMessage) {
    let missing = PROGRESS_BYTES;
    let stop = () => {};
    const begin = () => {
      missing = PROGRESS_BYTES;
      stop();
      stop = this.parts.clock.after(PROGRESS_MS, () => {
        // A request that waits for its reader is not slow itself.
        if (message.isPaused()) return begin();
        this.#cut("sends its request too slowly");
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
      if (!this.#requests.delete(over)) return;
      stop();
      if (!response.writableFinished) {
        body.gone(new SvcError("canceled", `${message.url} was canceled: the client went away`));
      } else this.client.admitted.progressed();
      if (this.#requests.size < REQUESTS_AHEAD) this.client.turns.resume();
      if (this.#requests.size === 0 && !this.socket.destroyed) this.#rest();
      this.busier(-1);
    };
    this.#requests.add(over);
    if (this.#requests.size >= REQUESTS_AHEAD) this.client.turns.pause();
    this.busier(1);
    response.on("finish", over);
    response.on("close", over);
  }

  /** All requests are answered: from now on the next one has limited time to arrive. */
  #rest(): void {
    this.#rested();
    this.#rested = this.#cutAfter(IDLE_MS, "made no whole request");
  }
}

/** The complete answer to input that the HTTP/1.1 parser rejects. */
function notHttp(error: Error): string {
  const tooLarge = (error as { code?: string }).code === "HPE_HEADER_OVERFLOW";
  return tooLarge
    ? refusal(
      "431 Request Header Fields Too Large",
      "the request has more header fields than the server accepts\n",
    )
    : refusal("400 Bad Request", "this is not a request of HTTP/1.1\n");
}

/** A complete answer, after which the connection ends. */
export function refusal(status: string, line: string): string {
  const head = `HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\ncontent-length: ${line.length}\r\n`;
  return `${head}connection: close\r\n\r\n${line}`;
}

class HttpResponse implements WebResponse {
  /** The bytes that the client's system has not taken. */
  #waitingBytes = 0;

  /** `stall` disconnects the client later; the function that it returns cancels that. */
  constructor(
    private readonly response: ServerResponse,
    private readonly closing: () => boolean,
    private readonly stall: () => () => void,
    readonly unread: ByteBudget,
  ) {
    response.once("close", () => this.#written(this.#waitingBytes));
  }

  start(status: number, fields: HeaderFields): void {
    if (this.response.headersSent || this.response.destroyed) return;
    for (const [name, value] of fields) this.response.appendHeader(name, value);
    if (this.closing()) this.response.setHeader("connection", "close");
    this.response.writeHead(status);
  }

  send(bytes: Uint8Array): Promise<void> | undefined {
    const { response } = this;
    if (response.destroyed || response.writableEnded) return undefined;
    this.unread.take(bytes.length);
    this.#waitingBytes += bytes.length;
    if (response.write(bytes, () => this.#written(bytes.length))) return undefined;
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

  /** Called after the end of the connection, too, when nothing waits any more. */
  #written(bytes: number): void {
    const written = Math.min(bytes, this.#waitingBytes);
    this.#waitingBytes -= written;
    this.unread.give(written);
  }

  abort(): void {
    this.response.destroy();
  }
}

/**
 * The path and query of a request; proxies may write the whole address (source: RFC 9112, section 3.2.2). `undefined`
 * for a request with two hosts, because a proxy in front may have used the other one.
 */
function targetOf({ url = "", headers, rawHeaders }: IncomingMessage): string | undefined {
  if (hostsIn(rawHeaders) > 1) return undefined;
  const [, host, rest = ""] = /^https?:\/\/([^/?]*)(.*)$/i.exec(url) ?? [];
  if (host === undefined) return url;
  if (headers.host !== undefined && host.toLowerCase() !== headers.host.toLowerCase()) return undefined;
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function hostsIn(raw: readonly string[]): number {
  return raw.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
}

function originOf(scheme: string, host: string | undefined): string | undefined {
  return host === undefined ? undefined : `${scheme}://${host}`;
}

function pairs(raw: readonly string[]): [string, string][] {
  const fields: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) fields.push([(raw[i] ?? "").toLowerCase(), raw[i + 1] ?? ""]);
  return fields;
}
