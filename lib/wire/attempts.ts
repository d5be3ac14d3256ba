/**
 * Limits for the checks of callers' keys: how many wrong keys a caller may try, and how many checks run at the same
 * time.
 *
 * Checking a key costs a slow hash, so an attacker with wrong keys could take the processor from others. Each wrong key
 * takes a token from a bucket that refills by one a second: the bucket of the caller's address if the id is unknown,
 * else the bucket of the id and the address together. So an attacker behind the same address does not use up the bucket
 * of a neighbour's id. A key that was right before is recognized by a digest in the memory of this process, and gets in
 * at once, even while others try wrong keys for its id.
 *
 * Each process counts for itself, and remembers a bounded number of callers.
 */

import { createHmac, randomBytes } from "node:crypto";
import { SvcError } from "../base/error.ts";
import type { Clock } from "../base/clock.ts";

/** Who shows a key. */
export interface Attempt {
  /** The type of the credentials; an id of one type says nothing of the same id of another. */
  readonly type: string;
  readonly address: string;
  readonly id: string;
  readonly key: string;
}

/** How many wrong keys are too many. */
export interface AttemptLimits {
  /** Of unknown ids, in a row, from one address. */
  readonly wrongKeysPerAddress: number;
  /** Limit of wrong keys for one id from one address, in a row. */
  readonly wrongKeysPerKey: number;
  /** Limit of concurrent checks; further keys wait. */
  readonly keyChecksAtOnce: number;
}

/** The stored keys. */
export interface KeyBook {
  /** The stored form of the key with the attempt's id, such as its hash. Different keys have different forms. */
  kept(attempt: Attempt): Promise<string | undefined>;
  /** The generation of the attempt's key if it matches `kept`. Takes the same time if `kept` is undefined. */
  generation(kept: string | undefined, attempt: Attempt): Promise<string | undefined>;
}

export interface AttemptsParts {
  readonly book: KeyBook;
  /** The present limits. */
  readonly limits: () => AttemptLimits;
  readonly clock: Clock;
  /** Called for the first wrong key beyond the limit, and again only after ten quiet minutes. */
  readonly episode: (attempt: Attempt) => Promise<void>;
}

const REFILL_MS = 1_000;
/** A caller without attempts for this long has a full bucket again. */
const FORGET_MS = 10 * 60_000;
/** Limit of remembered callers; the oldest are forgotten first. */
const REMEMBERED_MAX = 10_000;
const GOOD_MAX = 10_000;
/** Limit of callers that wait for the check of their key. */
const WAITING_MAX = 256;

interface Tries {
  tokens: number;
  atMs: number;
  told: boolean;
}

export class Attempts {
  readonly #tries = new Map<string, Tries>();
  /** By id: the digest of the right key and its stored form, and the key's generation. */
  readonly #good = new Map<string, { readonly digest: string; readonly generation: string }>();
  readonly #secret = randomBytes(32);
  readonly #waiting: (() => void)[] = [];
  #checking = 0;

  constructor(private readonly parts: AttemptsParts) {}

  /**
   * The generation of a right key; `undefined` for a wrong one. Throws `resource_exhausted` after too many wrong keys.
   */
  async check(attempt: Attempt): Promise<string | undefined> {
    const { book, limits } = this.parts;
    const { address, key } = attempt;
    const id = `${attempt.type} ${attempt.id}`;
    const kept = await book.kept(attempt);
    if (kept === undefined) {
      // An unknown id takes as long as a known one, so that the time of the answer reveals nothing.
      await this.#take(`address ${address}`, limits().wrongKeysPerAddress, attempt);
      await this.#inTurn(kept, attempt);
      return undefined;
    }
    const digest = createHmac("sha256", this.#secret).update(`${kept} ${key}`).digest("base64");
    const good = this.#good.get(id);
    if (good?.digest === digest) return good.generation;
    const who = `${id} ${address}`;
    await this.#take(who, limits().wrongKeysPerKey, attempt);
    const generation = await this.#inTurn(kept, attempt);
    if (generation === undefined) return undefined;
    // The key was right.
    this.#tries.delete(who);
    keep(this.#good, id, { digest, generation }, GOOD_MAX);
    return generation;
  }

  async #take(who: string, burst: number, attempt: Attempt): Promise<void> {
    const nowMs = this.parts.clock.monotonicMs();
    const known = this.#tries.get(who);
    const fresh = known === undefined || nowMs - known.atMs > FORGET_MS;
    const tries = fresh ? { tokens: burst, atMs: nowMs, told: false } : known;
    tries.tokens = Math.min(burst, tries.tokens + (nowMs - tries.atMs) / REFILL_MS);
    tries.atMs = nowMs;
    keep(this.#tries, who, tries, REMEMBERED_MAX);
    if (tries.tokens >= 1) {
      tries.tokens--;
      return;
    }
    const told = tries.told;
    tries.told = true;
    if (!told) await this.parts.episode(attempt);
    throw tooMany();
  }

  /** Checks a key when it is its turn. */
  async #inTurn(kept: string | undefined, attempt: Attempt): Promise<string | undefined> {
    const { book, limits } = this.parts;
    if (this.#checking >= limits().keyChecksAtOnce) {
      if (this.#waiting.length >= WAITING_MAX) throw tooMany();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#checking++;
    try {
      return await book.generation(kept, attempt);
    } finally {
      // The place goes to who waits longest, or is free.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#checking--;
    }
  }
}

/** The address as which wrong keys are counted: of IPv6 the network, as everybody has a whole one. */
export function addressOf(remoteAddress: string | undefined): string {
  const address = remoteAddress?.replace(/^::ffff:(?=\d+\.)/, "") ?? "none";
  if (!address.includes(":")) return address;
  const [front, back] = address.replace(/%.*$/, "").split("::");
  const groups = front === "" ? [] : front.split(":");
  const after = back === undefined || back === "" ? [] : back.split(":");
  const zeros = back === undefined ? [] : Array(Math.max(0, 8 - groups.length - after.length)).fill("0");
  return `${[...groups, ...zeros, ...after].slice(0, 4).join(":")}::/64`;
}

function keep<T>(map: Map<string, T>, name: string, value: T, max: number): void {
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

/** For callers who can be told when to try again. */
const RETRY_S = 2;
