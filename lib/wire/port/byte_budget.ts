/**
 * How many bytes callers may make the program keep: one budget for a whole port, shares of it for each connection,
 * and smaller ones for callers that have not shown who they are.
 *
 * Whatever a peer sends, or does not read, is charged before it is kept. A budget that is used up fails the call that
 * wants more, as `resource_exhausted`; other calls go on.
 */

import { SvcError } from "../../base/error.ts";
import { INFLATED_AT_ONCE, Inflater, Slots } from "../grpc/inflate.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

export interface ByteLimits {
  /** Messages that come in, or whose calls are under way: of all callers, and of one connection. */
  readonly received: number;
  readonly receivedByConnection: number;
  /** The same before the caller is known, and for calls that need not say who calls. */
  readonly strangers: number;
  readonly strangersByConnection: number;
  /** Answers that wait for their readers: of all callers, and of one connection. */
  readonly unread: number;
  readonly unreadByConnection: number;
}

/** A connection has room for the largest message, compressed and not, and for the largest answer. */
export const BYTE_LIMITS: ByteLimits = {
  received: 48 * MIB,
  receivedByConnection: 36 * MIB,
  strangers: 8 * MIB,
  strangersByConnection: 2 * MIB,
  unread: 48 * MIB,
  unreadByConnection: 33 * MIB,
};

/** The last quarter of a budget is for small pieces, so that a few large ones do not lock out everybody else. */
const SMALL_BYTES = 16 * KIB;
const SMALL_SHARE = 1 / 4;

export class ByteBudget {
  #usedBytes = 0;

  /**
   * `of` completes "… hold 5 of 6 bytes". What is charged here is charged to `within`, too; where it does not fit
   * there, `makeRoom` may see to it that it does.
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

  /** How many bytes still fit, in one large piece. */
  get roomBytes(): number {
    if (this.within) return Math.min(this.limitBytes - this.#usedBytes, this.within.roomBytes);
    return this.limitBytes * (1 - SMALL_SHARE) - this.#usedBytes;
  }

  /** Charges `bytes`. Throws `resource_exhausted`, and charges nothing, where they do not fit. */
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

  /** Throws as `take` does, and charges nothing. */
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

/** What one connection may use. */
export interface Allowance {
  /** For callers that are known, and for everybody else. */
  readonly known: ByteBudget;
  readonly strangers: ByteBudget;
  readonly unread: ByteBudget;
  readonly inflater: Inflater;
  /** The connection is over. */
  end(): void;
}

/** What all connections of a port may use. */
export class PortAllowance {
  readonly #received: ByteBudget;
  readonly #strangers: ByteBudget;
  readonly #unread: ByteBudget;
  readonly #limits: ByteLimits;
  readonly #inflating = new Slots(INFLATED_AT_ONCE);
  /** What each connection has not read, and how to make it leave. */
  readonly #readers = new Map<ByteBudget, () => void>();

  constructor(limits: Partial<ByteLimits> = {}) {
    this.#limits = { ...BYTE_LIMITS, ...limits };
    const { received, strangers, unread } = this.#limits;
    this.#received = new ByteBudget("messages to this server", received);
    this.#strangers = new ByteBudget("messages of callers that are not known", strangers, this.#received);
    this.#unread = new ByteBudget("answers of this server that nobody has read", unread);
  }

  /** Bytes of messages, and of answers. */
  get usedBytes(): { received: number; unread: number } {
    return { received: this.#received.usedBytes, unread: this.#unread.usedBytes };
  }

  /** For a new connection, which `leave` ends at once: others may need the room of what it does not read. */
  connection(leave: () => void = () => {}): Allowance {
    const { receivedByConnection, strangersByConnection, unreadByConnection } = this.#limits;
    const unread: ByteBudget = new ByteBudget(
      "answers on this connection that were not read",
      unreadByConnection,
      this.#unread,
      (bytes) => this.#makeRoom(unread, bytes),
    );
    this.#readers.set(unread, leave);
    return {
      known: new ByteBudget("messages on this connection", receivedByConnection, this.#received),
      strangers: new ByteBudget(
        "messages on this connection before its caller is known",
        strangersByConnection,
        this.#strangers,
      ),
      unread,
      inflater: new Inflater(this.#inflating),
      end: () => void this.#readers.delete(unread),
    };
  }

  /** Whoever has left most unread leaves for somebody who would still have less. */
  #makeRoom(asking: ByteBudget, bytes: number): void {
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
