/**
 * A service for every transport: a descriptor, typed handlers, and the context of one call.
 *
 * Transports (gRPC, gRPC-web, WebRTC, in memory) know only `ServiceTable`: they pass it a `RawCall` and a `RawSink` of
 * encoded messages. Handlers know only messages and a `CallContext`. Neither knows the other.
 *
 * The room owns what every transport shares: services and channels, messages and their limits, metadata, deadlines.
 */

import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  isMessage,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "./proto.ts";
import { assert, type Code, CODES, messageOf, SvcError } from "../../base/error.ts";
import type { Clock } from "../../base/clock.ts";
import type { Secret } from "../../base/secret.ts";
import { Cancellation } from "./cancellation.ts";
import { Deadlines } from "../../base/async/deadlines.ts";
import { bytesAtLeast, messageBytes } from "./message_bytes.ts";
import { Decoder, HeavyTurns } from "./decoder.ts";
import { MAX_MESSAGE_BYTES } from "./message.ts";
import type { Weight } from "./message_weight.ts";
import { Metadata } from "./metadata.ts";

/** The caller's transport. */
export interface Peer {
  /** The protocol of the call. */
  readonly kind: "grpc" | "webrtc" | "memory";
  /** The caller's IP address. Absent for calls in memory. */
  readonly remoteAddress?: string;
  /** Absent for WebRTC. */
  readonly remotePort?: number;
  /** The IP address at which the call arrived. */
  readonly localAddress?: string;
  /** The port at which the call arrived. */
  readonly localPort?: number;
  /** For WebRTC: the address that the caller signaled from, unless another signaling server brought the call. */
  readonly signaledFrom?: string;
  /** The server's address as the caller sees it: `https://host:port`. */
  readonly origin?: string;
  /** The server's address as the caller itself names it, even if a proxy on the way changes it. */
  readonly addressed?: string;
  /** The caller for whom a proxy claims to forward the call; empty if it names none. Anybody can claim this. */
  readonly forwardedFor?: string;
  /** The DNS names of the client's verified certificate. */
  readonly certificateNames?: readonly string[];
  /** The caller's identity, if the transport itself has established it. */
  readonly entity?: string;
  /**
   * Fulfilled when the caller's own connection has ended. Absent where connections come and go between calls: HTTP/1.1,
   * and behind a proxy.
   */
  readonly ended?: Promise<void>;
  /** The generation of the key that `entity` presented to the vouching signaling server, if the server says so. */
  readonly generation?: string;
  /**
   * The credentials with which a WebRTC caller was admitted, because its calls carry no token.
   *
   * @internal
   */
  readonly token?: Secret;
}

/** Loopback, or a connection from an address of this machine to itself. */
export function isOnThisMachine({ remoteAddress, localAddress }: Omit<Peer, "kind">): boolean {
  const address = remoteAddress?.replace(/^::ffff:/, "");
  if (address === undefined) return false;
  return address === "::1" || address.startsWith("127.") || address === localAddress?.replace(/^::ffff:/, "");
}

/** One call, for its handler and the interceptors. */
export interface CallContext {
  /** The description of the called method. */
  readonly method: DescMethod;
  /** `/viam.robot.v1.RobotService/GetVersion` */
  readonly path: string;
  /** What the caller sent before its first message. */
  readonly requestHeader: Metadata;
  /** Sent before the first message; set it before yielding or returning. */
  readonly responseHeader: Metadata;
  /** Sent after the last message. */
  readonly responseTrailer: Metadata;
  /** Aborts when the client goes away or cancels, at the deadline, or by `cancel`. Its reason is an `SvcError`. */
  readonly signal: AbortSignal;
  /** The transport of the call. */
  readonly peer: Peer;
  /** The first message, when it arrives; `undefined` if the call ends without one. Never rejects. */
  readonly firstRequest: Promise<Message | undefined>;
  /** The caller's proven identity, set by the gate. */
  entity?: string;
  /** @internal See `ContextValue`. */
  values?: Map<object, unknown>;
  /** Whether the handler waits for its caller to read the answer. */
  readonly unread: boolean;
  /** Ends the call with this error. */
  cancel(reason: SvcError): void;
}

