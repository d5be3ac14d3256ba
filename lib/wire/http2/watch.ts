/**
 * How long a client's connection of HTTP/2 may stay in a state in which nothing comes of it. (How long a server may take
 * is for those to say who call it.)
 *
 * Looks at the connection every few seconds in place of setting a timer for every frame. Promises that a peer which
 * neither says anything useful nor answers pings is let go, and that one which answers may stay for ever.
 */

import type { Clock } from "../../base/clock.ts";

/** How often it looks; deadlines are late by up to this. */
const LOOK_MS = 5_000;
/** From the beginning to the first frame. */
const HANDSHAKE_MS = 10_000;
/** From the first to the last byte of a frame: 16 KB at the pace of an old modem. */
const FRAME_MS = 30_000;
/** From the first to the last frame of a header block. */
const BLOCK_MS = 10_000;
/** Until the peer's system has taken what was written, a quarter of a megabyte or so. */
const WRITE_MS = 120_000;
/** Until a peer makes room for some of the data that waits on a stream, or sends more of a message that it has begun. */
export const STALL_MS = 120_000;
/** A peer that says nothing for so long is asked whether it is there. */
const QUIET_MS = 60_000;
/** How long it has to answer. */
const ANSWER_MS = 20_000;

/** What there is to see of a connection. What changes from one stay in a state to the next stands for the stay. */
interface State {
  /** Frames that have come. */
  readonly frames: number;
  /** Whether the peer has begun a frame without ending it. */
  readonly inFrame: boolean;
  /** A header block that has begun. */
  readonly block: unknown;
  /** The write under way. */
  readonly write: unknown;
}

interface Watched {
  state(): State;
  /** Ends the streams on which nothing has moved for too long. */
  endStalled(nowMs: number): void;
  /** Asks a quiet peer for a sign of life. */
  ask(): void;
  cut(reason: string): void;
}

/** Since when something has been the same. */
export class Stay {
  #what: unknown;
  #sinceMs = 0;

  /** How long `what` has been what it is; 0 while it is `undefined`. */
  ms(what: unknown, nowMs: number): number {
    if (what !== this.#what) {
      this.#what = what;
      this.#sinceMs = nowMs;
    }
    return what === undefined ? 0 : nowMs - this.#sinceMs;
  }
}

/** Watches over a connection until it is stopped. */
export class Watch {
  readonly #quiet = new Stay();
  readonly #frame = new Stay();
  readonly #block = new Stay();
  readonly #write = new Stay();
  #asked = false;
  #stop: () => void;

  constructor(private readonly clock: Clock, private readonly watched: Watched) {
    this.#problem(clock.monotonicMs());
    this.#stop = clock.after(LOOK_MS, () => this.#look());
  }

  stop(): void {
    this.#stop();
  }

  #look(): void {
    this.#stop = this.clock.after(LOOK_MS, () => this.#look());
    const nowMs = this.clock.monotonicMs();
    const problem = this.#problem(nowMs);
    if (problem) this.watched.cut(problem);
    else this.watched.endStalled(nowMs);
  }

  #problem(nowMs: number): string | undefined {
    const { frames, inFrame, block, write } = this.watched.state();
    const quietMs = this.#quiet.ms(frames, nowMs);
    if (frames === 0 && quietMs >= HANDSHAKE_MS) {
      return `no SETTINGS for ${HANDSHAKE_MS / 1000} s`;
    }
    if (this.#frame.ms(inFrame ? frames : undefined, nowMs) >= FRAME_MS) {
      return `a frame that does not end for ${FRAME_MS / 1000} s`;
    }
    if (this.#block.ms(block, nowMs) >= BLOCK_MS) {
      return `a header block that does not end for ${BLOCK_MS / 1000} s`;
    }
    if (this.#write.ms(write, nowMs) >= WRITE_MS) return `nothing read for ${WRITE_MS / 1000} s`;
    if (quietMs < QUIET_MS) {
      this.#asked = false;
      return undefined;
    }
    if (!this.#asked) this.watched.ask();
    this.#asked = true;
    return quietMs >= QUIET_MS + ANSWER_MS ? `no answer to a ping for ${ANSWER_MS / 1000} s` : undefined;
  }
}
