/**
 * The token of a connection to a control plane: exchanged for credentials at the first use, renewed before it expires
 * and after a rejection.
 */

import { AuthService } from "../../proto/gen/auth_pb.ts";
import { type Clock, deadline, race } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import type { Secret } from "../base/secret.ts";
import { type CallOptions, type Channel, client } from "../wire/rpc/channel.ts";
import { Metadata } from "../wire/rpc/metadata.ts";
import { lifetimeMs } from "../wire/auth/tokens.ts";

export interface CloudCredentials {
  readonly type: string;
  readonly entity: string;
  readonly payload: Secret;
}

/** Gets a token by itself. */
export type IssueToken = () => Promise<string>;

type Limits = Pick<CallOptions, "timeoutMs" | "signal">;

/** Time limit of an exchange: a busy control plane may take longer for it than one call waits. */
const EXCHANGE_MS = 15_000;
/** Share of its life after which a token is renewed. */
const RENEW_SHARE = 0.9;

export class CloudToken {
  #token: Promise<string> | undefined;
  #renewAtMs = Infinity;

  constructor(
    private readonly channel: Channel,
    private readonly credentials: CloudCredentials | IssueToken,
    private readonly clock: Clock,
  ) {}

  /** Calls with a token. Exchanges a rejected token, and repeats the call once. */
  async call<T>(limits: Limits, make: (header: Metadata) => Promise<T>): Promise<T> {
    for (let fresh = !this.#isGood();; fresh = true) {
      if (!this.#isGood()) this.#token = undefined;
      const token = this.#token ??= this.#authenticate();
      try {
        const text = await this.#within(limits, token);
        return await make(Metadata.from([["authorization", `Bearer ${text}`]]));
      } catch (error) {
        const refused = SvcError.from(error).code === "unauthenticated";
        // Another call may have exchanged it meanwhile.
        if (refused && this.#token === token) this.#token = undefined;
        if (fresh || !refused) throw error;
      }
    }
  }

  /** The same for a call with many answers: repeated once as long as no answer has come. */
  async *answers<T>(limits: Limits, make: (header: Metadata) => AsyncIterable<T>): AsyncGenerator<T> {
    const [answers, first] = await this.call(limits, async (header) => {
      const answers = make(header)[Symbol.asyncIterator]();
      return [answers, await answers.next()] as const;
    });
    try {
      for (let next = first; !next.done; next = await answers.next()) yield next.value;
    } finally {
      await answers.return?.();
    }
  }

  /** Receives the failure of a call that cannot be repeated: the next one uses a new token. */
  refused(error: unknown): void {
    if (SvcError.from(error).code === "unauthenticated") this.#token = undefined;
  }

  #isGood(): boolean {
    return this.#token !== undefined && this.clock.monotonicMs() < this.#renewAtMs;
  }

  /** Waits for the exchange as long as this call may last. */
  async #within({ timeoutMs = EXCHANGE_MS, signal }: Limits, token: Promise<string>): Promise<string> {
    const late = () =>
      new SvcError("deadline_exceeded", `the exchange of credentials did not end within ${timeoutMs} ms`);
    const limit = deadline(this.clock, timeoutMs, late, signal);
    try {
      return await race(token, limit.signal);
    } finally {
      limit.done();
    }
  }

  /** All calls share the exchange, so it does not end with the call that began it. */
  async #authenticate(): Promise<string> {
    this.#renewAtMs = Infinity;
    try {
      const accessToken = await this.#issued();
      this.#renewAtMs = this.clock.monotonicMs() + RENEW_SHARE * (lifetimeMs(accessToken) ?? Infinity);
      return accessToken;
    } catch (error) {
      // After any failure the next call tries again.
      this.#token = undefined;
      throw error;
    }
  }

  async #issued(): Promise<string> {
    if (typeof this.credentials === "function") return await this.credentials();
    const { entity, type, payload } = this.credentials;
    const credentials = { type, payload: payload.reveal() };
    const { authenticate } = client(AuthService, this.channel);
    try {
      return (await authenticate({ entity, credentials }, { timeoutMs: EXCHANGE_MS })).accessToken;
    } catch (cause) {
      if (SvcError.from(cause).code !== "unauthenticated") throw cause;
      const reasons = `the ${type} ${entity} is wrong, rotated, revoked, or of another control plane`;
      throw new SvcError("unauthenticated", `${messageOf(cause)}: ${reasons}`);
    }
  }
}