/**
 * What a gate or a handler keeps of a call, for as long as the call is kept itself. A `WeakMap` by the call would keep
 * it longer: a minor garbage collection frees no key of a `WeakMap` that has become old.
 */
export class ContextValue<T> {
  get(ctx: CallContext): T | undefined {
    return ctx.values?.get(this) as T | undefined;
  }

  set(ctx: CallContext, value: T): void {
    (ctx.values ??= new Map()).set(this, value);
  }
}

/** The description of one method of a service. */
export type MethodOf<S extends DescService, K extends keyof S["method"]> = S["method"][K] & {
  methodKind: "unary" | "server_streaming" | "client_streaming" | "bidi_streaming";
  input: DescMessage;
  output: DescMessage;
};

/** The function that answers a method: one message or a stream on each side. */
export type Handler<M extends { methodKind: string; input: DescMessage; output: DescMessage }> =
  M["methodKind"] extends "unary"
    ? (request: MessageShape<M["input"]>, ctx: CallContext) => Awaitable<MessageInitShape<M["output"]>>
    : M["methodKind"] extends "server_streaming" ? (
        request: MessageShape<M["input"]>,
        ctx: CallContext,
      ) => AsyncIterable<MessageInitShape<M["output"]>>
    : M["methodKind"] extends "client_streaming" ? (
        requests: AsyncIterable<MessageShape<M["input"]>>,
        ctx: CallContext,
      ) => Awaitable<MessageInitShape<M["output"]>>
    : (
      requests: AsyncIterable<MessageShape<M["input"]>>,
      ctx: CallContext,
    ) => AsyncIterable<MessageInitShape<M["output"]>>;

/** A value, now or later. */
export type Awaitable<T> = T | Promise<T>;

/** The handlers of a service; a method without one answers UNIMPLEMENTED. */
export type ServiceImpl<S extends DescService> = {
  [K in keyof S["method"]]?: Handler<MethodOf<S, K>>;
};

/** A handler of any method. */
// deno-lint-ignore no-explicit-any
export type AnyHandler = (request: any, ctx: CallContext) => any;

/** A service with its handlers. */
export interface Service {
  /** The description of the service. */
  readonly desc: DescService;
  /** By local name of the method. */
  readonly handlers: { readonly [localName: string]: AnyHandler | undefined };
}

/** A gRPC service with its handlers. */
export function service<S extends DescService>(desc: S, handlers: ServiceImpl<S>): Service {
  return { desc, handlers: handlers as Service["handlers"] };
}

/**
 * Runs around every call, on its first message. It refuses the call by throwing; the function that it returns, if any,
 * runs once when the handler has ended, whether or not its answer has been read. `request` is the first message; it is
 * absent in an empty stream, in a call that a later gate refuses, and if both sides stream and either may begin: there
 * `ctx.firstRequest` delivers it.
 */
export type Interceptor = (
  ctx: CallContext,
  request: Message | undefined,
) => Awaitable<((error?: SvcError) => void) | void>;

/**
 * Decides who may call, in two steps; a table has at most one gate. The transport keeps next to nothing of a call's
 * messages before the first step; messages of a call without `ctx.entity` after it stay small
 * (`PUBLIC_MESSAGE_BYTES`).
 */
export interface Gate {
  /**
   * Identifies the caller by the header alone, and sets `ctx.entity`. Throws to refuse; returns as an interceptor
   * does.
   */
  authenticate(ctx: CallContext): ReturnType<Interceptor>;
  /** Whether this caller may make this request. */
  readonly authorize?: Interceptor;
  /** Runs the handler, so that what it does counts for this caller. */
  within?<T>(ctx: CallContext, serve: () => T): T;
}

