/**
 * A channel to a machine whose token is exchanged again before it ends, so that a client may stay for years.
 *
 * The machine may see its end earlier than this computer, whose clock differs or which has slept. So a call with one
 * request that is refused before its first answer is repeated once, with a new token.
 */

import { AuthService } from "../../../proto/gen/auth_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Secret } from "../../base/secret.ts";
import { lifetimeMs } from "../auth/tokens.ts";
import { type CallOptions, type Channel, client } from "../rpc/channel.ts";
import { Metadata } from "../rpc/metadata.ts";

export interface Credentials {
  readonly entity: string;
  readonly type: string;
  readonly payload: Secret;
}

/** Time limits for the machine, and for a signaling server. */
export const ANSWER_TIMEOUT_MS = 10_000;
/** Share of its life after which a token is exchanged. */
const RENEW_SHARE = 0.9;
/** Pause after a failed exchange; the present token may still be good. */
const RETRY_MS = 60_000;

export class RenewedToken {
  #renewAtMs = Infinity;
  #renewing: Promise<void> | undefined;

  #token = "";

  /** The channel sends no token of its own: a server exchanges none for a caller that has one. */
  constructor(
    private readonly channel: Channel,
    private readonly credentials: Credentials,
    private readonly clock: Clock,
  ) {}

  /** Exchanges the credentials for a token. */
  async issue(signal?: AbortSignal): Promise<void> {
    const { entity, type, payload } = this.credentials;
    const { authenticate } = client(AuthService, this.channel);
    const request = { entity, credentials: { type, payload: payload.reveal() } };
    const { accessToken } = await authenticate(request, { timeoutMs: ANSWER_TIMEOUT_MS, signal });
    this.#token = accessToken;
    this.#renewAtMs = this.clock.monotonicMs() + RENEW_SHARE * (lifetimeMs(accessToken) ?? Infinity);
  }

  /** The channel, whose calls have a token that is good. */
  renewed(): Channel {
    return {
      call: (method, requests, options) => {
        const asksOnce = method.methodKind === "unary" || method.methodKind === "server_streaming";
        if (asksOnce) return this.#askOnce(method, requests, options);
        return this.#isDue
          ? this.#askLater(method, requests, options)
          : this.#call(method, requests, options);
      },
      close: (reason) => this.channel.close(reason),
    };
  }

  get #isDue(): boolean {
    return this.clock.monotonicMs() >= this.#renewAtMs;
  }

  async *#askLater(...[method, requests, options]: Parameters<Channel["call"]>): AsyncGenerator<Uint8Array> {
    await this.#renew();
    yield* this.#call(method, requests, options);
  }

  #call(...[method, requests, options = {}]: Parameters<Channel["call"]>): AsyncIterable<Uint8Array> {
    const own = ["authorization", `Bearer ${this.#token}`] as const;
    const header = Metadata.from([own, ...options.header ?? []]);
    return this.channel.call(method, requests, { ...options, header });
  }

  async *#askOnce(
    method: Parameters<Channel["call"]>[0],
    requests: AsyncIterable<Uint8Array>,
    options?: CallOptions,
  ): AsyncGenerator<Uint8Array> {
    if (this.#isDue) await this.#renew();
    const asked = new AskedRequests(requests);
    const used = this.#token;
    let isAnswered = false;
    try {
      for await (const answer of this.#call(method, asked.first(), options)) {
        isAnswered = true;
        yield answer;
      }
      return;
    } catch (error) {
      const isRefused = !isAnswered && SvcError.from(error).code === "unauthenticated";
      if (!isRefused || !asked.mayRepeat) throw error;
      // Another call may have exchanged it meanwhile.
      if (this.#token === used) await this.#renew();
      if (this.#token === used) throw error;
    }
    yield* this.#call(method, asked.again(), options);
  }

  /** Exchanges the token, once for all calls. Never throws: the present token decides. */
  #renew(): Promise<void> {
    return this.#renewing ??= this.issue().catch(() => {
      this.#renewAtMs = this.clock.monotonicMs() + RETRY_MS;
    }).finally(() => this.#renewing = undefined);
  }
}

/** Requests that can be sent a second time. */
class AskedRequests {
  readonly #read: Uint8Array[] = [];
  #isBegun = false;

  constructor(private readonly requests: AsyncIterable<Uint8Array>) {}

  /** Whether none is lost: a server may refuse a call before it reads the request, or after. */
  get mayRepeat(): boolean {
    return !this.#isBegun || this.#read.length > 0;
  }

  async *first(): AsyncGenerator<Uint8Array> {
    this.#isBegun = true;
    for await (const request of this.requests) {
      this.#read.push(request);
      yield request;
    }
  }

  async *again(): AsyncGenerator<Uint8Array> {
    if (this.#isBegun) yield* this.#read;
    else yield* this.requests;
  }
}
