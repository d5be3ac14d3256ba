/** Pings to a server from which nothing comes: after a while of silence, and when a call got no answer in its time. */

import type { Clock } from "../../base/clock.ts";
import type { Connection } from "../http2/connection.ts";

/** Time limit of the answer to a ping. */
export const PING_ANSWER_MS = 20_000;

export class KeepAlive {
  #cancel: () => void = () => {};
  #isProbing = false;

  /** Calls `lost` if a ping is not answered in time. */
  constructor(
    private readonly connection: Pick<Connection, "framesReceived" | "ping">,
    private readonly clock: Clock,
    private readonly quietMs: number,
    private readonly lost: () => void,
  ) {
    this.#rest();
  }

  /**
   * A call has ended without an answer in its time; before it the connection had received `frames`. If nothing came
   * since, the network may have swallowed the call and everything after it, as one that drops large packets does.
   */
  doubt(frames: number): void {
    if (frames === this.connection.framesReceived && !this.#isProbing) this.#probe();
  }

  stop(): void {
    this.#cancel();
  }

  #rest(): void {
    const { framesReceived } = this.connection;
    this.#isProbing = false;
    this.#wait(
      this.quietMs,
      () => this.connection.framesReceived === framesReceived ? this.#probe() : this.#rest(),
    );
  }

  #probe(): void {
    this.#isProbing = true;
    this.#wait(PING_ANSWER_MS, this.lost);
    void this.connection.ping().then(() => this.#rest());
  }

  #wait(ms: number, work: () => void): void {
    this.#cancel();
    this.#cancel = this.clock.after(ms, work);
  }
}
