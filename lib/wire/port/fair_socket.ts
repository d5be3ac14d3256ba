/**
 * Fairness among connections: each reads a share, then lets a turn of the event loop pass.
 *
 * The runtime reads a socket for as long as there is something to read, and calls nobody else in the meantime. So
 * a connection that keeps sending would be the only one that is served.
 */

import { type Clock, nextTurn } from "../../base/clock.ts";
import type { Duplex } from "node:stream";
import { giveBack, giveBackAll, isLent } from "../given_back.ts";

/** What a connection may cost before it is the others' turn, at least, as much as handling so many bytes does. */
const SHARE_COST = 16 * 1024;
/** What one connection may cost if no other one waits for its turn: a few dozen calls, whose answers leave in one write. */
const ROUND_COST = 64 * 1024;
/** What is read in a turn where requests begin, a dozen or two of the shortest; it doubles with every turn without one. */
const SLICE_BYTES = 512;
/** Of the body of a request, which costs little, this much is read in a turn. */
const LARGEST_SLICE_BYTES = 64 * 1024;
/** Pieces of a body that a turn may bring. More means that they are tiny, and then they cost as much as requests. */
const PIECES_MAX = 64;

/** For so long turns may follow each other without news of other sockets. */
const NEWS_MS = 5;

/**
 * Waits for the next turn of one connection. While an immediate is due the runtime asks the system for news of other
 * sockets only once in some sixty turns (measured: the request of a new client took 112). So when the last news are
 * old, the next turn is a timer, which costs a millisecond and lets everybody else in.
 */
class Rest {
  #newsMs: number;
  #cancel: (() => void) | undefined;
  #rested = false;

  constructor(private readonly clock: Clock) {
    this.#newsMs = clock.monotonicMs();
  }

  get resting(): boolean {
    return this.#cancel !== undefined;
  }

