/**
 * Cuts the bytes of a peer into messages.
 *
 * Keeps copies instead of the received pieces, so that tiny pieces do not cost extra memory. The memory grows with the
 * received bytes, never with the length in a prefix. Everything is charged to a budget.
 */

import { assert, SvcError } from "../../base/error.ts";
import type { Allowance, ByteBudget } from "../flow/byte_budget.ts";
import { MAX_MESSAGE_BYTES, PREFIX_BYTES, PUBLIC_MESSAGE_BYTES } from "./message.ts";
import { giveBack, giveBackAll, isLent } from "../flow/given_back.ts";
import { Inflater } from "../flow/inflate.ts";

const COMPRESSED = 1;
/** Sizes of the first and the largest buffer of an incomplete message. */
const FIRST_PIECE_BYTES = 512;
const PIECE_BYTES = 256 * 1024;
/** A message is copied if it is part of a buffer more than this many times its size, so that the rest can be freed. */
const SPARSE = 4;

export interface MessageReaderOptions {
  /** The compression of messages that are marked as compressed. */
  readonly encoding?: string;
  /** Receives the number of bytes that the reader has consumed. */
  readonly taken?: (bytes: number) => void;
  /** Charged with everything kept. A message counts until the next one is requested, or until `release`. */
  readonly budget?: ByteBudget;
  readonly inflater?: Inflater;
}

/** Has one reader; frees memory as fast as that reads. */
export class MessageReader implements AsyncIterableIterator<Uint8Array> {
  readonly #backlog: ByteQueue;
  readonly #account: Account;
  #untaken = 0;
  #maxBytes = MAX_MESSAGE_BYTES;
  /** Flag and length of the incoming message. */
  #prefix: { compressed: boolean; length: number } | undefined;
  /** The charge of the message being read. */
  #readBytes = 0;
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined;
  #ended = false;
  #released = false;
  #error: SvcError | undefined;

  constructor(private readonly options: MessageReaderOptions = {}) {
    this.#account = new Account(options.budget);
    this.#backlog = new ByteQueue(this.#account);
  }

  /** Whether a reader waits for the rest of a message. */
  get owed(): boolean {
    return this.#waiting !== undefined && (this.#prefix !== undefined || this.#backlog.length > 0);
  }

