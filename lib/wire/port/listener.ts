/**
 * A listening socket that keeps accepting.
 *
 * When a program has no file descriptors left, the runtime stops accepting for good and reports nothing. So after it
 * has accepted connections, the listener connects to itself. If that connection does not arrive, the listener logs
 * this once and reopens itself until one does.
 */

import { connect, createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

/** With fewer connections than this, the program cannot have run out of files. */
const SUSPICIOUS_CONNECTIONS = 8;
/** The timing of the check. */
interface Pace {
  /** From a connection to the check. */
  readonly delayMs: number;
  /** Time limit of the listener's connection to itself. */
  readonly arrivalMs: number;
  /** From a failed check to the next one. */
  readonly retryMs: number;
}
const CALM: Pace = { delayMs: 5_000, arrivalMs: 2_000, retryMs: 1_000 };
/** Faster checks while the port is crowded: files may run out at any moment, and new connections wait. */
const CROWDED: Pace = { delayMs: 500, arrivalMs: 1_000, retryMs: 100 };
/** Consecutive misses that count: one may be late because the program was busy. */
const MISSES = 2;
/** Turns in which the system's events are processed before a connection counts as missed. */
const LATE_TURNS = 3;

export interface ListenAddress {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
}

export interface ListenerParts {
  /** Limit of connections that wait in the system. */
  readonly backlog: number;
  /** Open connections that make a crowd. */
  readonly crowd: number;
  readonly clock: Clock;
  readonly logger?: Logger;
  /** Takes each new connection. */
  readonly accept: (socket: Socket) => void;
}

export class Listener {
  #server: Server;
  #name = "";
  #target: ListenAddress = {};
  #open = 0;
  #arrived: (() => void) | undefined;
  /** Whether a check is under way, or the delay until it. */
  #check: "none" | "under way" | number = "none";
  #deaf = false;
  #misses = 0;
  #closed = false;
  #cancel = () => {};

  constructor(private readonly parts: ListenerParts) {
    this.#server = this.#create();
  }

  /** Rejects with the system's error. */
  async listen(name: string, address: ListenAddress): Promise<void> {
    this.#name = name;
    await this.#listen(address);
    const { port } = this.address;
    this.#target = address.path === undefined ? { host: address.host, port } : address;
  }

  get address(): { address: string; port: number } {
    return this.#server.address() as { address: string; port: number };
  }

  /** Resolves when the accepted connections have ended, too. */
  close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  get #pace(): Pace {
    return this.#open >= this.parts.crowd ? CROWDED : CALM;
  }

  #create(): Server {
    const server = createServer();
    server.on("connection", (socket: Socket) => {
      this.#open++;
      socket.once("close", () => this.#open--);
      this.#arrived?.();
      if (this.#open >= Math.min(SUSPICIOUS_CONNECTIONS, this.parts.crowd)) this.#checkIn(this.#pace.delayMs);
      this.parts.accept(socket);
    });
    return server;
  }

  #listen(address: ListenAddress): Promise<void> {
    const server = this.#server;
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen({ ...address, backlog: this.parts.backlog }, () => {
        server.removeListener("error", reject);
        server.on("error", (error) => this.parts.logger?.error(`port ${this.#name}: ${messageOf(error)}`));
        resolve();
      });
    });
  }

  /** Schedules a check, unless one is under way or due earlier. */
  #checkIn(ms: number): void {
    if (this.#closed || this.#check === "under way") return;
    if (this.#check !== "none") {
      if (this.#check <= ms) return;
      this.#cancel();
    }
    this.#check = ms;
    this.#cancel = this.parts.clock.after(ms, () => void this.#checkNow());
  }

  async #checkNow(): Promise<void> {
    this.#check = "under way";
    const heard = await this.#hears();
    this.#check = "none";
    if (this.#closed) return;

    const { logger } = this.parts;
    if (heard) {
      if (this.#deaf) logger?.info(`port ${this.#name} accepts connections again`);
      this.#deaf = false;
      this.#misses = 0;
      return;
    }
    // Reopening resets connections that wait to be accepted.
    if (++this.#misses < MISSES) return this.#checkIn(this.#pace.retryMs);

    if (!this.#deaf) {
      const advice = "the program has no more open files (ulimit -n); it tries again until there are some";
      logger?.error(
        `port ${this.#name} accepts no connections with ${this.#open} open, as it seems: ${advice}`,
      );
    }

    this.#deaf = true;
    await this.#reopen();
    this.#checkIn(this.#pace.retryMs);
  }

  /** Whether a connection to itself arrives. */
  #hears(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#arrived = () => resolve(true);

    const { host, port, path } = this.#target;
    const local = host === "" || host === undefined || host === "0.0.0.0" || host === "::"
      ? "localhost"
      : host;
    const socket = path === undefined ? connect(port!, local) : connect(path);
    socket.on("error", () => resolve(false));

    const late = (turns: number) => {
      giveUp = this.parts.clock.after(0, () => turns > 0 ? late(turns - 1) : resolve(false));
    };
    let giveUp = this.parts.clock.after(this.#pace.arrivalMs, () => late(LATE_TURNS));
    this.#cancel = () => resolve(false);

    return promise.finally(() => {
      this.#arrived = undefined;
      giveUp();
      socket.destroy();
    });
  }

  async #reopen(): Promise<void> {
    this.#server.close();
    this.#server = this.#create();
    try {
      await this.#listen(this.#target);
    } catch {
      // Logged already; the next check tries again.
    }
  }
}
