/**
 * The messages that a call of a gRPC client sends: on the stream that it has at present, and again on the next one.
 *
 * Owns the way from the caller's messages to a stream, and the copies for a retry. A call that has sent more than the
 * copies may hold gets no retry.
 */

import type { Stream } from "../http2/stream.ts";
import { checkSize, framed } from "../rpc/message.ts";

/** Messages of a stream that are kept for a retry; a stream that has sent more gets none. */
const REPLAY_BYTES = 256 * 1024;

export class OutgoingMessages {
  #stream: Stream | undefined;
  /** Resolves when there is a stream to send on; created if somebody waits for it. */
  #begun: PromiseWithResolvers<void> | undefined;
  /** Copies for a retry; `undefined` when there will be none. */
  #sent: Uint8Array[] | undefined = [];
  #sentBytes = 0;
  #allSent = false;

  constructor(private readonly path: string) {}

  /** The stream of the present try. */
  get stream(): Stream | undefined {
    return this.#stream;
  }

  /** Whether another stream could get the same messages. */
  get canReplay(): boolean {
    return this.#sent !== undefined;
  }

  /** Sends on a new stream what is ready, and then everything else. */
  begin(stream: Stream): void {
    this.#stream = stream;
    for (const message of this.#sent ?? []) void stream.send(message);
    if (this.#allSent) stream.end();
    this.#begun?.resolve();
    this.#begun = undefined;
  }

  /** The stream has failed: what follows waits for the next one. */
  loseStream(): void {
    this.#stream = undefined;
  }

  /** There will be no retry. */
  dropCopies(): void {
    this.#sent = undefined;
  }

  /** Sends the only message, if there is one; called before `begin`. */
  sendOnly(only: IteratorResult<Uint8Array>): void {
    this.#allSent = true;
    if (only.done) return;
    checkSize(only.value, this.path);
    this.#sent?.push(framed(only.value));
  }

  /** Sends every message, starting with `begin`, until `isOver`. */
  async sendAll(outgoing: AsyncIterator<Uint8Array>, isOver: () => boolean): Promise<void> {
    await this.#streaming();
    for (let next; !(next = await outgoing.next()).done && !isOver();) {
      checkSize(next.value, this.path);
      const stream = this.#stream ?? await this.#streaming();
      const message = framed(next.value);
      this.#keep(message);
      await stream.send(message);
    }
    this.#allSent = true;
    this.#stream?.end();
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
}
