/**
 * A persistent connection to a machine: redials after each loss, and keeps a session, so that the machine stops
 * what this program has set in motion if the program disappears.
 *
 * One connection ends before the next one starts, and the pauses are random, so that programs do not all redial
 * a restarted machine at once.
 */

import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { requestPauseMs } from "../../base/async/backoff.ts";
import { deadline } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import { type CallOptions, type Channel, client, type ServiceClient } from "../rpc/channel.ts";
import type { Metadata } from "../rpc/metadata.ts";
import { dial, type Dialed, type DialOptions, withBothWays } from "./dial.ts";
import { ANSWER_TIMEOUT_MS, type Credentials } from "./renewed_token.ts";

/** Metadata key of a session's id. */
export const SESSION_ID = "viam-sid";
const HEARTBEATS_A_WINDOW = 5;
/** Time limit of one dial, with all of its methods. */
const DIAL_MS = 60_000;

/** A connection while it lasts. */
export interface Connected {
  readonly channel: Channel;
  readonly by: Dialed["by"];
  /** Options for calls: each ends with the connection, and has a time limit. */
  readonly limits: CallOptions & { readonly signal: AbortSignal };
}

export interface MachineLinkParts extends Omit<DialOptions, "signal" | "lost" | "credentials"> {
  /** Throws if the credentials would travel in the clear. */
  readonly credentials: () => Credentials | undefined;
  /** The longest pause after a loss; the shortest is half of it. */
  readonly pauseMs: number;
  /** A number from 0 up to 1. */
  readonly random?: () => number;
  /** Works with a connection until it is lost: rejects with the reason. */
  readonly use: (connection: Connected) => Promise<never>;
  /** Receives the reason why the last connection was lost, or failed. */
  readonly lose: (reason: string) => void;
}

export class MachineLink {
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;

  constructor(private readonly address: string, private readonly parts: MachineLinkParts) {
    this.#running = this.#run();
  }

  /** Ends the connection for good. */
  async close(reason: SvcError): Promise<void> {
    this.#closed.abort(reason);
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, pauseMs, random = Math.random, lose } = this.parts;
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const error: unknown = await this.#connection(signal).catch((reason) => reason);
      if (signal.aborted) return;
      lose(chainOf(error));
      const limits = { firstMs: pauseMs, mostMs: pauseMs, jitter: 0.5 };
      await clock.sleep(requestPauseMs(limits, 1, error, random), signal).catch(() => {});
    }
  }

  /** One connection, from the first byte to its loss; rejects with the reason. */
  async #connection(closed: AbortSignal): Promise<never> {
    const { clock, use, credentials, ...dialing } = this.parts;
    const over = new AbortController();
    const follow = () => over.abort(closed.reason);
    closed.addEventListener("abort", follow, { once: true });

    const lost = () => over.abort(new SvcError("unavailable", "the connection was lost"));
    const late = () => new SvcError("deadline_exceeded", `no connection within ${DIAL_MS / 1000} s`);
    const dialed = deadline(clock, DIAL_MS, late, over.signal);
    let channel: Channel | undefined;
    let instead: string | undefined;
    try {
      const { signal } = dialed;
      const found = await dial(this.address, { ...dialing, clock, credentials: credentials(), signal, lost });
      ({ channel, instead } = found);
      dialed.done();
      const limits = { timeoutMs: ANSWER_TIMEOUT_MS, signal: over.signal };
      const session = new KeptSession(client(RobotService, channel), found.header, limits);
      const everyMs = await session.open();
      if (everyMs !== undefined) {
        void session.keep(everyMs, (ms) => clock.sleep(ms, over.signal)).catch((error) => over.abort(error));
      }
      return await use({ channel, by: found.by, limits });
    } catch (error) {
      throw withBothWays(error, instead);
    } finally {
      dialed.done();
      closed.removeEventListener("abort", follow);
      over.abort(new SvcError("canceled", "the connection is over"));
      channel?.close();
    }
  }
}

/** This program's session at a machine. */
class KeptSession {
  #id = "";

  constructor(
    private readonly robot: ServiceClient<typeof RobotService>,
    private readonly header: Metadata,
    private readonly limits: CallOptions,
  ) {}

  /** The wanted interval of heartbeats; `undefined` on a machine without sessions. */
  async open(): Promise<number | undefined> {
    try {
      const { id, heartbeatWindow } = await this.robot.startSession({}, this.limits);
      this.#id = id;
      this.header.set(SESSION_ID, id);
      const { seconds = 0n, nanos = 0 } = heartbeatWindow ?? {};
      return (Number(seconds) * 1000 + nanos / 1e6) / HEARTBEATS_A_WINDOW;
    } catch (error) {
      if (SvcError.from(error).code === "unimplemented") return undefined;
      throw error;
    }
  }

  /** Sends heartbeats; rejects when the session cannot be kept any longer. */
  async keep(firstMs: number, sleep: (ms: number) => Promise<void>): Promise<void> {
    for (let everyMs: number | undefined = firstMs; everyMs !== undefined;) {
      await sleep(everyMs);
      try {
        await this.robot.sendSessionHeartbeat({ id: this.#id }, this.limits);
      } catch (error) {
        // Only this heartbeat was late.
        if (messageOf(error) !== "SESSION_EXPIRED") throw error;
        everyMs = await this.open();
      }
    }
  }
}
