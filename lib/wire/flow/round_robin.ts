/**
 * Deficit round robin among the connections of a port: each reads its quantum, then yields a turn of the event loop.
 *
 * The runtime reads a socket as long as it has data, and serves no other socket meanwhile. Without turns, one busy
 * connection would be the only one served. A flow is one connection. Its quantum shrinks with the number of waiting
 * flows; its deficit is the rest of the quantum in this turn.
 */

import { afterPoll, type Clock, nextTurn } from "../../base/clock.ts";
import { LinkedList } from "../../base/collections/linked_list.ts";
import type { Duplex } from "node:stream";
import { giveBack, giveBackAll, isLent } from "./given_back.ts";

/**
 * Quantum of a connection that has had no turn for `IDLE_MS`, as the cost of handling this many bytes: one call. Such a
 * connection either shares the port with many others, or wakes up, perhaps together with many others.
 */
const FIRST_QUANTUM = 1024;
const IDLE_MS = 10;
/** Smallest quantum of any other connection. */
const QUANTUM_MIN = 4 * 1024;
/** Quantum of a connection if no other one waits: a few dozen calls, whose answers fit into one write. */
const QUANTUM_MAX = 64 * 1024;
/**
 * Bytes read in a turn with new requests: one or two dozen of the shortest. The number doubles with every turn without
 * a new request. Waiting connections divide it among them, but each gets enough for one or two requests.
 */
const SLICE_BYTES = 512;
const LEAST_SLICE_BYTES = 64;
/** Most bytes read in a turn of a request's body, because the bytes of a body cost little. */
const LARGEST_SLICE_BYTES = 64 * 1024;
/**
 * Pieces of a body in a turn, divided in the same way. More pieces than these are tiny, and cost as much as requests.
 */
const PIECES_MAX = 64;
const LEAST_PIECES = 8;

/** Bytes of an answer for each unit of cost: they are only copied. */
const ANSWER_BYTES = 16;
/** The limit of the debt, so that a long answer does not stop the reading of its own window updates. */
const ANSWER_COST_MAX = 8 * QUANTUM_MIN;

/** The longest series of turns without a poll of the sockets. */
const POLL_EVERY_MS = 5;

/** Schedules the turns of connections. The fewer wait for a turn, the larger each quantum. */
export class RoundRobin {
  #waiting = 0;
  #immediate = 0;
  #polledMs = 0;
  /** The next turns of the sockets that wait for a poll. */
  #untilPoll = new LinkedList<() => void>();
  #isPolling = false;

  /** The quantum of a connection while the others wait. */
  get quantum(): number {
    return this.divided(QUANTUM_MAX, QUANTUM_MIN);
  }

