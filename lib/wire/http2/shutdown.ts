/**
 * How a connection ends: no new streams first, then the last bytes, then the socket.
 */

import type { Duplex } from "node:stream";
import type { Clock } from "../../base/clock.ts";
import type { SvcError } from "../../base/error.ts";
import { giveBack } from "../flow/given_back.ts";
import type { Flow } from "../flow/round_robin.ts";

/** How long a rejected peer has to read the reason in GOAWAY. */
const DRAIN_MS = 1_000;
/** Limit of the input that is drained after GOAWAY, so that a rejected peer can still read the reason. */
const DRAIN_BYTES = 1024 * 1024;

export class Shutdown {
  /** Whether no new streams are accepted; the connection closes after the last one. */
  isDraining = false;
  /** Why the connection is over. */
  error: SvcError | undefined;
  #drainedBytes = 0;

  constructor(
    private readonly socket: Duplex,
    private readonly flow: Flow,
    private readonly clock: Clock,
  ) {}

  /**
   * Closes the socket after `goaway`, the last bytes for the peer. If a socket closes while received bytes are unread,
   * the system discards what was just sent. So the connection keeps reading for a while, until the peer has seen the
   * reason.
   */
  closeSocket(goaway: Uint8Array | undefined): void {
    if (!goaway) return void this.socket.destroy();
    this.socket.once("close", this.clock.after(DRAIN_MS, () => void this.socket.destroy()));
    this.socket.end(goaway);
    this.socket.resume();
  }

  /** Reads and drops the remaining input, so that the peer receives GOAWAY, but yields to other connections. */
  drain(bytes: Uint8Array): void {
    this.#drainedBytes += bytes.length;
    if (this.#drainedBytes > DRAIN_BYTES) this.socket.pause();
    else if (!this.flow.spend(bytes.length) && !this.flow.waiting) this.flow.yieldTurn(() => {});
    giveBack(bytes);
  }
}
