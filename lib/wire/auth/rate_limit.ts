/**
 * The authentication rate limiter: limits the wrong keys that a caller may try, and the concurrent checks of keys.
 *
 * Checking a key costs a slow hash, so an attacker with wrong keys could take the processor from others. Each wrong key
 * takes a token from a bucket that refills by one a second: the bucket of the caller's address if the id is unknown,
 * else the bucket of the id and the address together. So an attacker behind the same address does not use up the bucket
 * of a neighbour's id. A key that was right before is recognized by a digest in the memory of this process, and gets in
 * at once, even while others try wrong keys for its id. All others wait for one of a few checks in turns that are fair
 * among the owners of the ids, so wrong keys for one organization's ids delay no login of another.
 *
 * Each process counts for itself, and remembers a bounded number of callers.
 */

import { createHmac, randomBytes } from "node:crypto";
import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import { type BucketLimits, TokenBucket } from "../../base/async/token_bucket.ts";
import { CallerTurns } from "../../base/async/turns.ts";
import { SvcError } from "../../base/error.ts";
import { type Clock, deadline } from "../../base/clock.ts";

/** An attempt to authenticate with a key. */
export interface Attempt {
  /** The type of the credentials; equal ids of different types are unrelated. */
  readonly type: string;
  readonly address: string;
  readonly id: string;
  readonly key: string;
}

/** The limits of the rate limiter. */
export interface KeyRateLimits {
  /** Limit of wrong keys for unknown ids from one address, in a row. */
  readonly wrongKeysPerAddress: number;
  /** Limit of wrong keys for one id from one address, in a row. */
  readonly wrongKeysPerKey: number;
  /** Limit of concurrent checks; further keys wait. */
  readonly keyChecksAtOnce: number;
}

/** A stored key. */
export interface StoredKey {
  /** Such as its hash. Different keys have different forms. */
  readonly form: string;
  /** Who shares the checks with other owners, such as the key's organization. */
  readonly owner: string;
}

/** The stored keys. */
export interface StoredKeys {
  /** The stored key with the attempt's id. */
  find(attempt: Attempt): Promise<StoredKey | undefined>;
  /** The generation of the attempt's key if it matches the form. Takes the same time if that is undefined. */
  generation(form: string | undefined, attempt: Attempt): Promise<string | undefined>;
}

export interface KeyRateLimiterParts {
  readonly stored: StoredKeys;
  /** The present limits. */
  readonly limits: () => KeyRateLimits;
  readonly clock: Clock;
  /** Called for the first wrong key beyond the limit, and again only after ten quiet minutes. */
  readonly limitExceeded: (attempt: Attempt) => Promise<void>;
}

/** Tokens that each bucket regains per second. */
const PER_SECOND = 1;
/** A caller without attempts for this long has a full bucket again. */
const FORGET_MS = 10 * 60_000;
/** Limit of remembered callers; the oldest are forgotten first. */
const REMEMBERED_MAX = 10_000;
/** Limits of remembered right keys: in total, and per owner. */
const GOOD_SHARES = [10_000, 5_000];
/** Limits of callers that wait for the check of their key: in total, per owner, and per id. */
const WAITING_SHARES = [256, 128, 32] as const;
/** The longest wait for a check. */
const CHECK_WAIT_MS = 30_000;

interface GoodKey {
  readonly digest: string;
  readonly generation: string;
  readonly slot: PoolHolder;
}

interface KeyBucket {
  readonly tokens: TokenBucket;
  /** Time of the last attempt. */
  atMs: number;
  reported: boolean;
}

export class KeyRateLimiter {
  readonly #buckets = new Map<string, KeyBucket>();
  readonly #ofAddress: BucketLimits;
  readonly #ofKey: BucketLimits;
  /** By id: the digest of the right key and its stored form, and the key's generation. */
  readonly #good = new Map<string, GoodKey>();
  readonly #goodSlots: SharedPool;
  readonly #secret = randomBytes(32);
  readonly #turns: CallerTurns;

