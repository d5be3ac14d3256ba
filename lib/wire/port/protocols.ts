/**
 * The protocols of a port: a socket's first bytes say whether it speaks HTTP/2 or HTTP/1.1.
 *
 * Owns the connections of either protocol, and the memory, quanta and abuse limits that they share.
 */

import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import type { SharedInterval } from "../../base/async/shared_interval.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { LoopbackEnds } from "../../base/host.ts";
import type { Logger } from "../../base/log/log.ts";
import type { AdmittedConnection } from "../flow/admission.ts";
import { type Allowance, type ByteLimits, PortAllowance } from "../flow/byte_budget.ts";
import { readInTurns, RoundRobin, type SlicedReader } from "../flow/round_robin.ts";
import { acceptGrpc } from "../grpc/server.ts";
import { PortAbuseLimits } from "../http2/abuse_limits.ts";
import { Connection } from "../http2/connection.ts";
import { H2 } from "../http2/frame.ts";
import { createStallChecks } from "../http2/stall_watch.ts";
import type { Stream, StreamListener } from "../http2/stream.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { TrustedProxies } from "../rpc/proxies.ts";
import type { Peer, ServiceTable } from "../rpc/service.ts";
import { answerAndEnd, endpoint, peerOf, TLS_HANDSHAKE, whenClosed } from "./endpoint.ts";
import type { WebRequest } from "./exchange.ts";
import { Http1 } from "./http1.ts";
import type { RouteOptions } from "./routes.ts";
import type { Sites } from "./sites.ts";
import { WebServer } from "./web_server.ts";

const TOO_MUCH_UNREAD = "it reads too little of its answers, and others need the memory";
/** The start of HTTP/2, and the methods of HTTP/1.1. */
const KNOWN_BEGINNINGS = /^(PRI|GET|HEA|POS|PUT|PAT|DEL|OPT|CON|TRA)/;
/**
 * The published Go client starts with TLS, and continues without it only if the answer is not TLS, as that of Go's
 * own servers. A connection that merely ends is a failure for it.
 */
const NO_TLS_HERE =
  "HTTP/1.0 400 Bad Request\r\n\r\nthis port is without TLS: use http:// in place of https://\n";

export interface PortServing {
  readonly table: ServiceTable;
  readonly clock: Clock;
  readonly logger?: Logger;
  readonly http?: RouteOptions;
  /** The sites whose pages may call; absent means all, because their pages have no keys. */
  readonly sites?: Sites;
  /** Limits of the memory that callers can occupy, if not the defaults. */
  readonly byteLimits?: Partial<ByteLimits>;
  /** Limit of connections, if not `connectionLimit`. */
  readonly connections?: number;
  /** Whether the program is behind with its work, so that it takes few new connections at a time. */
  readonly isBehind?: () => boolean;
  /** The reverse proxies that are trusted to name their callers. */
  readonly proxies?: TrustedProxies;
  /** Decides about each connection before anything is read from it: throws to refuse. */
  readonly admit?: (ends: LoopbackEnds) => Promise<void>;
}

/** A connection as the port sees it. */
export interface PortConnection {
  readonly admitted: AdmittedConnection;
  /** Stops the time limit of silent connections: the client has shown its protocol. */
  readonly protocolKnown: () => void;
  /** Sends GOAWAY before the connection is evicted, if the protocol has it. */
  sayGoaway: () => void;
}

interface PortHooks {
  readonly scheme: string;
  /** By the client's name; `undefined` if its socket is closed. */
  connectionOf(client: string): PortConnection | undefined;
  isClosing(): boolean;
  /** A connection or a call has ended. */
  changed(): void;
  debug(message: string): void;
}

export class Protocols {
  readonly #serving: PortServing;
  readonly #web: WebServer;
  /** Made for the first client with HTTP/1.1. */
  #http1: Http1 | undefined;
  readonly #connections = new Set<Connection>();
  readonly #allowance: PortAllowance;
  readonly #abuse: PortAbuseLimits;
  readonly #scheduler = new RoundRobin();
  readonly #stallChecks: SharedInterval;

  constructor(serving: PortServing, private readonly hooks: PortHooks) {
    this.#serving = serving;
    this.#allowance = new PortAllowance(serving.byteLimits);
    this.#abuse = new PortAbuseLimits(serving.clock);
    this.#stallChecks = createStallChecks(serving.clock);
    this.#web = new WebServer(serving.table, serving.http ?? {}, serving.sites);
  }

