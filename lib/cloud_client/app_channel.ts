/**
 * A connection to a control plane for the programs of people: every call carries who they are.
 *
 * The API key is exchanged for a token at the first call. A token that is no longer good is exchanged again, and the
 * call repeated where that is safe: those of a single request without an answer yet. Keys do not travel without TLS, but to this computer
 * itself or where it is allowed.
 */

import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Secret } from "../base/secret.ts";
import type { CallOptions, Channel } from "../wire/channel.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { Metadata } from "../wire/metadata.ts";
import type { DescMethod } from "../wire/proto.ts";
import { parseAddress } from "./client.ts";
import { CloudToken } from "./cloud_token.ts";

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
  readonly #channel: Channel;
  readonly #token: CloudToken;

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
    this.#channel = connectGrpc(target, {
      clock,
      tls: plain ? undefined : { ca },
      keepaliveMs: KEEPALIVE_MS,
    });
    const { keyId: entity, key: payload } = options;
    this.#token = new CloudToken(this.#channel, { type: "api-key", entity, payload }, clock);
  }

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    if (method.methodKind === "server_streaming") return yield* this.#followed(method, requests, options);
    if (method.methodKind !== "unary") {
      // What has been sent cannot be sent again: a refusal is the caller's, the next call has a new token.
      const header = await this.#token.call(limitsOf(options), (header) => Promise.resolve(header));
      try {
        yield* this.#channel.call(method, requests, signed(options, header));
      } catch (error) {
        this.#token.refused(error);
        throw error;
      }
      return;
    }
    const limited = { ...options, timeoutMs: options.timeoutMs ?? ANSWER_TIMEOUT_MS };
    const request = await all(requests);
    yield* await this.#token.call(
      limited,
      (header) => all(this.#channel.call(method, replayed(request), signed(limited, header))),
    );
  }

  /** One request and many answers: made again as long as none has come. */
  async *#followed(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions,
  ): AsyncGenerator<Uint8Array> {
    const request = await all(requests);
    yield* this.#token.answers(
      limitsOf(options),
      (header) => this.#channel.call(method, replayed(request), signed(options, header)),
    );
  }

  close(): void {
    this.#channel.close();
  }
}

function signed(options: CallOptions, [authorization]: Metadata): CallOptions {
  return { ...options, header: Metadata.from([...options.header ?? [], authorization]) };
}

/** Of the exchange of a token, for a call that may itself take as long as it likes. */
function limitsOf({ timeoutMs = ANSWER_TIMEOUT_MS, signal }: CallOptions): CallOptions {
  return { timeoutMs, signal };
}

async function all(messages: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  return await Array.fromAsync(messages);
}

async function* replayed(messages: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* messages;
}

function isThisComputer(target: string): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/.test(target);
}
