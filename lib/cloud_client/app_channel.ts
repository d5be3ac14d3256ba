/**
 * A connection to a control plane for the programs that people use: every call carries the person's credentials.
 *
 * The first call exchanges the API key for a token. A rejected token is exchanged again, and the call is repeated if
 * that is safe: if it has a single request and no answer yet. A key travels only over TLS, to this computer itself, or
 * where the caller allows it.
 */

import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Secret } from "../base/secret.ts";
import type { CallOptions, Channel } from "../wire/rpc/channel.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { Metadata } from "../wire/rpc/metadata.ts";
import type { DescMethod } from "../wire/rpc/proto.ts";
import { parseCloudAddress } from "./client.ts";
import { CloudToken, type IssueToken } from "./cloud_token.ts";

/** Time limit of a call with a single request, unless the caller gives another. */
const ANSWER_TIMEOUT_MS = 30_000;
const KEEPALIVE_MS = 30_000;

export interface AppChannelOptions {
  /** `https://host:port`; https is assumed without a scheme. */
  readonly address: string;
  readonly keyId: string;
  readonly key: Secret;
  /** Gets a token, in place of the exchange for the key. */
  readonly issue?: IssueToken;
  /** Allows the key to travel without TLS to other computers. */
  readonly allowInsecureCredentials?: boolean;
  /** A further authority for the server's certificate (PEM). */
  readonly ca?: string;
  readonly clock: Clock;
}

/**
 * Connects at the first call, and again after a loss. Calls with a single request end with `deadline_exceeded` after
 * 30 s unless they have a time limit of their own. Throws `failed_precondition` if the key would travel in the clear.
 */
export function connectApp(options: AppChannelOptions): Channel {
  return new AppChannel(options);
}

class AppChannel implements Channel {
  readonly #channel: Channel;
  readonly #token: CloudToken;

  constructor(options: AppChannelOptions) {
    const { address, allowInsecureCredentials, ca, clock } = options;
    requireSafeWay(address, allowInsecureCredentials);
    const { target, plain } = parseCloudAddress(address);
    this.#channel = connectGrpc(target, {
      clock,
      tls: plain ? undefined : { ca },
      keepaliveMs: KEEPALIVE_MS,
      proxied: true,
    });
    const { keyId: entity, key: payload, issue } = options;
    this.#token = new CloudToken(this.#channel, issue ?? { type: "api-key", entity, payload }, clock);
  }

  async *call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): AsyncGenerator<Uint8Array> {
    if (method.methodKind === "server_streaming") return yield* this.#followed(method, requests, options);
    if (method.methodKind !== "unary") {
      // A sent stream cannot be repeated: the caller gets the refusal, and the next call a new token.
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

  /** One request and many answers: repeated as long as no answer has come. */
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

/** Throws `failed_precondition` if secrets would travel to another computer in the clear. */
export function requireSafeWay(address: string, allowInsecureCredentials = false): void {
  const { target, plain } = parseCloudAddress(address);
  if (!plain || allowInsecureCredentials || isThisComputer(target)) return;
  const problem = `an API key does not travel without TLS to ${address}`;
  throw new SvcError("failed_precondition", `${problem}; use https, or allow it with --allow-insecure-creds`);
}

function signed(options: CallOptions, authorization: Metadata): CallOptions {
  return { ...options, header: Metadata.from([...options.header ?? [], ...authorization]) };
}

/** Time limit for the exchange of a token when the call itself has none. */
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