/** A call from a transport: encoded messages in. */
export interface RawCall {
  readonly path: string;
  readonly header: Metadata;
  /** The client's time limit, if there is one. */
  readonly timeoutMs?: number;
  readonly peer: Peer;
  /** The transport cancels (`canceledByCaller`) when the client does or its connection ends. */
  readonly cancellation: Cancellation;
  readonly requests: AsyncIterable<Uint8Array>;
  /** The header was accepted. Before this the transport keeps as little of the messages as it can. */
  admitted?(caller: "authenticated" | "unauthenticated"): void;
  /** The decoded size of the last message. Throws if there is no room for it. */
  decoding?(bytes: number): void;
  /** The last message was refused before decoding: nobody has seen its bytes, nor will. */
  refused?(bytes: Uint8Array): void;
  /** The call was accepted, and its handler starts; for most kinds of calls the first message has arrived. */
  begun?(): void;
  /** The handler has ended: the received messages are not needed any more. */
  released?(): void;
}

/**
 * The transport's receiver of an answer: header, messages, then one end. `message` resolves when more may come, and
 * throws `resource_exhausted` if the caller has left too much unread.
 */
export interface RawSink {
  /** How many more bytes of answers may wait for their reader; unlimited if absent. */
  readonly roomBytes?: number;
  /** Throws `resource_exhausted` if there is no room for an answer of this size. */
  checkRoom?(bytes: number): void;
  header(header: Metadata): void;
  /** Takes ownership of the bytes. */
  message(bytes: Uint8Array): Promise<void> | undefined;
  end(status: Status, trailer: Metadata): void;
}

export interface Status {
  /** gRPC status number; 0 is OK. */
  readonly code: number;
  readonly message: string;
}

/** A method that a table serves. */
export interface Bound {
  readonly method: DescMethod;
  readonly handler: AnyHandler | undefined;
}

/** Default time limit of a unary call (the published limit). */
const UNARY_TIMEOUT_MS = 10 * 60 * 1000;

/** Time limit of a stream's first message; a unary call's message may be large, and has a limit of its own. */
const FIRST_MESSAGE_MS = 120_000;

/** The services of one port, and the path of a call through them. */
export class ServiceTable {
  /** The called methods of its own services, by path. */
  readonly #bound = new Map<string, Bound>();
  readonly #services = new Map<string, Service>();
  #declined: ReadonlyMap<string, string> = new Map();
  readonly #gate: Gate | undefined;
  readonly #decoder = new Decoder();
  readonly #turns: HeavyTurns;
  readonly #deadlines: Deadlines;

  /** `visiting` are services that come and go; the table's own take precedence. */
  constructor(
    private readonly clock: Clock,
    private readonly interceptors: readonly (Interceptor | Gate)[] = [],
    private readonly visiting: () => readonly Service[] = () => [],
  ) {
    const gates = interceptors.filter((one) => typeof one !== "function");
    assert(gates.length <= 1, "a table has at most one gate");
    this.#gate = gates[0];
    this.#turns = new HeavyTurns(clock);
    this.#deadlines = new Deadlines(clock);
  }

