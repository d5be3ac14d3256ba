/**
 * A connection to a control plane for the programs of people: every call carries who they are.
 *
 * The API key is exchanged for a token at the first call. A token that is no longer good is exchanged again, and the
 * call repeated where that is safe: those of a single request. Keys do not travel without TLS, but to this computer
 * itself or where it is allowed.
 */

import { AuthService } from "../../proto/gen/auth_pb.ts";
import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Secret } from "../base/secret.ts";
import { type CallOptions, type Channel, client } from "../wire/channel.ts";
import { connectGrpc } from "../wire/grpc.ts";
import { Metadata } from "../wire/metadata.ts";
import type { DescMethod } from "../wire/proto.ts";
import { parseAddress } from "./client.ts";

/** How long the control plane has to answer a single request, unless a caller says otherwise. */
const ANSWER_TIMEOUT_MS = 30_000;
const KEEPALIVE_MS = 30_000;

export interface AppChannelOptions {
  /** `https://host:port`; without a scheme it is https. */
  readonly address: string;
  readonly keyId: string;
  readonly key: Secret;
  /** The key may travel without TLS to other computers. */
  readonly allowInsecureCredentials?: boolean;
  /** Who else may have signed the server's certificate (PEM). */
  readonly ca?: string;
  readonly clock: Clock;
}

/**
 * Connects at the first call, and again after a loss. Calls of a single request end with `deadline_exceeded` after
 * 30 s unless they have a time limit of their own. Throws `failed_precondition` where the key would travel in the clear.
 */
export function connectApp(options: AppChannelOptions): Channel {
  return new AppChannel(options);
}

class AppChannel implements Channel {
  readonly #options: AppChannelOptions;
  readonly #channel: Channel;
  #token: Promise<string> | undefined;

  constructor(options: AppChannelOptions) {
    const { address, allowInsecureCredentials, ca, clock } = options;
    const { target, plain } = parseAddress(address);
    if (plain && !allowInsecureCredentials && !isThisComputer(target)) {
      const problem = `an API key does not travel without TLS to ${address}`;
      throw new SvcError(
        "failed_precondition",
        `${problem}; use https, or allow it with --allow-insecure-creds`,
      );
    }
    this.#options = options;
    this.#channel = connectGrpc(target, {
      clock,
      tls: plain ? undefined : { ca },
      keepaliveMs: KEEPALIVE_MS,
    });
  }

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    if (method.methodKind !== "unary") {
      yield* this.#channel.call(method, requests, this.#signed(options, await this.#tokenFor(options)));
      return;
    }
    const limited = { ...options, timeoutMs: options.timeoutMs ?? ANSWER_TIMEOUT_MS };
    const request: Uint8Array[] = [];
    for await (const bytes of requests) request.push(bytes);
    for (let fresh = this.#token === undefined;; fresh = true) {
      const token = await this.#tokenFor(limited);
      const answer: Uint8Array[] = [];
      try {
        const calling = this.#channel.call(method, replayed(request), this.#signed(limited, token));
        for await (const bytes of calling) answer.push(bytes);
      } catch (error) {
        if (SvcError.from(error).code !== "unauthenticated") throw error;
        this.#token = undefined;
        if (fresh) throw error;
        continue;
      }
      yield* answer;
      return;
    }
  }

  close(): void {
    this.#channel.close();
  }

  #signed(options: CallOptions, token: string): CallOptions {
    return {
      ...options,
      header: Metadata.from([...options.header ?? [], ["authorization", `Bearer ${token}`]]),
    };
  }

  #tokenFor(limits: CallOptions): Promise<string> {
    return this.#token ??= this.#authenticate(limits);
  }

  async #authenticate({ timeoutMs = ANSWER_TIMEOUT_MS, signal }: CallOptions): Promise<string> {
    const { keyId: entity, key } = this.#options;
    try {
      const credentials = { type: "api-key", payload: key.reveal() };
      const auth = client(AuthService, this.#channel);
      return (await auth.authenticate({ entity, credentials }, { timeoutMs, signal })).accessToken;
    } catch (error) {
      // Whatever it was, the next call tries again.
      this.#token = undefined;
      throw error;
    }
  }
}

async function* replayed(messages: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* messages;
}

function isThisComputer(target: string): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/.test(target);
}