  /** Something has come from the system. It is news unless there was more to do than one turn's share since the last. */
  came(): void {
    if (!this.#rested) this.#newsMs = this.clock.monotonicMs();
    this.#rested = false;
  }

  /** Runs `go` in the next turn. */
  begin(go: () => void): void {
    const late = this.clock.monotonicMs() - this.#newsMs >= NEWS_MS;
    const end = () => {
      this.#cancel = undefined;
      this.#rested = true;
      if (late) this.#newsMs = this.clock.monotonicMs();
      go();
    };
    this.#cancel = late ? this.clock.after(0, end) : nextTurn(end);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

/** The connections that have turns after each other. The fewer of them wait for one, the more of it each has. */
export class Round {
  #waiting = 0;

  enter(): void {
    this.#waiting++;
  }

  leave(): void {
    this.#waiting--;
  }

  /** What a connection may cost in its turn, while the others wait. */
  get share(): number {
    return Math.max(SHARE_COST, ROUND_COST / (1 + this.#waiting));
  }
}

/** A connection's share of each turn. */
export class Share {
  readonly #rest: Rest;
  #left: number;

  constructor(private readonly socket: Duplex, clock: Clock, private readonly round = new Round()) {
    this.#rest = new Rest(clock);
    this.#left = round.share;
  }

  /** Whether the connection waits for its next turn. */
  get resting(): boolean {
    return this.#rest.resting;
  }

  /** Something has come for the connection. */
  came(): void {
    this.#rest.came();
  }

  /** Whether something is left of the share after this. */
  spend(cost: number): boolean {
    this.#left -= cost;
    return this.#left > 0;
  }

  /** Stops reading until the next turn, which begins with `go` and a new share. */
  rest(go: () => void): void {
    this.socket.pause();
    this.round.enter();
    this.#rest.begin(() => {
      this.round.leave();
      this.#left = this.round.share;
      go();
      if (!this.resting) this.socket.resume();
    });
  }

  stop(): void {
    if (this.resting) this.round.leave();
    this.#rest.stop();
  }
}

/** How a socket is read that hands out what comes in slices. */
export interface Turns {
  /** A request has begun: more of them may be in what comes next. */
  requested(): void;
  /** What has been read is given back from now on, whenever `keeps` says that no part of it is kept. */
  giveBackUnless(keeps: () => boolean): void;
  /** A piece of a request's body has come. */
  piece(): void;
  /** From now on the reader itself sees to it that others have their turn. */
  release(): void;
}

/** Makes a socket hand out what comes in slices, with a turn between them, whoever reads it. */
export function readInTurns(socket: Duplex, clock: Clock): Turns {
  const slices = new Slices(socket, clock);
  // The parser of HTTP/1.1 would take over the system's socket, and get ahead of what waits here.
  const { _handle: handle } = socket as { _handle?: Handle & { _consumed?: boolean } };
  if (handle) {
    handle._consumed = true;
    startOnlyWhen(handle, () => slices.readsOn);
  }
  socket.push = (chunk) => slices.push(chunk);
  socket._read = () => slices.read();
  socket.once("close", () => slices.stop());
  return slices;
}

/** A handle of the runtime, as far as it is used here. */
interface Handle {
  reading?: boolean;
  /** Takes what has been read, all of it at once. */
  onread?: (read: ArrayBuffer | Uint8Array | undefined) => unknown;
  /** Of TLS: the handle of the socket below. */
  readonly _parent?: Handle;
  readStart(): unknown;
  readStop(): unknown;
}

/**
 * Stops the socket below TLS whenever nobody reads what TLS has decrypted. The runtime by itself stops only the TLS
 * layer, goes on reading the socket, and keeps everything that comes (measured: 375 MB for a reader that had paused).
 * What TLS has taken is given back.
 */
export function holdBelowTls(socket: object): void {
  const { _handle: handle } = socket as { _handle?: Handle };
  const below = handle?._parent;
  if (!handle || !below) return;
  const start = handle.readStart.bind(handle), stop = handle.readStop.bind(handle);
  handle.readStart = () => {
    below.readStart();
    return start();
  };
  handle.readStop = () => {
    below.readStop();
    return stop();
  };
  if (handle.reading === false) handle.readStop();
  const take = below.onread;
  if (!take) return;
  below.onread = (read) => {
    take.call(below, read);
    if (read) giveBack(read instanceof ArrayBuffer ? new Uint8Array(read) : read);
  };
}

/**
 * Keeps a handle from reading on before somebody has room for more. The parser of HTTP/1.1 starts it after each request,
 * whatever waits (measured: a chunk for every slice handed on, 40 MB in two seconds on 8 connections).
 */
function startOnlyWhen(handle: Handle, readsOn: () => boolean): void {
  const start = handle.readStart.bind(handle);
  handle.readStart = () => {
    if (readsOn()) return start();
    handle.reading = false;
    return 0;
  };
}

/** Stands between a socket's system and its buffer. */
class Slices implements Turns {
  readonly #push: Duplex["push"];
  readonly #read: () => void;
  readonly #waiting: (Uint8Array | null)[] = [];
  /** Chunks that have been handed on. */
  readonly #spent: Uint8Array[] = [];
  #keeps: (() => boolean) | undefined;
  #sliceBytes = SLICE_BYTES;
  #left = SLICE_BYTES;
  #pieces = 0;
  readonly #rest: Rest;

  constructor(private readonly socket: Duplex, clock: Clock) {
    this.#rest = new Rest(clock);
    this.#push = socket.push.bind(socket);
    this.#read = socket._read.bind(socket, LARGEST_SLICE_BYTES);
  }

  /** Whether there is nothing left to hand on, and more would be handed on at once. */
  get readsOn(): boolean {
    return this.#waiting.length === 0 && !this.#rest.resting;
  }

  /** Takes a chunk from the system, which is told to stop reading by `false`. */
  push(chunk: Uint8Array | null): boolean {
    this.#giveBack();
    this.#waiting.push(chunk);
    if (this.#rest.resting) return false;
    this.#rest.came();
    return this.#deal();
  }

  /** Somebody has room for more. */
  read(): void {
    if (!this.#rest.resting && this.#deal()) this.#read();
  }

  stop(): void {
    this.#rest.stop();
  }

  requested(): void {
    this.#sliceBytes = Math.min(this.#sliceBytes, SLICE_BYTES / 2);
    this.#left = Math.min(this.#left, SLICE_BYTES);
  }

  giveBackUnless(keeps: () => boolean): void {
    this.#keeps = keeps;
  }

  piece(): void {
    if (++this.#pieces > PIECES_MAX) this.requested();
  }

  release(): void {
    this.#left = this.#sliceBytes = Infinity;
  }

  #giveBack(): void {
    if (this.#spent.length === 0 || this.socket.readableLength > 0 || this.#keeps!()) return;
    for (const chunk of this.#spent.splice(0)) giveBackAll(chunk);
  }

  /** Hands on what is left of this turn's slice; false if more has to wait. */
  #deal(): boolean {
    let more = true;
    while (more && this.#waiting.length > 0) {
      if (this.#left <= 0) return this.#pause();
      const chunk = this.#waiting.shift();
      if (!chunk) return this.#push(null);
      const slice = chunk.subarray(0, this.#left);
      if (slice.length < chunk.length) this.#waiting.unshift(chunk.subarray(slice.length));
      else if (this.#keeps && isLent(chunk)) this.#spent.push(chunk);
      this.#left -= slice.length;
      more = this.#push(slice);
    }
    return more && (this.#left > 0 || this.#pause());
  }

  #pause(): false {
    if (!this.#rest.resting) {
      this.#rest.begin(() => {
        this.#giveBack();
        if (this.#sliceBytes < LARGEST_SLICE_BYTES) this.#sliceBytes *= 2;
        this.#left = this.#sliceBytes;
        this.#pieces = 0;
        this.read();
      });
    }
    return false;
  }
}