  /** The part of `whole` for each waiting connection, at least `least`. */
  divided(whole: number, least: number): number {
    return Math.max(least, Math.floor(whole / (1 + this.#waiting)));
  }

  /** A socket has delivered data, so all have been polled. */
  polled(nowMs: number): void {
    this.#polledMs = nowMs;
  }

  /**
   * Runs `go` in a connection's next turn; the returned function cancels that.
   *
   * While an immediate or a timer is due, the runtime polls the sockets only about every sixty turns (measured: the
   * request of a new client took 112 turns and 90 ms). So after `POLL_EVERY_MS` all connections wait for one timer;
   * this costs a millisecond, and lets everybody else in.
   */
  schedule(clock: Clock, go: () => void): () => void {
    return clock.monotonicMs() - this.#polledMs < POLL_EVERY_MS
      ? this.#runNextTurn(go)
      : this.#runAfterPoll(clock, go);
  }

  #runNextTurn(go: () => void): () => void {
    const leave = () => {
      this.#waiting--;
      this.#immediate--;
    };
    this.#waiting++;
    this.#immediate++;
    const cancel = nextTurn(() => {
      leave();
      go();
    });
    return () => {
      cancel();
      leave();
    };
  }

  #runAfterPoll(clock: Clock, go: () => void): () => void {
    this.#waiting++;
    const untilPoll = this.#untilPoll;
    const link = untilPoll.add(go);
    if (!this.#isPolling) this.#poll(clock);
    return () => {
      if (untilPoll.delete(link)) this.#waiting--;
    };
  }

  /** Waits until no other socket has a turn, then polls. */
  #poll(clock: Clock): void {
    this.#isPolling = true;
    if (this.#immediate > 0) return void nextTurn(() => this.#poll(clock));
    afterPoll(() => {
      this.#isPolling = false;
      this.polled(clock.monotonicMs());
      const due = this.#untilPoll;
      this.#untilPoll = new LinkedList();
      for (let go = due.shift(); go; go = due.shift()) {
        this.#waiting--;
        go();
      }
    });
  }
}

/** The time between two turns of one connection. */
class TurnWait {
  #cancel: (() => void) | undefined;
  #waited = false;

  constructor(private readonly clock: Clock, private readonly scheduler: RoundRobin) {}

  get waiting(): boolean {
    return this.#cancel !== undefined;
  }

  /** Data has arrived from the system, or is left from the last turn. */
  received(): void {
    if (!this.#waited) this.scheduler.polled(this.clock.monotonicMs());
    this.#waited = false;
  }

  /** Runs `go` in the next turn. */
  start(go: () => void): void {
    this.#cancel = this.scheduler.schedule(this.clock, () => {
      this.#cancel = undefined;
      this.#waited = true;
      go();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

/** One connection in the round robin. */
export class Flow {
  readonly #wait: TurnWait;
  #deficit = FIRST_QUANTUM;
  /** The cost of answers, which are written after the turn that read their requests; later turns pay it. */
  #debt = 0;
  #turnMs = -Infinity;
  #onServed: (() => void) | undefined;

  constructor(
    private readonly socket: Duplex,
    private readonly clock: Clock,
    private readonly scheduler = new RoundRobin(),
  ) {
    this.#wait = new TurnWait(clock, scheduler);
  }

  /** Whether the connection waits for its next turn. */
  get waiting(): boolean {
    return this.#wait.waiting;
  }

  /** Data has arrived for the connection. */
  received(): void {
    this.#wait.received();
    this.#deficit = Math.min(this.#deficit, this.#nextQuantum());
  }

  /** Spends from the quantum; whether something is left. */
  spend(cost: number): boolean {
    this.#deficit -= cost;
    return this.#deficit > 0;
  }

  /** Charges a written answer of this many bytes to later turns. */
  sent(bytes: number): void {
    this.#debt = Math.min(this.#debt + bytes / ANSWER_BYTES, ANSWER_COST_MAX);
  }

  /** Stops reading until the next turn, which starts with `go` and a new quantum. */
  yieldTurn(go: () => void): void {
    this.socket.pause();
    this.#wait.start(() => {
      this.#deficit = this.#nextQuantum();
      if (this.#debt >= this.#deficit) {
        this.#debt -= this.#deficit;
        return this.yieldTurn(go);
      }
      go();
      if (this.waiting) return;
      this.socket.resume();
      this.#onServed?.();
    });
  }

  /** Runs `go` when nothing that was read waits for a turn. A socket may end while it is paused. */
  whenServed(go: () => void): void {
    if (this.waiting) this.#onServed = go;
    else go();
  }

  stop(): void {
    this.#wait.stop();
  }

  /** The quantum of the turn that begins. */
  #nextQuantum(): number {
    const nowMs = this.clock.monotonicMs();
    const isLong = nowMs - this.#turnMs > IDLE_MS;
    this.#turnMs = nowMs;
    return isLong ? FIRST_QUANTUM : this.scheduler.quantum;
  }
}

/** Controls the reading of a socket that delivers its data in slices. */
export interface SlicedReader {
  /** A request has started: the next slice may contain more. */
  requested(): void;
  /** From now on returns the memory of read data, unless `keeps` says that a part of it is in use. */
  giveBackUnless(keeps: () => boolean): void;
  /** A piece of a request's body has arrived. */
  piece(): void;
  /** Delivers nothing more until `resume`. */
  pause(): void;
  resume(): void;
  /** From now on the reader itself yields turns to others. */
  release(): void;
}

/** Makes a socket deliver its data in slices, with a turn between them, to any reader. */
export function readInTurns(socket: Duplex, clock: Clock, scheduler = new RoundRobin()): SlicedReader {
  const slices = new Slices(socket, clock, scheduler);
  // The HTTP/1.1 parser would take over the system's socket, and overtake the waiting data.
  const { _handle: handle } = socket as { _handle?: Handle & { _consumed?: boolean } };
  if (handle) {
    handle._consumed = true;
    startOnlyWhen(handle, () => slices.readsOn);
  }
  // Not assigned as they are made: see "Garbage" in docs/development.md.
  const push: Duplex["push"] = (chunk) => slices.push(chunk);
  const read = () => slices.read();
  socket.push = push;
  socket._read = read;
  socket.once("close", () => slices.stop());
  return slices;
}

/** The used part of a runtime handle. */
interface Handle {
  reading?: boolean;
  /** Takes everything read at once. */
  onread?: (read: ArrayBuffer | Uint8Array | undefined) => unknown;
  /** The handle of the underlying socket, if this is the handle of a TLS socket. */
  readonly _parent?: Handle;
  readStart(): unknown;
  readStop(): unknown;
}

/**
 * Pauses the socket below TLS whenever nobody reads the decrypted data. The runtime by itself pauses only the TLS
 * layer, keeps reading the socket, and stores everything that arrives (measured: 375 MB for a paused reader). Returns
 * the memory of what TLS has consumed.
 */
export function holdBelowTls(socket: object): void {
  const { _handle: handle } = socket as { _handle?: Handle };
  const below = handle?._parent;
  if (!handle || !below) return;

  const start = handle.readStart.bind(handle), stop = handle.readStop.bind(handle);
  const readStart = () => {
    below.readStart();
    return start();
  };
  const readStop = () => {
    below.readStop();
    return stop();
  };
  handle.readStart = readStart;
  handle.readStop = readStop;
  if (handle.reading === false) handle.readStop();
  const take = below.onread;
  if (!take) return;

  const onread: typeof take = (read) => {
    take.call(below, read);
    if (read) giveBack(read instanceof ArrayBuffer ? new Uint8Array(read) : read);
  };
  below.onread = onread;
}

/**
 * Keeps a handle from reading while there is no room. The HTTP/1.1 parser restarts it after each request, however much
 * waits (measured: a chunk for every delivered slice, 40 MB in two seconds on 8 connections).
 */
function startOnlyWhen(handle: Handle, readsOn: () => boolean): void {
  const start = handle.readStart.bind(handle);
  const readStart = () => {
    if (readsOn()) return start();
    handle.reading = false;
    return 0;
  };
  handle.readStart = readStart;
}

/** Stands between a socket's system handle and its buffer. */
class Slices implements SlicedReader {
  readonly #push: Duplex["push"];
  readonly #read: () => void;
  readonly #waiting: (Uint8Array | null)[] = [];
  /** Delivered chunks. */
  readonly #spent: Uint8Array[] = [];
  #keeps: (() => boolean) | undefined;
  #sliceBytes = SLICE_BYTES;
  #left = SLICE_BYTES;
  #pieces = 0;
  #paused = false;
  readonly #wait: TurnWait;

  constructor(private readonly socket: Duplex, clock: Clock, private readonly scheduler: RoundRobin) {
    this.#wait = new TurnWait(clock, scheduler);
    this.#push = socket.push.bind(socket);
    this.#read = socket._read.bind(socket, LARGEST_SLICE_BYTES);
  }

  /** Whether nothing waits, and new data would be delivered at once. */
  get readsOn(): boolean {
    return this.#waiting.length === 0 && this.#mayDeliver;
  }

  /** Takes a chunk from the system; `false` tells the system to stop reading. */
  push(chunk: Uint8Array | null): boolean {
    this.#giveBack();
    this.#waiting.push(chunk);
    if (!this.#mayDeliver) return false;
    this.#wait.received();
    return this.#deliver();
  }

  /** The reader has room for more. */
  read(): void {
    if (this.#mayDeliver && this.#deliver()) this.#read();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.read();
  }

  stop(): void {
    this.#wait.stop();
  }

  requested(): void {
    this.#sliceBytes = Math.min(this.#sliceBytes, SLICE_BYTES / 2);
    this.#left = Math.min(this.#left, this.scheduler.divided(SLICE_BYTES, LEAST_SLICE_BYTES));
  }

  giveBackUnless(keeps: () => boolean): void {
    this.#keeps = keeps;
  }

  piece(): void {
    if (++this.#pieces > this.scheduler.divided(PIECES_MAX, LEAST_PIECES)) this.requested();
  }

  release(): void {
    this.#left = this.#sliceBytes = Infinity;
  }

  #giveBack(): void {
    if (this.#spent.length === 0 || this.socket.readableLength > 0 || this.#keeps!()) return;
    for (const chunk of this.#spent.splice(0)) giveBackAll(chunk);
  }

  /** Delivers the rest of this turn's slice; false if more has to wait. */
  #deliver(): boolean {
    let more = true;
    while (more && this.#waiting.length > 0) {
      if (this.#paused) return false;
      if (this.#left <= 0) return this.#yieldTurn();
      const chunk = this.#waiting.shift();
      if (!chunk) return this.#push(null);
      const slice = chunk.subarray(0, this.#left);
      if (slice.length < chunk.length) this.#waiting.unshift(chunk.subarray(slice.length));
      else if (this.#keeps && isLent(chunk)) this.#spent.push(chunk);
      this.#left -= slice.length;
      more = this.#push(slice);
    }
    return more && !this.#paused && (this.#left > 0 || this.#yieldTurn());
  }

  get #mayDeliver(): boolean {
    return !this.#paused && !this.#wait.waiting;
  }

  #yieldTurn(): false {
    if (!this.#wait.waiting) {
      this.#wait.start(() => {
        this.#giveBack();
        if (this.#sliceBytes < LARGEST_SLICE_BYTES) this.#sliceBytes *= 2;
        // For request bodies the turns are expensive, not the bytes: hand out larger slices.
        const least = this.#sliceBytes < QUANTUM_MIN ? LEAST_SLICE_BYTES : QUANTUM_MIN;
        this.#left = this.scheduler.divided(this.#sliceBytes, least);
        this.#pieces = 0;
        this.read();
      });
    }
    return false;
  }
}
