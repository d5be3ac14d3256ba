/**
 * Keys that callers show: how many wrong ones anybody may try, and how many are checked at once.
 *
 * Checking a key costs a slow hash, so whoever sends wrong ones could keep the processor from others. Wrong keys use up
 * the tokens of their address (unknown ids) or of the id together with the address, which come back one a second: an
 * attacker behind the same address does not use up those of a neighbour's id. A key that was right before is known by
 * a digest that lives in this process alone, and is let in at once, whatever others try under its id.
 *
 * Counts are those of this process, and what it remembers of callers is bounded.
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
  /** Of one id, in a row, from one address. */
  readonly wrongKeysPerKey: number;
  /** Keys that are checked at the same time; more of them wait. */
  readonly keyChecksAtOnce: number;
}

/** Where the keys are. */
export interface KeyBook {
  /** What is kept of the key of the attempt's id, such as its hash; another text for another key. */
  kept(attempt: Attempt): Promise<string | undefined>;
  /** The generation of the key if it is the one that `kept` was kept of. Takes its time where nothing is kept, too. */
  generation(kept: string | undefined, attempt: Attempt): Promise<string | undefined>;
}

export interface AttemptsParts {
  readonly book: KeyBook;
  /** Those at this time. */
  readonly limits: () => AttemptLimits;
  readonly clock: Clock;
  /** Hears once of each episode: of the first wrong key that is one too many, until ten quiet minutes later. */
  readonly episode: (attempt: Attempt) => Promise<void>;
}

const REFILL_MS = 1_000;
/** Those who have been quiet for so long begin anew. */
const FORGET_MS = 10 * 60_000;
/** Of whom something is remembered; the oldest are forgotten first. */
const REMEMBERED_MAX = 10_000;
const GOOD_MAX = 10_000;
/** Callers who wait for their key to be checked. */
const WAITING_MAX = 256;

interface Tries {
  tokens: number;
  atMs: number;
  told: boolean;
}

export class Attempts {
  readonly #tries = new Map<string, Tries>();
  /** The digest of the right key, with what it was right for, and its generation, by its id. */
  readonly #good = new Map<string, { readonly digest: string; readonly generation: string }>();
  readonly #secret = randomBytes(32);
  readonly #waiting: (() => void)[] = [];
  #checking = 0;

  constructor(private readonly parts: AttemptsParts) {}

  /** The generation of the key if it is the right one. Throws `resource_exhausted` where too many wrong ones were tried. */
  async check(attempt: Attempt): Promise<string | undefined> {
    const { book, limits } = this.parts;
    const { address, key } = attempt;
    const id = `${attempt.type} ${attempt.id}`;
    const kept = await book.kept(attempt);
    if (kept === undefined) {
      // Nobody has this id: nothing to compare with, but to answer no faster than for one that somebody has.
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
    // It was no wrong one.
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
