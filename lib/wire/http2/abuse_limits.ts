/**
 * Rate limits for frames that cost us more than the peer, or that achieve nothing.
 *
 * Each limit is a token bucket. Frames that well-behaved peers send in answer to ours (window updates for our data,
 * pings about it, resets that crossed our answer) are refunded by what we send. A peer that exceeds a limit gets
 * ENHANCE_YOUR_CALM and loses the connection. For the costliest actions all connections of a port share a further
 * bucket: when it is empty, the connections that used most of it end.
 */

import { type BucketLimits, TokenBucket } from "../../base/async/token_bucket.ts";
import type { Clock } from "../../base/clock.ts";

interface AbuseLimit extends BucketLimits {
  /** Its name in the error of a peer that exceeds it. */
  readonly what: string;
  /** The bucket that all connections of a port share. */
  readonly together?: BucketLimits;
}

const MiB = 1024 * 1024;

const ABUSE_LIMITS = {
  /** Streams that the peer opens and resets, or makes us reset: each was a wasted call. */
  resets: {
    what: "reset streams",
    burst: 2000,
    perSecond: 200,
    together: { burst: 4000, perSecond: 1000 },
  },
  /** Entries of SETTINGS; the frame itself counts as one more. */
  settings: { what: "settings", burst: 1000, perSecond: 100 },
  /** Each one forces an answer. */
  pings: { what: "pings", burst: 2000, perSecond: 500 },
  /** WINDOW_UPDATE. */
  windowUpdates: { what: "window updates", burst: 20_000, perSecond: 5000 },
  /** Frames without effect: empty DATA and CONTINUATION, PRIORITY, unknown types, closed streams. */
  idle: { what: "frames without effect", burst: 5000, perSecond: 500 },
  /** Unpacked header fields beyond a call's usual size. */
  headerBytes: {
    what: "header fields",
    burst: 16 * MiB,
    perSecond: 8 * MiB,
    together: { burst: 32 * MiB, perSecond: 16 * MiB },
  },
} satisfies Record<string, AbuseLimit>;

export type AbuseKind = keyof typeof ABUSE_LIMITS;

/** When the shared bucket is empty, each connection may still use this share of its own bucket. */
const MODEST_SHARE = 1 / 10;

/** The buckets that all connections of a port share. */
export class PortAbuseLimits {
  readonly #left = new Map<AbuseKind, TokenBucket>();

  constructor(clock: Clock) {
    for (const [name, { together }] of Object.entries<AbuseLimit>(ABUSE_LIMITS)) {
      if (together) this.#left.set(name as AbuseKind, new TokenBucket(clock, together));
    }
  }

  /** Takes tokens; false if there were too few. */
  take(name: AbuseKind, amount: number): boolean {
    return this.#left.get(name)?.take(amount) ?? true;
  }
}

/** The limits of one connection. */
export class AbuseLimits {
  readonly #left = new Map<AbuseKind, TokenBucket>();

  constructor(private readonly clock: Clock, private readonly port?: PortAbuseLimits) {}

  /** Takes tokens; returns the problem if there were too few. */
  charge(name: AbuseKind, amount: number): string | undefined {
    if (amount === 0) return undefined;
    const left = this.#of(name);
    const enough = left.take(amount);
    const enoughForAll = this.port?.take(name, amount) ?? true;
    if (enough && (enoughForAll || left.usedShare <= MODEST_SHARE)) return undefined;
    return `too many ${ABUSE_LIMITS[name].what}`;
  }

  /** Allows the peer to answer what it was sent. */
  allowAnswers(): void {
    this.#refund("windowUpdates", 2);
    this.#refund("pings", 1);
    this.#refund("idle", 1);
  }

  #refund(name: AbuseKind, amount: number): void {
    this.#left.get(name)?.put(amount);
  }

  #of(name: AbuseKind): TokenBucket {
    let left = this.#left.get(name);
    if (!left) this.#left.set(name, left = new TokenBucket(this.clock, ABUSE_LIMITS[name]));
    return left;
  }
}
