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
import { checkSize, decodeStatusText, framed, isGrpc, metadataOf } from "../rpc/message.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { Connection } from "../http2/connection.ts";
import { H2 } from "../http2/frame.ts";
import type { Stream, StreamListener } from "../http2/stream.ts";
import { MessageReader } from "../rpc/message_reader.ts";

/** Tries of a call. */
const MAX_TRIES = 5;
/**
 * The second try follows at once; the first of these pauses comes before the third, and each further one is twice as
 * long. The jitter keeps calls that were refused together from returning together.
 */
const RETRY: BackoffLimits = { firstMs: 120, mostMs: 1_000, jitter: 0.3 };
/** Messages of a stream that are kept for a retry; a stream that has sent more gets none. */
const REPLAY_BYTES = 256 * 1024;

/** The queue of calls that wait for a stream; it calls their `begin`. */
export interface StreamQueue {
  enter(call: ClientCall): void;
  leave(call: ClientCall): void;
}

/** Whether the server has answered a call. */
export interface AnswerFlag {
  answered: boolean;
}

/** Listens to its stream; ends at the status, at the deadline or when the caller cancels. */
export class ClientCall implements StreamListener {
  readonly answers: MessageReader;
  readonly signal: AbortSignal;
  /** Failed tries. */
  tries = 0;
  readonly #over = new AbortController();
  readonly #deadlineMs: number | undefined;
  readonly #release: (() => void)[] = [];
  #stream: Stream | undefined;
  #answering: AnswerFlag | undefined;
  /** Resolves when there is a stream to send on; created if somebody waits for it. */
  #begun: PromiseWithResolvers<void> | undefined;
  /** Sent messages, for a retry; `undefined` when there will be none. */
  #sent: Uint8Array[] | undefined = [];
  #sentBytes = 0;
  #allSent = false;
  #opened = false;
  /** Whether the status has arrived. */
  #answered = false;
  #finished = false;

  constructor(
    readonly path: string,
    readonly options: CallOptions,
    private readonly clock: Clock,
    private readonly queue: StreamQueue,
  ) {
    this.signal = this.#over.signal;
    this.answers = new MessageReader({ taken: (bytes) => this.#stream?.consumed(bytes) });

    const { timeoutMs, signal } = options;
    if (timeoutMs !== undefined) {
      this.#deadlineMs = clock.monotonicMs() + timeoutMs;
      this.#release.push(clock.after(timeoutMs, () => {
        const problem = this.#stream
          ? `${path} did not end within ${timeoutMs} ms`
          : `${path} did not begin within ${timeoutMs} ms: no connection has room for it`;
        this.cancel(new SvcError("deadline_exceeded", problem));
      }));
    }

    if (signal) this.#follow(signal);
  }

  get remainingMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - this.clock.monotonicMs();
  }

  /** Opens a stream for the call and sends what is ready; marks the first answer in `answering`. */
  begin(connection: Connection, fields: HeaderFields, answering: AnswerFlag): void {
    this.#answering = answering;
    let stream;
    try {
      stream = connection.request(fields, false, this);
    } catch (error) {
      return this.cancel(SvcError.from(error));
    }
    this.#stream = stream;
    for (const message of this.#sent ?? []) void stream.send(message);
    if (this.#allSent) stream.end();
    this.#begun?.resolve();
    this.#begun = undefined;
  }

  /** Sends the only message, if there is one; called before `begin`. */
  sendOnly(only: IteratorResult<Uint8Array>): void {
    this.#allSent = true;
    if (only.done) return;
    checkSize(only.value, this.path);
    this.#sent?.push(framed(only.value));
  }

  /** Sends every message, starting with `begin`. */
  sendAll(outgoing: AsyncIterator<Uint8Array>): void {
    void (async () => {
      await this.#streaming();
      for (let next; !(next = await outgoing.next()).done && !this.#finished;) {
        checkSize(next.value, this.path);
        const stream = this.#stream ?? await this.#streaming();
        const message = framed(next.value);
        this.#keep(message);
        await stream.send(message);
      }
      this.#allSent = true;
      this.#stream?.end();
    })().catch((error) => this.cancel(SvcError.from(error)));
  }

  /** The stream of the call, once there is one. */
  async #streaming(): Promise<Stream> {
    while (!this.#stream) await (this.#begun ??= Promise.withResolvers()).promise;
    return this.#stream;
  }

  #keep(message: Uint8Array): void {
    this.#sentBytes += message.length;
    if (this.#sentBytes > REPLAY_BYTES) this.#sent = undefined;
    else this.#sent?.push(message);
  }

  /** A try has failed with `error`, unprocessed by the server: retries, or fails the call after the last one. */
  tryAgain(error: SvcError): void {
    this.tries++;
    this.#stream = undefined;
    if (this.tries >= MAX_TRIES) {
      const problem = `${this.path} was refused in ${MAX_TRIES} tries: ${error.message}`;
      return this.fail(new SvcError("unavailable", problem, { cause: error }));
    }
    if (this.tries === 1) return this.queue.enter(this);
    const pauseMs = backoffMs(RETRY, this.tries - 1);
    this.#release.push(this.clock.after(pauseMs, () => this.queue.enter(this)));
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
    this.#stream?.reset(H2.cancel, error);
  }

  /** Releases everything; cancels a stream that is still open. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#leave();
    if (this.#stream?.closed === false) {
      this.#stream.reset(H2.cancel, new SvcError("canceled", `${this.path} was given up`));
    }
  }

  headers(fields: HeaderFields, ended: boolean): void {
    const values = new Map(fields);
    if (!this.#opened && values.get(":status")?.startsWith("1")) return;

    this.#heard();
    if (!this.#opened && !ended) {
      this.#opened = true;
      const problem = notGrpc(values);
      if (problem) return this.answers.abort(problem);
      this.options.onHeader?.(metadataOf(fields));
      return;
    }

    this.#answered = true;
    const status = values.get("grpc-status");
    if (status === undefined) {
      const missing = new SvcError("unknown", `${this.path} ended without a status`);
      return this.answers.end((this.#opened ? undefined : notGrpc(values)) ?? missing);
    }

    this.options.onTrailer?.(metadataOf(fields));
    if (status === "0") return this.answers.end();

    const message = decodeStatusText(values.get("grpc-message") ?? "");
    this.answers.end(SvcError.fromStatus(Number(status), message));
  }

  data(bytes: Uint8Array): void {
    this.#heard();
    this.answers.push(bytes);
  }

  ended(): void {}

  closed(error: SvcError | undefined, untouched = false): void {
    if (this.#answered) return;
    const failure = error ?? new SvcError("internal", `${this.path} ended without a status`);
    if (untouched && this.#sent) this.tryAgain(failure);
    else this.fail(failure);
  }

  /** After the first part of the answer there are no retries. */
  #heard(): void {
    this.#sent = undefined;
    if (this.#answering) this.#answering.answered = true;
  }

  #follow(source: AbortSignal): void {
    const follow = () => this.cancel(aborted(source, this.path));
    if (source.aborted) return follow();
    source.addEventListener("abort", follow, { once: true });
    this.#release.push(() => source.removeEventListener("abort", follow));
  }

  /** Stops waiting for anything. */
  #leave(): void {
    this.#sent = undefined;
    for (const release of this.#release.splice(0)) release();
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