  /** Takes bytes on loan. */
  push(bytes: Uint8Array): void {
    if (!this.#open || this.#ended) return this.options.taken?.(bytes.length);
    this.#untaken += bytes.length;
    try {
      if (this.#waiting && this.#backlog.length === 0 && !this.#prefix) bytes = this.#pass(bytes);
      if (bytes.length > 0) this.#backlog.append(bytes, this.#prefix?.length);
    } catch (error) {
      return this.abort(SvcError.from(error));
    }
    this.#advance();
  }

  /** Ends the input: complete messages can still be read, then comes the error, if there is one. */
  end(error?: SvcError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error ??= error;
    this.#advance();
  }

  /** Fails the reader at once. */
  abort(error: SvcError): void {
    this.#error ??= error;
    this.#forget();
    this.#ended = true;
    this.#advance();
  }

  /** Charges another budget from now on, and accepts messages of at most `maxBytes`. */
  admit(budget: ByteBudget | undefined, maxBytes: number): void {
    this.#maxBytes = maxBytes;
    try {
      this.#account.move(budget);
    } catch (error) {
      this.abort(SvcError.from(error));
    }
  }

  /** Charges the decoded size of the message just read, for as long as the message counts. */
  decoding(bytes: number): void {
    this.#charge(bytes);
  }

  /** The call has ended: frees everything. A handler that still reads gets an error when the stream ends. */
  release(): void {
    this.#released = true;
    this.#forget();
    this.#account.close();
  }

  /** Whether incoming bytes are still wanted. */
  get #open(): boolean {
    return this.#error === undefined && !this.#released;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    this.#uncharge();
    this.#waiting ??= Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#advance();
    return promise;
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #advance(): void {
    const waiting = this.#waiting;
    if (!waiting) return;

    try {
      const message = this.#message();
      if (message) waiting.resolve(message);
      else if (!this.#ended) return;
      else if (this.#error) waiting.reject(this.#error);
      // Created only here: few calls are read after their release, and an error costs a stack trace.
      else if (this.#released) waiting.reject(new SvcError("canceled", "the call has ended"));
      else if (this.#backlog.length > 0 || this.#prefix) throw cut();
      else waiting.resolve({ done: true, value: undefined });
    } catch (error) {
      return this.abort(SvcError.from(error));
    }

    this.#waiting = undefined;
  }

  #forget(): void {
    this.#backlog.clear();
    this.#prefix = undefined;
    this.#give(this.#untaken);
  }

  /** Passes a message that arrived in one piece to its reader; returns the rest of the piece. */
  #pass(bytes: Uint8Array): Uint8Array {
    if (bytes.length < PREFIX_BYTES) return bytes;
    const prefix = this.#parse(bytes);
    const end = PREFIX_BYTES + prefix.length;
    if (bytes.length < end || prefix.compressed) return bytes;
    this.#charge(prefix.length);
    const { promise: _, resolve } = this.#waiting!;
    this.#waiting = undefined;
    const message = bytes.subarray(PREFIX_BYTES, end);
    const passing = isLent(message) || message.buffer.byteLength > SPARSE * message.length;
    resolve({ done: false, value: passing ? new Uint8Array(message) : plain(message) });
    this.#give(Math.min(this.#untaken, end));
    return bytes.subarray(end);
  }

  /** The next message, if it is complete. */
  #message(): Promise<IteratorResult<Uint8Array>> | IteratorResult<Uint8Array> | undefined {
    if (!this.#prefix && this.#backlog.length >= PREFIX_BYTES) {
      this.#prefix = this.#parse(this.#backlog.take(PREFIX_BYTES));
    }
    const prefix = this.#prefix;
    if (!prefix || this.#backlog.length < prefix.length) {
      this.#give(this.#untaken);
      return undefined;
    }

    const bytes = this.#backlog.take(prefix.length);
    this.#charge(prefix.length);
    this.#prefix = undefined;
    this.#give(Math.min(this.#untaken, PREFIX_BYTES + prefix.length));
    if (!prefix.compressed) return { done: false, value: plain(bytes) };
    return this.#inflated(bytes).then((value) => ({ done: false, value: plain(value) }));
  }

  async #inflated(bytes: Uint8Array): Promise<Uint8Array> {
    const inflated = new ByteQueue(this.#account);
    const { inflater = new Inflater(), encoding } = this.options;
    try {
      await inflater.inflate(bytes, encoding, {
        wanted: () => this.#open,
        append: (piece) => {
          if (inflated.length + piece.length > this.#maxBytes) {
            throw tooLarge("a message of more bytes than these came out of a compressed one", this.#maxBytes);
          }
          inflated.append(piece, this.#maxBytes);
        },
      });
      this.#uncharge();
      giveBackAll(bytes);
      const whole = inflated.take(inflated.length);
      this.#charge(whole.length);
      return whole;
    } catch (error) {
      this.#uncharge();
      throw error;
    } finally {
      inflated.clear();
    }
  }

  #parse(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const [kind, length] = [view.getUint8(0), view.getUint32(1)];
    if (kind > COMPRESSED) {
      throw new SvcError("internal", `a message begins with byte ${kind}, wanted 0 or 1`);
    }
    if (length > this.#maxBytes) throw tooLarge(`a message of ${length} bytes was sent`, this.#maxBytes);
    return { compressed: kind === COMPRESSED, length };
  }

  #charge(bytes: number): void {
    this.#account.take(bytes);
    this.#readBytes += bytes;
  }

  #uncharge(): void {
    this.#account.give(this.#readBytes);
    this.#readBytes = 0;
  }

  #give(bytes: number): void {
    if (bytes === 0) return;
    this.#untaken -= bytes;
    this.options.taken?.(bytes);
  }
}

/** Applies the limits of this kind of caller to a reader. */
export function admit(
  reader: MessageReader,
  caller: "authenticated" | "unauthenticated",
  allowance: Allowance,
): void {
  if (caller === "authenticated") reader.admit(allowance.authenticated, MAX_MESSAGE_BYTES);
  else reader.admit(allowance.unauthenticated, PUBLIC_MESSAGE_BYTES);
}

/** The charges of one reader to a budget. */
class Account {
  #bytes = 0;
  #closed = false;

