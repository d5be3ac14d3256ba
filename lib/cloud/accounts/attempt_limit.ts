/**
 * Limits sign-ins that need no password, by address: as many attempts as wrong keys. Whoever gets in owes nothing.
 */

import { TokenBucket } from "../../base/async/token_bucket.ts";
import { SvcError } from "../../base/error.ts";
import { keepNewest } from "../../wire/auth/rate_limit.ts";
import type { CloudContext } from "../access/context.ts";

/** Limit of callers whose attempts are counted; the oldest count is forgotten first. */
const COUNTED_MAX = 10_000;

export class AttemptLimit {
  /** Remaining attempts, by address. */
  readonly #left = new Map<string, TokenBucket>();

  /** `action`: in the audit log. */
  constructor(
    private readonly cloud: Pick<CloudContext, "limits" | "clock" | "audit">,
    private readonly action: string,
  ) {}

  /** Counts an attempt. Throws `resource_exhausted` after too many. */
  async requireLeft(address: string): Promise<void> {
    const bucket = this.#bucket(address);
    if (bucket.left >= 1) {
      bucket.take(1);
      return;
    }
    await this.cloud.audit.refused({ who: `address ${address}`, action: this.action }, []);
    throw new SvcError(
      "resource_exhausted",
      "too many sign-ins were begun from this address: try again in a few seconds (limit wrong_keys_per_address)",
      { retryMs: 1000 },
    );
  }

  /** Gives attempts back. */
  giveBack(address: string, attempts: number): void {
    this.#bucket(address).put(attempts);
  }

  #bucket(address: string): TokenBucket {
    const { limits, clock } = this.cloud;
    const present = this.#left.get(address) ??
      new TokenBucket(clock, { burst: limits.wrongKeysPerAddress, perSecond: 1 });
    keepNewest(this.#left, address, present, COUNTED_MAX);
    return present;
  }
}