  get services(): Service[] {
    const visiting = this.visiting().filter(({ desc }) => !this.#services.has(desc.typeName));
    return [...this.#services.values(), ...visiting];
  }

  add(service: Service): void {
    this.#services.set(service.desc.typeName, service);
    this.#bound.clear();
  }

  /** Known but unserved calls, by path, each with the reason for its callers. */
  decline(calls: ReadonlyMap<string, string>): void {
    this.#declined = calls;
  }

  find(path: string): Bound | undefined {
    return this.#bound.get(path) ?? this.#bind(path);
  }

  /** A service is expanded at its first call: reading its descriptor takes time. */
  #bind(path: string): Bound | undefined {
    const [, typeName = ""] = path.split("/", 2);
    const own = this.#services.get(typeName);
    const service = own ?? this.visiting().find(({ desc }) => desc.typeName === typeName);
    const method = service?.desc.methods.find((method) => pathOf(method) === path);
    if (!service || !method) return undefined;
    const bound = { method, handler: service.handlers[method.localName] };
    if (own) this.#bound.set(path, bound);
    return bound;
  }

  /** Serves one call. Never rejects; every outcome is one `end`. */
  async handle(call: RawCall, sink: RawSink): Promise<void> {
    const bound = this.find(call.path);
    if (!bound) {
      call.released?.();
      return sink.end(unimplemented(call.path, this.#declined.get(call.path)), new Metadata());
    }

    const ctx = new Context(call, bound.method, this.#deadlines);
    const hooks = new CallHooks();
    try {
      call.cancellation.throwIfCanceled();
      // Synchronous steps are not awaited: then the first message goes straight to its reader.
      const entering = this.#authenticate(ctx, hooks);
      if (entering) await call.cancellation.race(entering);
      call.admitted?.(this.#isKnown(ctx) ? "authenticated" : "unauthenticated");
      await this.#serve(call, bound, ctx, sink, hooks);
      sink.end({ code: 0, message: "" }, ctx.responseTrailer);
    } catch (thrown) {
      const error = call.cancellation.reason ?? SvcError.from(thrown);
      hooks.closed(error);
      ctx.release(error);
      // As gRPC clients with a retry policy expect it (gRFC A6).
      if (error.retryMs !== undefined) ctx.responseTrailer.retryPushbackMs = error.retryMs;
      sink.end(statusOf(error), ctx.responseTrailer);
    } finally {
      ctx.release();
      call.released?.();
    }
  }

  async #serve(call: RawCall, { method, handler }: Bound, ctx: Context, sink: RawSink, hooks: CallHooks) {
    const requests = new Requests(call, method.input, this.#decoder, this.#turns);
    const single = method.methodKind === "unary" || method.methodKind === "server_streaming";
    const opening = single || method.methodKind === "client_streaming";
    const first = opening ? await this.#first(requests, ctx) : undefined;
    if (single && !first) {
      throw new SvcError("internal", `${ctx.path} takes one request message, got none`);
    }

    if (opening) ctx.receivedFirst(first);
    if (!handler) throw new SvcError("unimplemented", unimplemented(call.path).message);

    if (this.interceptors.length > 0) await this.#intercept(ctx, first, hooks);
    call.begun?.();

    const rest = opening ? requests : ctx.withFirst(requests);
    const serve = () => {
      const stream = first ? resumed(first, rest) : rest;
      const answer = handler(single ? first : stream, ctx);
      return respond(method, answer, ctx, sink, hooks);
    };
    await (this.#gate?.within ? this.#gate.within(ctx, serve) : serve());
  }

  #first(requests: Requests, ctx: Context): Promise<Message | undefined> {
    const first = ctx.race(requests.first());
    if (ctx.method.methodKind === "unary") return first;
    const stop = this.#deadlines.after(FIRST_MESSAGE_MS, () => {
      const limit = `${FIRST_MESSAGE_MS / 1000} s`;
      const problem = `${ctx.path} got no first message within ${limit}; send it with the call`;
      ctx.cancel(new SvcError("deadline_exceeded", problem));
    });
    return first.finally(stop);
  }

  /** Asks the gate, synchronously if it can answer so. Interceptors outside of a refusing gate still see the call. */
  #authenticate(ctx: Context, hooks: CallHooks): Promise<void> | undefined {
    const gate = this.#gate;
    const refused = async (thrown: unknown) => {
      await this.#intercept(ctx, undefined, hooks, gate);
      throw thrown;
    };
    try {
      const asked = gate?.authenticate(ctx);
      if (asked instanceof Promise) return asked.then((end) => hooks.onClose(end), refused);
      hooks.onClose(asked);
    } catch (thrown) {
      return refused(thrown);
    }
  }

  #isKnown(ctx: Context): boolean {
    return !this.#gate || ctx.entity !== undefined || ctx.peer.kind !== "grpc";
  }

  /** Runs the interceptors, or those outside of `gate`. */
  async #intercept(ctx: Context, request: Message | undefined, hooks: CallHooks, gate?: Gate): Promise<void> {
    for (const interceptor of this.interceptors) {
      if (interceptor === gate) return;
      const around = typeof interceptor === "function" ? interceptor : interceptor.authorize;
      const entering = around?.(ctx, request);
      hooks.onClose(entering instanceof Promise ? await entering : entering);
    }
  }
}

