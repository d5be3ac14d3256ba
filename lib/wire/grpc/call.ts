/**
 * One call of a gRPC client: sends and receives on a stream, and moves to another stream for a retry.
 *
 * A server that refuses a stream, or closes the connection before it looks at the stream, states that it has not
 * processed the call. Such a call is retried with the same messages, at once and then after pauses (source: gRPC's
 * proposal A6, transparent retries). There are no retries once any part of the answer has arrived.
 */

import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { CallOptions } from "../rpc/channel.ts";
import { decodeStatusText, isGrpc, metadataOf } from "../rpc/message.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { Connection } from "../http2/connection.ts";
import { H2 } from "../http2/frame.ts";
import type { StreamListener } from "../http2/stream.ts";
import { MessageReader } from "../rpc/message_reader.ts";
import { CallTimers } from "./call_timers.ts";
import { OutgoingMessages } from "./outgoing_messages.ts";

/** Tries of a call. */
const MAX_TRIES = 5;
/**
 * The second try follows at once; the first of these pauses comes before the third, and each further one is twice as
 * long. The jitter keeps calls that were refused together from returning together.
 */
const RETRY: BackoffLimits = { firstMs: 120, mostMs: 1_000, jitter: 0.3 };

/** The queue of calls that wait for a stream; it calls their `begin`. */
export interface StreamQueue {
  enter(call: ClientCall): void;
  leave(call: ClientCall): void;
  /** What a call waits for that has no stream yet. */
  lack(): string;
}

/** What a call tells of its connection. */
export interface CallLink {
  /** The server has answered. */
  noteAnswer(): void;
  /** No answer came in the time of the call. */
  noteSilence(): void;
}

/** How much of the answer has arrived: nothing, its headers, or its status. */
type AnswerPhase = "none" | "headers" | "status";

/** Listens to its stream; ends at the status, at the deadline or when the caller cancels. */
export class ClientCall implements StreamListener {
  readonly answers: MessageReader;
  readonly signal: AbortSignal;
  /** Failed tries. */
  tries = 0;
  readonly #over = new AbortController();
  readonly #timers: CallTimers;
  readonly #outgoing: OutgoingMessages;
  #link: CallLink | undefined;
  #phase: AnswerPhase = "none";
  #finished = false;