  constructor(private budget: ByteBudget | undefined) {}

  take(bytes: number): void {
    if (this.#closed) return;
    this.budget?.take(bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    if (this.#closed || bytes === 0) return;
    this.budget?.give(bytes);
    this.#bytes -= bytes;
  }

  move(budget: ByteBudget | undefined): void {
    if (this.#closed) return;
    // The new one first: if that throws, nothing has changed.
    budget?.take(this.#bytes);
    this.budget?.give(this.#bytes);
    this.budget = budget;
  }

  close(): void {
    this.give(this.#bytes);
    this.#closed = true;
  }
}

/**
 * Bytes in growing buffers, each as large as all before it up to a limit. Growth moves nothing, and joining frees the
 * buffers one by one: so a large message never takes twice its size.
 */
export class ByteQueue {
  readonly #pieces: Uint8Array<ArrayBuffer>[] = [];
  /** Start of the bytes in the first buffer, and their end in the last one. */
  #start = 0;
  #end = 0;
  #length = 0;

  constructor(private readonly account: Pick<ByteBudget, "take" | "give">) {}

  get length(): number {
    return this.#length;
  }

  /** `wanted` is the expected size, which limits the allocation. */
  append(bytes: Uint8Array, wanted = Infinity): void {
    for (let at = 0; at < bytes.length;) {
      const left = bytes.length - at;
      const piece = this.#pieces.at(-1);
      const room = piece ? piece.length - this.#end : 0;
      if (room === 0) {
        this.#grow(left, wanted);
        continue;
      }
      const part = left <= room ? bytes.subarray(at) : bytes.subarray(at, at + room);
      piece!.set(part, this.#end);
      this.#end += part.length;
      this.#length += part.length;
      at += part.length;
    }
  }

  /** The first `length` bytes, exclusively. */
  take(length: number): Uint8Array {
    const [first] = this.#pieces;
    const isAlone = first !== undefined && this.#pieces.length === 1;
    if (isAlone && length === this.#length && first.length <= SPARSE * length) {
      // The buffer goes with the bytes.
      const bytes = first.subarray(this.#start, this.#end);
      this.#leave();
      return bytes;
    }

    const bytes = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const [piece] = this.#pieces;
      assert(piece, "more bytes are taken than have arrived");
      const end = Math.min(this.#pieces.length === 1 ? this.#end : piece.length, this.#start + length - at);
      bytes.set(piece.subarray(this.#start, end), at);
      at += end - this.#start;
      this.#length -= end - this.#start;
      this.#start = end;
      if (end === piece.length) this.#drop();
    }

    if (this.#length === 0 && (this.#pieces[0]?.length ?? 0) > FIRST_PIECE_BYTES) this.clear();
    return bytes;
  }

  clear(): void {
    for (const piece of this.#leave()) giveBack(piece);
  }

  #leave(): Uint8Array[] {
    const pieces = this.#pieces.splice(0);
    for (const { length } of pieces) this.account.give(length);
    this.#start = this.#end = this.#length = 0;
    return pieces;
  }

  /** Drops the first buffer. */
  #drop(): void {
    const piece = this.#pieces.shift()!;
    this.account.give(piece.length);
    giveBack(piece);
    this.#start = 0;
    if (this.#pieces.length === 0) this.#end = 0;
  }

  #grow(bytes: number, wanted: number): void {
    const usual = Math.min(Math.max(this.#length, bytes, FIRST_PIECE_BYTES), PIECE_BYTES);
    const room = Math.max(Math.min(usual, wanted - this.#length), Math.min(bytes, PIECE_BYTES));
    this.account.take(room);
    this.#pieces.push(new Uint8Array(room));
    this.#end = 0;
  }
}

/** Not a `Buffer`: byte fields of a message are views of these bytes, and a Buffer's `slice` does not copy. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function cut(): SvcError {
  return new SvcError("internal", "the stream ended in the middle of a message");
}

function tooLarge(what: string, limitBytes: number): SvcError {
  return new SvcError("resource_exhausted", `${what}, wanted at most ${limitBytes}`);
}