/** The messages of a call, decoded on demand. Has one reader. */
class Requests implements AsyncIterableIterator<Message> {
  readonly #encoded: AsyncIterator<Uint8Array>;
  #over = false;

  constructor(
    private readonly call: RawCall,
    private readonly desc: DescMessage,
    private readonly decoder: Decoder,
    private readonly turns: HeavyTurns,
  ) {
    this.#encoded = call.requests[Symbol.asyncIterator]();
  }

  /** The first message, if there is one. */
  async first(): Promise<Message | undefined> {
    const { value, done } = await this.#encoded.next();
    return done ? undefined : this.#decode(value);
  }

  async next(): Promise<IteratorResult<Message>> {
    if (this.#over) return { done: true, value: undefined };
    const { value, done } = await this.#encoded.next();
    this.#over ||= done === true;
    return done ? { done: true, value: undefined } : { done: false, value: await this.#decode(value) };
  }

  async return(): Promise<IteratorResult<Message>> {
    this.#over = true;
    await this.#encoded.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #decode(bytes: Uint8Array): Message | Promise<Message> {
    if (!this.turns.isLarge(bytes)) return this.#decodeWeighed(bytes, this.#weigh(bytes));
    const weighed = this.turns.take(() => this.#weigh(bytes), this.call.cancellation.signal);
    return weighed.then((weight) => this.#decodeWeighed(bytes, weight));
  }

  #decodeWeighed(bytes: Uint8Array, weight: Weight): Message | Promise<Message> {
    const decode = () => this.decoder.decodeWeighed(this.desc, bytes);
    return this.turns.isHeavy(weight) ? this.turns.take(decode, this.call.cancellation.signal) : decode();
  }

  #weigh(bytes: Uint8Array): Weight {
    try {
      const weight = this.decoder.weigh(this.desc, bytes);
      if (weight.objectBytes > 0) this.call.decoding?.(weight.objectBytes);
      return weight;
    } catch (error) {
      this.call.refused?.(bytes);
      throw error;
    }
  }
}

/** Runs the hooks of a call when its handler has ended: each once, the innermost first. */
class CallHooks {
  #onClose: ((error?: SvcError) => void)[] | undefined;

  onClose(end: ((error?: SvcError) => void) | void): void {
    if (end) (this.#onClose ??= []).unshift(end);
  }

  closed(error?: SvcError): void {
    const hooks = this.#onClose;
    this.#onClose = undefined;
    for (const end of hooks ?? []) end(error);
  }
}

/** The end of a call whose client has gone or no longer wants an answer. */
export function canceledByCaller(path: string): SvcError {
  return new SvcError("canceled", `${path} was canceled by the caller`);
}

export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

export function statusOf(error: SvcError): Status {
  return { code: CODES[error.code as Code], message: messageOf(error) };
}

function unimplemented(path: string, reason = `The server does not implement the method ${path}`): Status {
  return { code: CODES.unimplemented, message: reason };
}

class Context implements CallContext {
  entity: string | undefined;
  values?: Map<object, unknown>;
  unread = false;
  #responseHeader: Metadata | undefined;
  #responseTrailer: Metadata | undefined;
  /** The value of `firstRequest`, and its waiters. */
  #firstReceived: { readonly first: Message | undefined } | undefined;
  #firstWaiter: PromiseWithResolvers<Message | undefined> | undefined;
  readonly #call: RawCall;
  readonly #stopDeadline: (() => void) | undefined;

  constructor(call: RawCall, readonly method: DescMethod, deadlines: Deadlines) {
    this.#call = call;
    this.entity = call.peer.entity;
    const timeoutMs = call.timeoutMs ?? (method.methodKind === "unary" ? UNARY_TIMEOUT_MS : undefined);
    if (timeoutMs === undefined) return;
    this.#stopDeadline = deadlines.after(timeoutMs, () => {
      this.cancel(new SvcError("deadline_exceeded", `${this.path} did not end within ${timeoutMs} ms`));
    });
  }

  get path(): string {
    return this.#call.path;
  }

  get requestHeader(): Metadata {
    return this.#call.header;
  }

  get responseHeader(): Metadata {
    return this.#responseHeader ??= new Metadata();
  }

  get responseTrailer(): Metadata {
    return this.#responseTrailer ??= new Metadata();
  }

  get peer(): Peer {
    return this.#call.peer;
  }

  get signal(): AbortSignal {
    return this.#call.cancellation.signal;
  }

  get firstRequest(): Promise<Message | undefined> {
    this.#firstWaiter ??= Promise.withResolvers();
    if (this.#firstReceived) this.#firstWaiter.resolve(this.#firstReceived.first);
    return this.#firstWaiter.promise;
  }

  receivedFirst(first: Message | undefined): void {
    this.#firstReceived ??= { first };
    this.#firstWaiter?.resolve(first);
  }

  /** The same messages; reports the first one. */
  async *withFirst(requests: AsyncIterable<Message>): AsyncGenerator<Message> {
    for await (const request of requests) {
      this.receivedFirst(request);
      yield request;
    }
  }

  cancel(reason: SvcError): void {
    this.#call.cancellation.cancel(reason);
  }

  race<T>(work: Promise<T>): Promise<T> {
    return this.#call.cancellation.race(work);
  }

  throwIfCanceled(): void {
    this.#call.cancellation.throwIfCanceled();
  }

  /** Clears the timer; with an error, also tells the handler that the call is over. */
  release(error?: SvcError): void {
    this.receivedFirst(undefined);
    this.#stopDeadline?.();
    if (error) this.cancel(error);
    else this.#call.cancellation.settle();
  }
}

/** A stream with its first message put back. */
async function* resumed(first: Message, rest: AsyncIterable<Message>): AsyncGenerator<Message> {
  yield first;
  yield* rest;
}

async function respond(
  method: DescMethod,
  answer: unknown,
  ctx: Context,
  sink: RawSink,
  hooks: CallHooks,
): Promise<void> {
  const encode = (message: unknown) => {
    if (sink.roomBytes !== undefined && sink.roomBytes < MAX_MESSAGE_BYTES) {
      sink.checkRoom?.(bytesAtLeast(message as object));
    }
    return messageBytes(
      method.output,
      isMessage(message) ? message : create(method.output, message as Record<string, unknown>),
    );
  };
  if (method.methodKind === "unary" || method.methodKind === "client_streaming") {
    const message = answer instanceof Promise ? await ctx.race(answer) : answer;
    ctx.throwIfCanceled();
    sink.header(ctx.responseHeader);
    // The handler has ended: how long its caller reads concerns the transport only.
    void sink.message(encode(message));
    hooks.closed();
    return;
  }

  const messages = (answer as AsyncIterable<unknown>)[Symbol.asyncIterator]();
  let opened = false;
  try {
    for (;;) {
      const next = await ctx.race(messages.next());
      if (!opened) sink.header(ctx.responseHeader);
      opened = true;
      if (next.done) return hooks.closed();
      const read = sink.message(encode(next.value));
      if (!read) continue;
      ctx.unread = true;
      await ctx.race(read);
      ctx.unread = false;
    }
  } catch (error) {
    // `return` does not end a generator that is blocked in an `await`; the aborted signal does.
    void messages.return?.()?.catch(() => {});
    throw error;
  }
}
