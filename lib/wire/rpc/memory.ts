/**
 * Calls within the program: the same bytes through the same table as over a socket, without the socket.
 */

import { SvcError } from "../../base/error.ts";
import { Cancellation } from "./cancellation.ts";
import type { CallOptions, Channel } from "./channel.ts";
import { checkSize, framed } from "./message.ts";
import { MessageReader } from "./message_reader.ts";
import { Metadata } from "./metadata.ts";
import type { DescMethod } from "./proto.ts";
import { canceledByCaller, pathOf, type RawSink, type ServiceTable, type Status } from "./service.ts";

/** A handler waits while this much of its answer is unread. */
const UNREAD_BYTES = 64 * 1024;

/** A channel to `table`. Messages are encoded and decoded, limits and deadlines hold, as over a real connection. */
export function memoryChannel(table: ServiceTable): Channel {
  const closed = new AbortController();
  return {
    call: (method, requests, options) => call(table, closed.signal, method, requests, options),
    close: () => closed.abort(new SvcError("canceled", "the channel was closed")),
  };
}

async function* call(
  table: ServiceTable,
  closed: AbortSignal,
  method: DescMethod,
  requests: AsyncIterable<Uint8Array>,
  options: CallOptions = {},
): AsyncGenerator<Uint8Array> {
  const cancellation = new Cancellation();
  const signal = options.signal ? AbortSignal.any([closed, options.signal]) : closed;
  const path = pathOf(method);
  const answers = new Answers(path, options);
  const cancel = () => {
    answers.reader.abort(asCanceled(signal.reason, path));
    cancellation.cancel(canceledByCaller(path));
  };
  signal.addEventListener("abort", cancel);

  if (signal.aborted) cancel();
  const { header = new Metadata(), timeoutMs } = options;
  void table.handle({ path, header, timeoutMs, peer: { kind: "memory" }, cancellation, requests }, answers);

  try {
    yield* answers.reader;
  } finally {
    signal.removeEventListener("abort", cancel);
    cancellation.cancel(canceledByCaller(path));
  }
}

function asCanceled(reason: unknown, path: string): SvcError {
  return reason instanceof SvcError
    ? reason
    : new SvcError("canceled", `${path} was canceled`, { cause: reason });
}

/** Passes a handler's answer to the caller's reader. */
class Answers implements RawSink {
  readonly reader = new MessageReader({ taken: (bytes) => this.#taken(bytes) });
  #unread = 0;
  #room = Promise.withResolvers<void>();

  constructor(private readonly path: string, private readonly options: CallOptions) {}

  header(header: Metadata): void {
    this.options.onHeader?.(header);
  }

  message(bytes: Uint8Array): Promise<void> | undefined {
    checkSize(bytes, this.path);
    const frame = framed(bytes);
    this.#unread += frame.length;
    this.reader.push(frame);
    return this.#unread > UNREAD_BYTES ? this.#room.promise : undefined;
  }

  end({ code, message }: Status, trailer: Metadata): void {
    this.options.onTrailer?.(trailer);
    this.reader.end(code === 0 ? undefined : SvcError.fromStatus(code, message, trailer.retryPushbackMs));
  }

  #taken(bytes: number): void {
    this.#unread -= bytes;
    if (this.#unread > UNREAD_BYTES) return;
    this.#room.resolve();
    this.#room = Promise.withResolvers();
  }
}
