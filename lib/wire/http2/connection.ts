/**
 * HTTP/2 (RFC 9113) over a socket: one `Connection` per socket, one `Stream` per exchange, both roles.
 *
 * Owns the socket and the parts that share it: the frames received (`FrameDispatch`), the frames sent
 * (`SendScheduler`), the streams (`StreamTable`), what the peer may cost (`AbuseLimits`, `StallWatch`) and the end
 * (`Shutdown`). The memory that a peer can occupy is bounded. A peer that breaks the rules loses its connection, and
 * does no other harm.
 *
 * The room owns HTTP/2, and nothing above it.
 */

import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { messageOf, SvcError } from "../../base/error.ts";
import { Flow } from "../flow/round_robin.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { type AbuseKind, AbuseLimits } from "./abuse_limits.ts";
import { listBytes } from "./fields.ts";
import { H2, lost, PREFACE, ProtocolError, SETTING, TYPE } from "./frame.ts";
import { CONNECTION_WINDOW_BYTES, FrameDispatch } from "./frame_dispatch.ts";
import { HpackBomb, HpackError } from "./hpack.ts";
import { FrameReader } from "./input.ts";
import type { ConnectionOptions } from "./options.ts";
import { SendScheduler } from "./send_scheduler.ts";
import { INITIAL_WINDOW_BYTES, MAX_HEADER_BYTES, PeerSettings, settingsPayload } from "./settings.ts";
import { Shutdown } from "./shutdown.ts";
import { createStallChecks, StallWatch } from "./stall_watch.ts";
import { Stream, type StreamListener } from "./stream.ts";
import { STREAM_WINDOW_BYTES, type Unread } from "./stream_data.ts";
import { StreamTable } from "./stream_table.ts";

export { WITH_TLS, WITHOUT_HTTP2 } from "./input.ts";

/** Streams that a peer may have open at once on one connection, and a client if the server sets no limit. */
export const MAX_STREAMS = 1000;
/** Streams that a client opens before it knows the server's limit, which is seldom lower (RFC 9113, 6.5.2). */
const EARLY_STREAMS = 100;
/** Cost of a frame in its connection's quantum besides its bytes. */
const FRAME_COST = 64;

export class Connection {
  readonly flow: Flow;
  readonly table: StreamTable;
  readonly peer = new PeerSettings();
  readonly out: SendScheduler;
  readonly shutdown: Shutdown;
  readonly #input: FrameReader;
  readonly dispatch: FrameDispatch;
  readonly #abuse: AbuseLimits;
  readonly #watch: StallWatch | undefined;