  constructor(
    readonly path: string,
    readonly options: CallOptions,
    clock: Clock,
    private readonly queue: StreamQueue,
  ) {
    const { timeoutMs, signal } = options;
    this.signal = this.#over.signal;
    this.#outgoing = new OutgoingMessages(path);
    this.answers = new MessageReader({ taken: (bytes) => this.#outgoing.stream?.consumed(bytes) });

    this.#timers = new CallTimers(clock, timeoutMs, () => {
      const problem = this.#outgoing.stream
        ? `${path} did not end within ${timeoutMs} ms`
        : `${path} did not begin within ${timeoutMs} ms: ${queue.lack()}`;
      this.cancel(new SvcError("deadline_exceeded", problem));
      if (this.#phase === "none") this.#link?.noteSilence();
    });
    if (signal) this.#timers.onAbort(signal, () => this.cancel(aborted(signal, path)));
  }

  get remainingMs(): number | undefined {
    return this.#timers.remainingMs;
  }

  /** Opens a stream for the call and sends what is ready. */
  begin(connection: Connection, fields: HeaderFields, link: CallLink): void {
    this.#link = link;
    let stream;
    try {
      stream = connection.request(fields, false, this);
    } catch (error) {
      return this.cancel(SvcError.from(error));
    }
    this.#outgoing.begin(stream);
  }

  /** Sends the only message, if there is one; called before `begin`. */
  sendOnly(only: IteratorResult<Uint8Array>): void {
    this.#outgoing.sendOnly(only);
  }

  /** Sends every message, starting with `begin`. */
  sendAll(outgoing: AsyncIterator<Uint8Array>): void {
    void this.#outgoing.sendAll(outgoing, () => this.#finished)
      .catch((error) => this.cancel(SvcError.from(error)));
  }

  /** A try has failed with `error`, unprocessed by the server: retries, or fails the call after the last one. */
  tryAgain(error: SvcError): void {
    this.tries++;
    this.#outgoing.loseStream();
    if (this.tries >= MAX_TRIES) {
      const problem = `${this.path} was refused in ${MAX_TRIES} tries: ${error.message}`;
      return this.fail(new SvcError("unavailable", problem, { cause: error }));
    }
    if (this.tries === 1) return this.queue.enter(this);
    this.#timers.after(backoffMs(RETRY, this.tries - 1), () => this.queue.enter(this));
  }

  /** Fails the call; the part of the answer that has arrived can still be read. */
  fail(error: SvcError): void {
    this.answers.end(error);
  }

  /** Ends the call at once, on both sides. */
  cancel(error: SvcError): void {
    this.#over.abort(error);
    this.#leave();
    this.answers.abort(error);
    this.#outgoing.stream?.reset(H2.cancel, error);
  }

  /** Releases everything; cancels a stream that is still open. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#leave();
    const { stream } = this.#outgoing;
    if (stream?.closed === false) {
      stream.reset(H2.cancel, new SvcError("canceled", `${this.path} was given up`));
    }
  }

  headers(fields: HeaderFields, ended: boolean): void {
    const values = new Map(fields);
    const isFirst = this.#phase === "none";
    if (isFirst && values.get(":status")?.startsWith("1")) return;

    this.#noteAnswer();
    if (isFirst && !ended) {
      this.#phase = "headers";
      const problem = notGrpc(values);
      if (problem) return this.answers.abort(problem);
      this.options.onHeader?.(metadataOf(fields));
      return;
    }

    this.#phase = "status";
    const status = values.get("grpc-status");
    if (status === undefined) {
      const missing = new SvcError("unknown", `${this.path} ended without a status`);
      return this.answers.end((isFirst ? notGrpc(values) : undefined) ?? missing);
    }

    const trailer = metadataOf(fields);
    this.options.onTrailer?.(trailer);
    if (status === "0") return this.answers.end();

    const message = decodeStatusText(values.get("grpc-message") ?? "");
    this.answers.end(SvcError.fromStatus(Number(status), message, trailer.retryPushbackMs));
  }

  data(bytes: Uint8Array): void {
    this.#noteAnswer();
    this.answers.push(bytes);
  }

  ended(): void {}

  closed(error: SvcError | undefined, untouched = false): void {
    if (this.#phase === "status") return;
    const failure = error ?? new SvcError("internal", `${this.path} ended without a status`);
    if (untouched && this.#outgoing.canReplay) this.tryAgain(failure);
    else this.fail(failure);
  }

  /** After the first part of the answer there are no retries. */
  #noteAnswer(): void {
    this.#outgoing.dropCopies();
    this.#link?.noteAnswer();
  }

  /** Stops waiting for anything. */
  #leave(): void {
    this.#outgoing.dropCopies();
    this.#timers.release();
    this.queue.leave(this);
  }
}

function aborted(signal: AbortSignal, path: string): SvcError {
  if (signal.reason instanceof SvcError) return signal.reason;
  return new SvcError("canceled", `${path} was canceled: ${messageOf(signal.reason)}`, {
    cause: signal.reason,
  });
}

/** The meaning of an answer that is not gRPC (source: gRPC's table of HTTP statuses). */
function notGrpc(values: Map<string, string>): SvcError | undefined {
  const status = values.get(":status") ?? "";
  const type = values.get("content-type") ?? "";
  if (status === "200" && isGrpc(type)) return undefined;

  const codes: Record<string, ConstructorParameters<typeof SvcError>[0]> = {
    400: "internal",
    401: "unauthenticated",
    403: "permission_denied",
    404: "unimplemented",
    // A proxy's limit of bodies; gRPC's own servers answer a message that is too large so.
    413: "resource_exhausted",
    429: "unavailable",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
  };
  return new SvcError(
    codes[status] ?? "unknown",
    `the server answered HTTP ${status} "${type}", wanted gRPC`,
  );
}
