/**
 * Checks passwords and limits wrong ones: per address, per account and address (`wire/auth/rate_limit.ts`), and per
 * account from all addresses together. The last limit does not apply to addresses from which the person has signed in
 * before, so nobody can lock a person out by guessing.
 */

import { TokenBucket } from "../../base/async/token_bucket.ts";
import { SvcError } from "../../base/error.ts";
import { escapedLine } from "../../base/escape.ts";
import { fingerprintOf, isHashOfPassword } from "../../base/key_hash.ts";
import { addressOf, keepNewest, KeyRateLimiter } from "../../wire/auth/rate_limit.ts";
import type { Peer } from "../../wire/rpc/service.ts";
import type { CloudContext } from "../access/context.ts";
import { Accounts, checkedEmail, type StoredAccount } from "./accounts.ts";
import { PersonSessions } from "./sessions.ts";

const PASSWORD = "password";
/** Time after which an account may try one more wrong password. */
const REFILL_MS = 60_000;
/** Limit of accounts whose wrong passwords are counted; the oldest count is forgotten first. */
const COUNTED_MAX = 10_000;

export class PasswordCheck {
  readonly #attempts: KeyRateLimiter;
  /** Remaining wrong passwords, by account. */
  readonly #left = new Map<string, TokenBucket>();

  constructor(private readonly cloud: Pick<CloudContext, "store" | "clock" | "limits" | "audit" | "logger">) {
    const { store, clock, limits, audit, logger } = cloud;
    this.#attempts = new KeyRateLimiter({
      stored: {
        find: ({ id }) => new Accounts(store).kept(id),
        generation: async (hash, { key }) =>
          await isHashOfPassword(hash, key) ? fingerprintOf(hash!) : undefined,
      },
      limits: () => ({ ...limits, keyChecksAtOnce: limits.passwordChecksAtOnce }),
      clock,
      limitExceeded: async ({ address, id }) => {
        const email = escapedLine(id);
        logger.warn("too many wrong passwords; the caller is slowed down", { address, email });
        await audit.refused({ who: `address ${address}`, action: "SignIn" }, [{ kind: "key", id: email }]);
      },
    });
  }

  /**
   * The account with this address and password. Throws `unauthenticated`, in the same words and time for an address
   * without an account, and `resource_exhausted` after too many wrong passwords.
   */
  async check(email: string, password: string, peer: Peer): Promise<StoredAccount> {
    const known = emailOf(email);
    const address = addressOf(peer.remoteAddress);
    const account = await new Accounts(this.cloud.store).byEmail(known);
    if (account) await this.#requireLeft(account, address);
    const found = await this.#attempts.check({ type: PASSWORD, id: known, key: password, address });
    if (found !== undefined && account) return account;
    if (account) this.#count(account);
    throw new SvcError("unauthenticated", "the e-mail address or the password is wrong");
  }

  async #requireLeft(account: StoredAccount, address: string): Promise<void> {
    if ((this.#left.get(account.id)?.left ?? 1) >= 1) return;
    const { store, clock } = this.cloud;
    const sessions = await new PersonSessions(store).of(account.id, clock.nowMs());
    if (sessions.some((one) => addressOf(one.address) === address)) return;
    throw new SvcError(
      "resource_exhausted",
      "too many wrong passwords were tried for this account: try again in a minute, or from where you have signed in " +
        "before (limit wrong_passwords_per_account)",
      { retryMs: REFILL_MS },
    );
  }

  #count({ id }: StoredAccount): void {
    const { limits, clock } = this.cloud;
    const perSecond = 1000 / REFILL_MS;
    const left = this.#left.get(id) ??
      new TokenBucket(clock, { burst: limits.wrongPasswordsPerAccount, perSecond });
    // Never below zero: a wrong password that was not limited creates no debt.
    left.take(Math.min(1, left.left));
    keepNewest(this.#left, id, left, COUNTED_MAX);
  }
}

/** A malformed address has no account. */
function emailOf(text: string): string {
  try {
    return checkedEmail(text);
  } catch {
    return "";
  }
}