  constructor(private readonly socket: Duplex, readonly options: ConnectionOptions) {
    const { role, clock } = options;
    this.flow = new Flow(socket, clock, options.scheduler);
    this.table = new StreamTable(this.isServer);
    this.shutdown = new Shutdown(socket, this.flow, clock);
    this.#abuse = new AbuseLimits(clock, options.abuse);
    this.out = this.#createSendScheduler();
    this.#input = new FrameReader(role);
    this.dispatch = new FrameDispatch(this, this.#input);
    this.#sendPreface();
    if (role === "server") this.#watch = this.#createStallWatch(options);

    socket.on("data", (bytes: Uint8Array) => this.#receive(bytes));
    socket.on("end", () => this.flow.whenServed(() => this.#lost("the peer closed the connection")));
    socket.on("close", () => !socket.readableEnded && this.#lost("the connection was closed"));
    socket.on("error", (error: Error) => this.#lost(error.message));
  }

  /** Whether new streams can be opened, now or when others have ended. */
  get open(): boolean {
    return !this.shutdown.error && !this.shutdown.isDraining && this.table.hasIds;
  }

  get isServer(): boolean {
    return this.options.role === "server";
  }

  get maxStreams(): number {
    return this.options.maxStreams ?? MAX_STREAMS;
  }

  get unread(): Unread | undefined {
    return this.options.unread;
  }

  get framesReceived(): number {
    return this.#input.frames;
  }

  /** Whether the peer's limit leaves room for one more stream, and the unsent bytes for its header. */
  get hasRoom(): boolean {
    if (!this.out.hasRoom) return false;
    return this.table.size < (this.peer.streams ?? (this.framesReceived > 0 ? MAX_STREAMS : EARLY_STREAMS));
  }

  /** Opens a stream with its header (client only). */
  request(fields: HeaderFields, ended: boolean, listener: StreamListener): Stream {
    if (this.shutdown.error) throw this.shutdown.error;
    const bytes = listBytes(fields);
    if (bytes > this.peer.headerBytes) {
      const problem = `the call has ${bytes} bytes of header fields to send, the server takes`;
      throw new SvcError("resource_exhausted", `${problem} ${this.peer.headerBytes}`);
    }

    const stream = new Stream(this, this.table.takeId(), this.peer.windowBytes);
    stream.listener = listener;
    this.table.add(stream);
    stream.headers(fields, ended);
    return stream;
  }

  /** Resolves when the peer answers a ping; never, if the connection ends first. */
  ping(): Promise<void> {
    return this.dispatch.ping();
  }

  /** Accepts no more streams, and closes when the last one has ended. */
  drain(): void {
    if (this.shutdown.error || this.shutdown.isDraining) return;
    this.shutdown.isDraining = true;
    this.out.goaway(this.table.lastPeerId, H2.noError, "");
    this.finishDraining();
  }

  /** Ends the connection at once, with a GOAWAY if the system takes it without waiting. */
  evict(reason: string): void {
    if (this.shutdown.error) return;
    this.out.goaway(this.table.lastPeerId, H2.noError, reason);
    const goaway = this.out.writing ? undefined : this.out.take();
    if (goaway) this.socket.write(goaway);
    this.destroy(new SvcError("unavailable", reason));
  }

  /** Ends the connection and every stream on it; `goaway` are the last bytes for the peer. */
  destroy(error: SvcError, goaway?: Uint8Array): void {
    if (this.shutdown.error) return;
    this.shutdown.error = error;
    const streams = this.table.clear();
    this.out.stop();
    this.#watch?.stop();
    this.flow.stop();
    this.shutdown.closeSocket(goaway);
    for (const stream of streams) stream.finish(error);
    this.options.closed?.(error);
  }

  /** If the connection is draining and nothing is left to do, closes it. */
  finishDraining(): void {
    const { isDraining, error } = this.shutdown;
    if (!isDraining || this.table.size > 0 || !this.out.isIdle || error) return;
    const answers = this.isServer ? new Uint8Array() : undefined; // The last ones are under way.
    this.destroy(new SvcError("unavailable", "the connection was drained"), answers);
  }

  // The interface for streams.

  countAbuse(): void {
    this.charge("resets", 1);
  }

  remove(stream: Stream): void {
    this.table.remove(stream);
    this.options.changed?.();
    this.finishDraining();
  }

  // Sending.

  #createSendScheduler(): SendScheduler {
    return new SendScheduler(this.socket, this.peer, {
      allowAnswers: () => this.#abuse.allowAnswers(),
      written: (bytes) => {
        this.options.transferred?.(bytes);
        this.options.changed?.();
      },
      idle: () => this.finishDraining(),
      overflowed: () => this.destroy(new SvcError("unavailable", "the peer does not read its data")),
    });
  }

  #sendPreface(): void {
    const values: [number, number][] = [
      [SETTING.streams, this.maxStreams],
      [SETTING.window, STREAM_WINDOW_BYTES],
      [SETTING.headerBytes, MAX_HEADER_BYTES],
    ];
    if (!this.isServer) {
      values.push([SETTING.push, 0]);
      this.out.append(Buffer.from(PREFACE, "latin1"));
    }

    this.out.control(TYPE.settings, 0, 0, settingsPayload(values));
    this.out.sendWindowUpdate(0, CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES);
  }

  // What the peer may cost.

  #createStallWatch({ clock, stallChecks }: ConnectionOptions): StallWatch {
    return new StallWatch(clock, stallChecks ?? createStallChecks(clock), {
      state: () => ({
        frames: this.#input.frames,
        inFrame: this.#input.inFrame,
        block: this.dispatch.block,
        write: this.out.writing,
      }),
      endStalled: (nowMs) => {
        for (const stream of this.table.values()) stream.endStalled(nowMs);
      },
      ping: () => void this.ping(),
      end: (reason) => {
        // A peer that does not read gets no GOAWAY.
        if (this.out.writing) this.#lost(reason);
        else this.#endWithGoaway(H2.calm, lost(`the connection is given up: ${reason}`));
      },
    });
  }

  /** Charges the peer for a costly or useless frame; beyond the limit ends the connection and returns false. */
  charge(name: AbuseKind, amount: number): boolean {
    const problem = this.#abuse.charge(name, amount);
    if (problem) this.#fail(H2.calm, problem);
    return problem === undefined;
  }

  // Receiving.

  #receive(bytes: Uint8Array): void {
    if (this.shutdown.error) return this.shutdown.drain(bytes);
    this.flow.received();
    this.options.transferred?.(bytes.length);
    this.#guarded(() => this.#input.push(bytes));
    if (!this.flow.waiting) this.#work();
  }

  /** Reads frames until there are no more, or the connection has used its quantum of this turn. */
  #work(): void {
    this.#guarded(() => {
      while (!this.shutdown.error && this.#input.next()) {
        this.dispatch.handle();
        if (this.flow.spend(FRAME_COST + this.#input.payload.length)) continue;
        if (!this.shutdown.error) this.flow.yieldTurn(() => this.#work());
        break;
      }
    });
    for (const stream of this.dispatch.takeBuffered()) this.#guarded(() => stream.deliver());
    this.#input.release();
  }

  #guarded(work: () => void): void {
    if (this.shutdown.error) return;
    try {
      work();
    } catch (error) {
      if (error instanceof HpackBomb) this.#fail(H2.calm, error.message);
      else if (error instanceof HpackError) this.#fail(H2.compression, error.message);
      else if (error instanceof ProtocolError) this.#fail(error.code, error.message);
      else this.#fail(H2.internal, messageOf(error));
    }
  }

  /** Reports the violation to the peer, then ends the connection. */
  #fail(code: number, message: string): void {
    this.#endWithGoaway(code, lost(`the peer broke the rules of HTTP/2: ${message}`), message);
  }

  #endWithGoaway(code: number, error: SvcError, message = error.message): void {
    if (this.shutdown.error) return;
    this.out.goaway(this.table.lastPeerId, code, message);
    this.destroy(error, this.out.take());
  }

  #lost(reason: string): void {
    this.destroy(lost(`connection lost: ${reason}`));
  }
}