  constructor(private readonly parts: KeyRateLimiterParts) {
    const { clock, limits } = parts;
    const what = "checks of keys";
    const turns = {
      get turnsMax() {
        return limits().keyChecksAtOnce;
      },
      turnsOfGroupMax: Infinity,
      waiting: WAITING_SHARES,
      what,
    };
    this.#turns = new CallerTurns(turns, clock);
    this.#ofAddress = {
      get burst() {
        return limits().wrongKeysPerAddress;
      },
      perSecond: PER_SECOND,
    };
    this.#ofKey = {
      get burst() {
        return limits().wrongKeysPerKey;
      },
      perSecond: PER_SECOND,
    };

    const levels = ["this server", "one owner"];
    this.#goodSlots = new SharedPool(
      { shares: GOOD_SHARES, levels, what: "right keys", replaces: true },
      clock,
    );
  }

  /**
   * The generation of a right key; `undefined` for a wrong one. Throws `resource_exhausted` after too many wrong keys.
   */
  async check(attempt: Attempt): Promise<string | undefined> {
    const { stored } = this.parts;
    const { address, key } = attempt;
    const id = `${attempt.type} ${attempt.id}`;
    const found = await stored.find(attempt);
    if (found === undefined) {
      // An unknown id takes as long as a known one, so that the time of the answer reveals nothing.
      await this.#takeToken(`address ${address}`, this.#ofAddress, attempt);
      await this.#checkInTurn(undefined, attempt);
      return undefined;
    }

    const digest = createHmac("sha256", this.#secret).update(`${found.form} ${key}`).digest("base64");
    const good = this.#good.get(id);
    if (good?.digest === digest) {
      good.slot.used();
      return good.generation;
    }

    const who = `${id} ${address}`;
    await this.#takeToken(who, this.#ofKey, attempt);

    const generation = await this.#checkInTurn(found, attempt);
    if (generation === undefined) return undefined;

    // The key was right.
    this.#buckets.delete(who);
    this.#remember(id, found.owner, digest, generation);
    return generation;
  }

  #remember(id: string, owner: string, digest: string, generation: string): void {
    this.#good.get(id)?.slot.release();
    const place = this.#goodSlots.take([owner], () => this.#good.delete(id));
    this.#good.set(id, { digest, generation, slot: place });
  }

  async #takeToken(who: string, limits: BucketLimits, attempt: Attempt): Promise<void> {
    const { clock } = this.parts;
    const nowMs = clock.monotonicMs();
    const known = this.#buckets.get(who);
    const fresh = known === undefined || nowMs - known.atMs > FORGET_MS;
    const bucket = fresh ? { tokens: new TokenBucket(clock, limits), atMs: nowMs, reported: false } : known;
    bucket.atMs = nowMs;

    keepNewest(this.#buckets, who, bucket, REMEMBERED_MAX);
    if (bucket.tokens.left >= 1) {
      bucket.tokens.take(1);
      return;
    }

    const reported = bucket.reported;
    bucket.reported = true;
    if (!reported) await this.parts.limitExceeded(attempt);

    throw tooMany();
  }

  /** Waits for a turn, then checks a key. */
  async #checkInTurn(found: StoredKey | undefined, attempt: Attempt): Promise<string | undefined> {
    const { stored, clock } = this.parts;
    const over = deadline(clock, CHECK_WAIT_MS, tooMany);
    try {
      const owner = found?.owner ?? `address ${attempt.address}`;
      const leave = await this.#turns.enter([owner, attempt.id], over.signal).catch(() => {
        throw tooMany();
      });
      try {
        return await stored.generation(found?.form, attempt);
      } finally {
        leave();
      }
    } finally {
      over.done();
    }
  }
}

/** The address under which wrong keys count; for IPv6 the network, because every subscriber has a whole one. */
export function addressOf(remoteAddress: string | undefined): string {
  const address = remoteAddress?.replace(/^::ffff:(?=\d+\.)/, "") ?? "none";
  if (!address.includes(":")) return address;
  const [front = "", back] = address.replace(/%.*$/, "").split("::");
  const groups = front === "" ? [] : front.split(":");
  const after = back === undefined || back === "" ? [] : back.split(":");
  const zeros = back === undefined ? [] : Array(Math.max(0, 8 - groups.length - after.length)).fill("0");
  return `${[...groups, ...zeros, ...after].slice(0, 4).join(":")}::/64`;
}

/** Puts an entry at the end of a map, which loses its first one beyond `max`. */
export function keepNewest<T>(map: Map<string, T>, name: string, value: T, max: number): void {
  map.delete(name);
  if (map.size >= max) map.delete(map.keys().next().value!);
  map.set(name, value);
}

function tooMany(): SvcError {
  return new SvcError(
    "resource_exhausted",
    `too many wrong keys were tried: try again in ${RETRY_S} s (limits wrong_keys_per_address, wrong_keys_per_key)`,
    { retryMs: RETRY_S * 1000 },
  );
}

/** When a refused caller may try again. */
const RETRY_S = 2;