  /** Whether no client has a call under way. */
  get isIdle(): boolean {
    return this.#connections.size === 0 && (this.#http1?.busy ?? 0) === 0;
  }

  /** Accepts no more calls on open connections. */
  drain(): void {
    for (const connection of this.#connections) connection.drain();
  }

  /** Ends the calls under way. */
  cut(): void {
    for (const connection of [...this.#connections]) {
      connection.destroy(new SvcError("unavailable", "the server is stopping"));
    }
  }

  /** Serves a socket whose bytes are not encrypted, or no longer. */
  begin(socket: Socket, client = endpoint(socket)): void {
    socket.on("error", (error) => this.hooks.debug(`connection of ${client}: ${error.message}`));
    this.#detectProtocol(
      socket,
      client,
      Buffer.alloc(0),
      readInTurns(socket, this.#serving.clock, this.#scheduler),
    );
  }

  /** Reads until the protocol is clear, and puts the bytes back. */
  #detectProtocol(socket: Socket, client: string, head: Buffer, turns: SlicedReader): void {
    socket.once("readable", () => {
      const bytes = socket.read() as Buffer | null;
      if (!bytes) return this.#detectProtocol(socket, client, head, turns);

      head = Buffer.concat([head, bytes]);
      if (head[0] === TLS_HANDSHAKE) {
        this.hooks.debug(`${client} begins with TLS, which is off here`);
        return answerAndEnd(socket, NO_TLS_HERE);
      }

      const beginning = head.subarray(0, 3).toString("latin1");
      if (head.length < 3 && /^[A-Z]+$/.test(beginning)) {
        return this.#detectProtocol(socket, client, head, turns);
      }
      if (!KNOWN_BEGINNINGS.test(beginning)) {
        this.hooks.debug(`${client} speaks neither HTTP/1.1 nor HTTP/2`);
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
    const entry = this.hooks.connectionOf(client);
    if (!entry) return void socket.destroy();

    const { admitted, protocolKnown: spoke } = entry;
    const allowance = this.#allowance.connection(() => {
      this.hooks.debug(`${client} is cut off: ${TOO_MUCH_UNREAD}`);
      socket.destroy();
    });
    socket.once("close", () => allowance.end());
    this.#http1 ??= this.#createHttp1();
    this.#http1.take(socket, {
      name: client,
      peer: peerOf(socket),
      admitted,
      turns,
      allowance,
      spoke,
    });
  }

  #createHttp1(): Http1 {
    const { clock, proxies } = this.#serving;
    return new Http1({
      clock,
      web: this.#web,
      scheme: this.hooks.scheme,
      proxies,
      debug: (message) => this.hooks.debug(message),
      closing: () => this.hooks.isClosing(),
      changed: () => this.hooks.changed(),
    });
  }

  #takeHttp2(socket: Socket, client: string): void {
    const entry = this.hooks.connectionOf(client);
    if (!entry) return void socket.destroy();

    const { admitted } = entry;
    const allowance = this.#allowance.connection(() => connection.evict(TOO_MUCH_UNREAD));
    socket.once("close", () => allowance.end());

    const others = (stream: Stream, fields: HeaderFields, peer: Peer) =>
      this.#openWebStream(stream, fields, peer, allowance, admitted);
    const peer = { ...peerOf(socket), ended: whenClosed(socket) };
    const calls = acceptGrpc(this.#serving.table, peer, allowance, {
      others,
      admitted,
      proxies: this.#serving.proxies,
    });
    const connection: Connection = new Connection(socket, {
      role: "server",
      clock: this.#serving.clock,
      accept: (stream, fields) => {
        admitted.progressed();
        return calls(stream, fields);
      },
      scheduler: this.#scheduler,
      stallChecks: this.#stallChecks,
      unread: allowance.unread,
      abuse: this.#abuse,
      transferred: (bytes) => admitted.transferred(bytes),
      ready: () => {
        entry.protocolKnown();
        admitted.progressed();
      },
      closed: (error) => {
        this.#connections.delete(connection);
        this.hooks.debug(`connection of ${client} ended: ${error.message}`);
        this.hooks.changed();
      },
    });
    this.#connections.add(connection);
    // Not assigned as it is made: see "Garbage" in docs/development.md.
    const sayGoaway = () => connection.evict("the server is full and closes this connection to make room");
    entry.sayGoaway = sayGoaway;
    if (this.hooks.isClosing()) connection.drain();
  }

  /** The web over HTTP/2. */
  #openWebStream(
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
