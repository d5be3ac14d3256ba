/**
 * The client side of every transport: a `Channel` carries calls, `client` adds a service's typed methods.
 */

import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "./proto.ts";
import { SvcError } from "../../base/error.ts";
import { Decoder } from "./decoder.ts";
import { messageBytes } from "./message_bytes.ts";
import type { Metadata } from "./metadata.ts";

/** The parts of a call besides its messages. */
export interface CallOptions {
  /** Sent before the first request. */
  readonly header?: Metadata;
  /** The call fails with `deadline_exceeded` after this time. Absent means no deadline. */
  readonly timeoutMs?: number;
  /** Aborts to cancel the call. */
  readonly signal?: AbortSignal;
  /** Receives the answer's header, before the first answer. */
  readonly onHeader?: (header: Metadata) => void;
  /** Receives the answer's trailer, after the last answer. */
  readonly onTrailer?: (trailer: Metadata) => void;
}

/** A connection to a server. Calls fail with `SvcError`; a lost connection is `unavailable`. */
export interface Channel {
  /** One call: encoded requests in, encoded answers out. The iterable ends by throwing the call's error. */
  call(
    method: DescMethod,
    requests: AsyncIterable<Uint8Array>,
    options?: CallOptions,
  ): AsyncIterable<Uint8Array>;
  /** Ends the connection and every call on it, with the given error if there is one. */
  close(reason?: SvcError): void;
}

/** The function that calls a method: one message or a stream on each side. */
export type ClientMethod<M> = M extends
  { methodKind: infer K; input: infer I extends DescMessage; output: infer O extends DescMessage }
  ? K extends "unary" ? (request: MessageInitShape<I>, options?: CallOptions) => Promise<MessageShape<O>>
  : K extends "server_streaming"
    ? (request: MessageInitShape<I>, options?: CallOptions) => AsyncIterable<MessageShape<O>>
  : K extends "client_streaming" ? (
      requests: AsyncIterable<MessageInitShape<I>>,
      options?: CallOptions,
    ) => Promise<MessageShape<O>>
  : (requests: AsyncIterable<MessageInitShape<I>>, options?: CallOptions) => AsyncIterable<MessageShape<O>>
  : never;

/** The methods of a service as functions, by local name. */
export type ServiceClient<S extends DescService> = { [K in keyof S["method"]]: ClientMethod<S["method"][K]> };

/** The methods of service `desc` over `channel`, by local name. */
export function client<S extends DescService>(desc: S, channel: Channel): ServiceClient<S> {
  const methods: Record<string, unknown> = {};
  const decoder = new Decoder();
  for (const method of desc.methods) methods[method.localName] = bind(method, channel, decoder);
  return methods as ServiceClient<S>;
}

function bind(method: DescMethod, channel: Channel, decoder: Decoder) {
  const manyIn = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const manyOut = method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming";
  return (input: unknown, options?: CallOptions) => {
    const requests = encoded(method, manyIn ? input as AsyncIterable<unknown> : one(input));
    const answers = decoded(method, channel.call(method, requests, options), decoder);
    return manyOut ? answers : only(method, answers);
  };
}

async function* one(value: unknown): AsyncGenerator<unknown> {
  yield value;
}

async function* encoded(method: DescMethod, messages: AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  for await (const message of messages) {
    yield messageBytes(method.input, create(method.input, message as Record<string, unknown>));
  }
}

async function* decoded(
  method: DescMethod,
  answers: AsyncIterable<Uint8Array>,
  decoder: Decoder,
): AsyncGenerator<Message> {
  for await (const bytes of answers) yield decoder.decode(method.output, bytes);
}

async function only(method: DescMethod, answers: AsyncIterable<Message>): Promise<Message> {
  let answer: Message | undefined;
  for await (const message of answers) answer ??= message;
  if (!answer) throw new SvcError("internal", `${method.name} ended without an answer`);
  return answer;
}
