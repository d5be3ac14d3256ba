/**
 * Calls from another signaling server: how callers reach a machine behind NAT, through its control plane.
 *
 * Owns the streams that wait there for calls: two at any time, as long as more calls are possible, so that one
 * caller does not wait for another. A broken stream is reopened after a growing pause, which differs between
 * machines. The signaling server vouches for the callers.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import type { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { type BackoffLimits, requestPauseMs } from "../../base/async/backoff.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CallOptions, ServiceClient } from "../rpc/channel.ts";
import { type BroughtCall, nextCall } from "./answer_stream.ts";
import type { Answerer } from "./answerer.ts";

/** The source of calls. */
export interface CallSource {
  /** Its name in errors. */
  readonly address: string;
  /** Makes a call with credentials, and retries it with fresh ones after a refusal. */
  signaling<T>(
    signal: AbortSignal,
    make: (signaling: ServiceClient<typeof SignalingService>, options: CallOptions) => Promise<T>,
  ): Promise<T>;
}

export interface BroughtCallsParts {
  readonly source: CallSource;
  /** The source's present names for this server. */
  readonly names: () => readonly string[];
  readonly answer: Answerer["answer"];
  /** The interval of heartbeats to ask the source for. */
  readonly heartbeatMs?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 to 1. */
  readonly random?: () => number;
}

/** Waiting streams (published), and all streams, those of unfinished calls included. */
const WAITING = 2;
const STREAMS_MAX = 8;
const RETRY_MIN_MS = 100;
const RETRY: BackoffLimits = { firstMs: 1_000, mostMs: 30_000, jitter: 1 };
/** Pause after a server without signaling: an update may add it. */
const UNSERVED_RETRY_MS = 5 * 60_000;

export class BroughtCalls {
  readonly #parts: BroughtCallsParts;
  readonly #over = new AbortController();
  /** Ends the waiting streams, so that they are reopened. */
  #waiting = new AbortController();
  readonly #streams = new Set<Promise<void>>();
  readonly #freed: Waker;
  readonly #heads: Promise<void>;
  #failures = 0;
  readonly #problems = new LogOnChange();

  constructor(parts: BroughtCallsParts) {
    this.#parts = parts;
    this.#freed = new Waker(parts.clock);
    this.#heads = Promise.all(Array.from({ length: WAITING }, () => this.#wait())).then(() => {});
  }

  /** This server's names may have changed. */
  renamed(): void {
    this.#waiting.abort(new SvcError("canceled", "this server has other names"));
    this.#waiting = new AbortController();
    this.#freed.wake();
  }

  /** Accepts no more calls. */
  async close(): Promise<void> {
    this.#over.abort(new SvcError("canceled", "the port is closed"));
    this.#freed.wake();
    await this.#heads;
    await Promise.all(this.#streams);
  }

  async #wait(): Promise<void> {
    const { source, clock, names, heartbeatMs } = this.#parts;
    const { signal: over } = this.#over;
    while (!over.aborted) {
      const hosts = names();
      if (hosts.length === 0 || this.#streams.size + WAITING > STREAMS_MAX) {
        await this.#freed.sleep(RETRY.mostMs);
        continue;
      }

      const waiting = this.#waiting.signal;
      const stream = new AbortController();
      const stop = () => stream.abort(over.aborted ? over.reason : waiting.reason);
      for (const one of [over, waiting]) one.addEventListener("abort", stop, { once: true });

      try {
        const { signal } = stream;
        const alive = () => {
          this.#failures = 0;
          this.#problems.clear();
        };
        const brought = await source.signaling(
          signal,
          (signaling, call) => nextCall({ signaling, hosts, clock, heartbeatMs, call, alive }),
        );
        waiting.removeEventListener("abort", stop);
        this.#begin(brought);
      } catch (error) {
        if (!over.aborted && !waiting.aborted) await this.#failed(SvcError.from(error));
      }
    }
  }

  #begin({ call, iceServers, over }: BroughtCall): void {
    const stream = Promise.all([this.#parts.answer(call, { iceServers }), over]).then(() => {
      this.#streams.delete(stream);
      this.#freed.wake();
    });
    this.#streams.add(stream);
  }

  /** Waits before the next try. */
  async #failed(error: SvcError): Promise<void> {
    const { source, clock, logger, random = Math.random } = this.#parts;
    const text = `no WebRTC calls through ${source.address}: ${chainOf(error)}`;
    // A server that is away, or has no signaling, is not logged.
    const isAway = ["unavailable", "unimplemented", "deadline_exceeded"].includes(error.code);
    if (this.#problems.isNew(text) && !isAway) logger.warn(text);
    else logger.debug(text);
    this.#failures++;
    const pauseMs = error.code === "unimplemented"
      ? UNSERVED_RETRY_MS * random()
      : requestPauseMs(RETRY, this.#failures, error, random);
    await clock.sleep(RETRY_MIN_MS + pauseMs, this.#over.signal).catch(() => {});
  }
}
