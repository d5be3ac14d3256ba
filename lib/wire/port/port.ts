/**
 * The one port: gRPC over HTTP/2 with and without TLS, gRPC-web and plain HTTP, recognized by their first bytes.
 *
 * Owns the listening socket and every connection on it. No client, however broken or hostile, can end the program or
 * keep a silent connection, and `close` returns within its deadline.
 *
 * The room owns everything that arrives from outside: sockets, HTTP/1.1, gRPC-web, and the pages.
 */

import type { Socket } from "node:net";
import type { Server as TlsServer } from "node:tls";
import { assert, type Code, messageOf, SvcError } from "../../base/error.ts";
import { ConnectionAdmission, DEFAULT_CONNECTIONS, waitingWith } from "../flow/admission.ts";
import { loopbackEnds } from "../flow/loopback.ts";
import { bracketed, endpoint } from "./endpoint.ts";
import { type ListenAddress, Listener } from "./listener.ts";
import { type PortConnection, type PortServing, Protocols } from "./protocols.ts";
import { beginTls, createTlsServer, type TlsFiles } from "./tls.ts";

/** A client that has not shown its protocol within this time is disconnected. */
const SILENCE_MS = 10_000;
/** The share of a port's connections that makes a crowd. */
const CROWD_SHARE = 3 / 4;
const KEEPALIVE_MS = 30_000;

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

export interface PortOptions extends PortServing {
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
export async function openUnixPort(options: PortServing & { readonly path: string }): Promise<Port> {
  const opened = new OpenPort(options);
  await opened.listen(options.path, { path: options.path });
  return opened;
}

class OpenPort implements Port {
  readonly #listener: Listener;
  readonly #admission: ConnectionAdmission;
  readonly #protocols: Protocols;
  /** By the client's name, which stays the same through the TLS handshake. */
  readonly #byClient = new Map<string, PortConnection>();
  readonly #sockets = new Set<Socket>();
  readonly #scheme: string;
  /** Takes sockets that start a TLS handshake from `#listener`. */
  #tls: TlsServer | undefined;
  #address = { url: "", host: "", port: 0 };
  #nextClient = 0;
  #closing: Promise<void> | undefined;
  #changed = () => {};

  constructor(private readonly serving: PortServing, tls?: TlsFiles) {
    this.#scheme = tls ? "https" : "http";
    this.#protocols = new Protocols(serving, {
      scheme: this.#scheme,
      connectionOf: (client) => this.#byClient.get(client),
      isClosing: () => this.#closing !== undefined,
      changed: () => this.#changed(),
      debug: (message) => this.#debug(message),
    });

    const { clock, logger, connections = DEFAULT_CONNECTIONS, isBehind } = serving;
    this.#admission = new ConnectionAdmission(connections, clock, isBehind);
    this.#listener = new Listener({
      clock,
      logger,
      backlog: waitingWith(connections),
      crowd: Math.ceil(CROWD_SHARE * connections),
      accept: (socket) => this.#accept(socket),
    });
    if (tls) this.renew(tls);
  }

  get url(): string {
    return this.#address.url;
  }

  get host(): string {
    return this.#address.host;
  }

  get port(): number {
    return this.#address.port;
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
    assert(this.#scheme === "https", "a port without TLS has no certificate");
    this.#tls = createTlsServer(tls, {
      begin: (socket) => this.#protocols.begin(socket),
      debug: (message) => this.#debug(message),
    });
  }

  close(deadlineMs: number): Promise<void> {
    return this.#closing ??= this.#close(deadlineMs);
  }

  async #close(deadlineMs: number): Promise<void> {
    const stopped = this.#listener.close();
    this.#protocols.drain();
    const idle = new Promise<void>((resolve) => {
      this.#changed = () => {
        if (this.#protocols.isIdle && !this.#isParting) resolve();
      };
    });
    const cancel = this.serving.clock.after(deadlineMs, () => this.#cut());
    this.#changed();
    await idle;
    cancel();
    this.#cut();
    await stopped;
  }

  /** Whether a client has not yet taken its last answers. */
  get #isParting(): boolean {
    return [...this.#sockets].some((socket) => socket.writableEnded);
  }

  #cut(): void {
    this.#protocols.cut();
    for (const socket of this.#sockets) socket.destroy();
    this.#changed();
  }

  #name(path: string | undefined): void {
    if (path !== undefined) {
      this.#address = { url: `unix:${path}`, host: path, port: 0 };
      return;
    }
    const { address, port } = this.#listener.address;
    this.#address = { url: `${this.#scheme}://${bracketed(address)}:${port}`, host: address, port };
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
    if (!this.#admission.mayEnter()) {
      this.#debug(`${client} is refused: the program is behind with its work`);
      socket.on("error", () => {});
      socket.resetAndDestroy();
      return;
    }

    const stop = this.serving.clock.after(SILENCE_MS, () => {
      this.#debug(`${client} said nothing for ${SILENCE_MS / 1000} s and is cut off`);
      socket.destroy();
    });
    // The connections of a proxy belong to many callers, like those of programs on this computer.
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

  async #admit(socket: Socket, client: string, admit: NonNullable<PortServing["admit"]>): Promise<void> {
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
    if (this.#tls) beginTls(socket, this.#tls, (message) => this.#debug(message), client);
    else this.#protocols.begin(socket, client);
  }
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
