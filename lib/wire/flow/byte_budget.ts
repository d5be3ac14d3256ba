/**
 * Limits the memory that callers can occupy: one budget for a whole port, a share for each connection, and smaller
 * ones for unauthenticated callers.
 *
 * Everything that a peer sends, or leaves unread, is charged before it is kept. A used-up budget fails the call that
 * wants more, as `resource_exhausted`; other calls continue.
 *
 * The room owns how the connections of a port share the program: admission and eviction, turns, memory.
 */

import { SvcError } from "../../base/error.ts";
import { Semaphore } from "../../base/async/semaphore.ts";
import { INFLATED_AT_ONCE, Inflater } from "./inflate.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

export interface ByteLimits {
  /** Incoming messages, until their calls end: the limit of a port, and that of a connection. */
  readonly received: number;
  readonly receivedByConnection: number;
  /** The same before authentication, and for calls without authentication. */
  readonly unauthenticated: number;
  readonly unauthenticatedByConnection: number;
  /** Unread answers: the limit of a port, and that of a connection. */
  readonly unread: number;
  readonly unreadByConnection: number;
}

/** A connection has room for the largest message, compressed and not, and for the largest answer. */
const BYTE_LIMITS: ByteLimits = {
  received: 48 * MIB,
  receivedByConnection: 36 * MIB,
  unauthenticated: 8 * MIB,
  unauthenticatedByConnection: 2 * MIB,
  unread: 48 * MIB,
  unreadByConnection: 33 * MIB,
};

/** The last quarter of a budget is for small pieces, so that a few large ones do not lock out everybody else. */
const SMALL_BYTES = 16 * KIB;
const SMALL_SHARE = 1 / 4;

export class ByteBudget {
  #usedBytes = 0;

  /**
   * `of` completes "… hold 5 of 6 bytes". Charges go to `within`, too; if they do not fit there, `makeRoom` may free
   * some.
   */
  constructor(
    private readonly of: string,
    readonly limitBytes: number,
    private readonly within?: ByteBudget,
    private readonly makeRoom?: (bytes: number) => void,
  ) {}

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The room for one large piece. */
  get roomBytes(): number {
    if (this.within) return Math.min(this.limitBytes - this.#usedBytes, this.within.roomBytes);
    return this.limitBytes * (1 - SMALL_SHARE) - this.#usedBytes;
  }

  /** Charges `bytes`. Throws `resource_exhausted`, without charging anything, if they do not fit. */
  take(bytes: number): void {
    this.check(bytes);
    this.#add(bytes);
  }

  give(bytes: number): void {
    this.#add(-bytes);
  }

  #add(bytes: number): void {
    this.#usedBytes += bytes;
    if (this.within) this.within.#add(bytes);
  }

  /** Throws as `take` does, without charging. */
  check(bytes: number): void {
    if (!this.#fits(bytes)) {
      throw new SvcError(
        "resource_exhausted",
        `cannot keep ${bytes} bytes more: ${this.of} hold ${this.#usedBytes} of at most ${this.limitBytes} bytes; ` +
          "send less at once, read the answers, or try again later",
      );
    }
    if (!this.within) return;
    if (this.makeRoom && !this.within.#fits(bytes)) this.makeRoom(bytes);
    this.within.check(bytes);
  }

  #fits(bytes: number): boolean {
    const share = this.within === undefined && bytes > SMALL_BYTES ? 1 - SMALL_SHARE : 1;
    return this.#usedBytes + bytes <= this.limitBytes * share;
  }
}

/** The budgets of one connection. */
export interface Allowance {
  /** For authenticated callers, and for all others. */
  readonly authenticated: ByteBudget;
  readonly unauthenticated: ByteBudget;
  readonly unread: ByteBudget;
  readonly inflater: Inflater;
  /** The connection is over. */
  end(): void;
}

/** The budgets of all connections of a port. */
export class PortAllowance {
  readonly #received: ByteBudget;
  readonly #unauthenticated: ByteBudget;
  readonly #unread: ByteBudget;
  readonly #limits: ByteLimits;
  readonly #inflating = new Semaphore(INFLATED_AT_ONCE);
  /** The unread bytes of each connection, and how to end it. */
  readonly #readers = new Map<ByteBudget, () => void>();

  constructor(limits: Partial<ByteLimits> = {}) {
    this.#limits = { ...BYTE_LIMITS, ...limits };
    const { received, unauthenticated: strangers, unread } = this.#limits;
    this.#received = new ByteBudget("messages to this server", received);
    this.#unauthenticated = new ByteBudget(
      "messages of callers that are not known",
      strangers,
      this.#received,
    );
    this.#unread = new ByteBudget("answers of this server that nobody has read", unread);
  }

  /** The used bytes: of incoming messages, and of unread answers. */
  get usedBytes(): { received: number; unread: number } {
    return { received: this.#received.usedBytes, unread: this.#unread.usedBytes };
  }

  /**
   * The budgets of a new connection. `evict` ends the connection at once, when others need the memory of its unread
   * bytes.
   */
  connection(evict: () => void = () => {}): Allowance {
    const { receivedByConnection, unauthenticatedByConnection: strangersByConnection, unreadByConnection } =
      this.#limits;
    const unread: ByteBudget = new ByteBudget(
      "answers on this connection that were not read",
      unreadByConnection,
      this.#unread,
      (bytes) => this.#evictReader(unread, bytes),
    );
    this.#readers.set(unread, evict);

    return {
      authenticated: new ByteBudget("messages on this connection", receivedByConnection, this.#received),
      unauthenticated: new ByteBudget(
        "messages on this connection before its caller is known",
        strangersByConnection,
        this.#unauthenticated,
      ),
      unread,
      inflater: new Inflater(this.#inflating),
      end: () => void this.#readers.delete(unread),
    };
  }

  /** Ends the connection with the most unread bytes, for a connection that would still have fewer. */
  #evictReader(asking: ByteBudget, bytes: number): void {
    let most = asking.usedBytes + bytes;
    let leave: (() => void) | undefined;
    for (const [unread, its] of this.#readers) {
      if (unread.usedBytes <= most) continue;
      most = unread.usedBytes;
      leave = its;
    }
    leave?.();
  }
}
