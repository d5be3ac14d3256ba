/**
 * Deadlines of a client's HTTP/2 connection for states without progress. (Callers set the deadlines of servers.)
 *
 * It checks the connection every few seconds instead of setting a timer for every frame. A peer that neither sends
 * anything useful nor answers pings is dropped, and one that answers may stay forever.
 */

import { SharedInterval } from "../../base/async/shared_interval.ts";
import type { Clock } from "../../base/clock.ts";

/** Interval of the checks; deadlines are late by up to this. */
const STALL_CHECK_MS = 5_000;
/** From the start to the first frame. */
const HANDSHAKE_MS = 10_000;
/** From the first to the last byte of a frame: 16 KB at the pace of an old modem. */
const FRAME_MS = 30_000;
/** From the first to the last frame of a header block. */
const BLOCK_MS = 10_000;
/** Until the peer's system has taken a write of about a quarter of a megabyte. */
const WRITE_MS = 120_000;
/** Until a peer makes room for data waiting on a stream, or sends more of an incomplete message. */
export const STALL_MS = 120_000;
/**
 * A peer that is silent this long gets a ping. Pings are rare because they cost traffic on a metered connection.
 */
const QUIET_MS = 120_000;
/** Time limit of the answer to a ping. */
const ANSWER_MS = 20_000;

/** The observable state of a connection. A value that changes restarts its timer. */
interface State {
  /** Frames received. */
  readonly frames: number;
  /** Whether a frame is incomplete. */
  readonly inFrame: boolean;
  /** The incomplete header block. */
  readonly block: unknown;
  /** The write under way. */
  readonly write: unknown;
}

interface WatchedConnection {
  state(): State;
  /** Resets the streams without progress. */
  endStalled(nowMs: number): void;
  /** Pings a quiet peer. */
  ping(): void;
  end(reason: string): void;
}

/** Measures how long a value has been unchanged. */
export class StallTimer {
  #what: unknown;
  #sinceMs = 0;

  /** How long `what` has been unchanged; 0 while it is `undefined`. */
  ms(what: unknown, nowMs: number): number {
    if (what !== this.#what) {
      this.#what = what;
      this.#sinceMs = nowMs;
    }
    return what === undefined ? 0 : nowMs - this.#sinceMs;
  }
}

/** Connections that share it are checked with few timers. */
export function createStallChecks(clock: Clock): SharedInterval {
  return new SharedInterval(clock, STALL_CHECK_MS);
}

/** Watches a connection until it is stopped. */
export class StallWatch {
  readonly #quiet = new StallTimer();
  readonly #frame = new StallTimer();
  readonly #block = new StallTimer();
  readonly #write = new StallTimer();
  #pinged = false;
  /** Ends the watch. */
  readonly stop: () => void;

  /** @param checks the interval of the checks, which connections share */
  constructor(
    private readonly clock: Clock,
    checks: SharedInterval,
    private readonly watched: WatchedConnection,
  ) {
    this.#problem(clock.monotonicMs());
    this.stop = checks.every(() => this.#check());
  }

  #check(): void {
    const nowMs = this.clock.monotonicMs();
    const problem = this.#problem(nowMs);
    if (problem) this.watched.end(problem);
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
      this.#pinged = false;
      return undefined;
    }

    if (!this.#pinged) this.watched.ping();
    this.#pinged = true;
    return quietMs >= QUIET_MS + ANSWER_MS ? `no answer to a ping for ${ANSWER_MS / 1000} s` : undefined;
  }
}
