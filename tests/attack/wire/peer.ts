/**
 * Hostile peers: a bare connection, and as much of HTTP/2 or HTTP/1.1 as an attack needs.
 *
 * A peer counts the server's answers and records how the server ended the connection.
 */

import { ACK, END_STREAM, FRAME, frame, PREFACE, settings, widen, WIDEST } from "./bytes.ts";

export interface Target {
  readonly host: string;
  readonly port: number;
  /** Over TLS. */
  readonly secure: boolean;
  /** A valid token, for authenticated attackers. */
  readonly token?: string;
}

export interface PeerOptions {
  /** `false`: the server's data stays unread in the socket. */
  readonly reads?: boolean;
  /** Window that an HTTP/2 peer gives the server on each stream. */
  readonly window?: number;
}

const READ_BYTES = 64 * 1024;
const FRAME_HEADER_BYTES = 9;
/** Initial window of a connection and of its streams. */
const INITIAL_WINDOW_BYTES = 65_535;

/** Limit of the stored beginning of an HTTP/1.1 answer. */
const KEPT_CHARS = 4096;
/** How a server left a connection that said nothing of why. */
const CLOSED = "closed";

export class Peer {
  /** How the server ended the connection, such as `GOAWAY 11`. */
  ended: string | undefined;
  sentBytes = 0;
  receivedBytes = 0;
  /** Answers, whatever they say. */
  answers = 0;
  readonly over: Promise<void>;
  readonly #over = Promise.withResolvers<void>();
  #closed = false;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly conn: Deno.Conn, { reads = true }: PeerOptions = {}) {
    this.over = this.#over.promise;
    // The constructor of what extends this has to be through before the first bytes come.
    if (reads) queueMicrotask(() => void this.#read());
  }

  get open(): boolean {
    return !this.#closed && this.ended === undefined;
  }

  /** Sends all of `bytes`, after earlier data; `false` if the connection is over. */
  write(bytes: Uint8Array): Promise<boolean> {
    const written = this.#turn.then(() => this.#write(bytes));
    this.#turn = written;
    return written;
  }

  async #write(bytes: Uint8Array): Promise<boolean> {
    try {
      for (let at = 0; at < bytes.length && this.open;) {
        const count = await this.conn.write(bytes.subarray(at));
        at += count;
        this.sentBytes += count;
      }
    } catch {
      this.end(CLOSED);
    }
    return this.open;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.conn.close();
    } catch {
      // The server was first.
    }
    this.#over.resolve();
  }

  /** Hears everything that comes. */
  protected heard(_bytes: Uint8Array): void {}

  protected end(how: string): void {
    if (this.#closed) return;
    this.ended ??= how;
    this.close();
  }

  async #read(): Promise<void> {
    const buffer = new Uint8Array(READ_BYTES);
    try {
      for (;;) {
        const count = await this.conn.read(buffer);
        if (count === null) break;
        this.receivedBytes += count;
        this.heard(buffer.subarray(0, count));
      }
    } catch {
      // A reset is an end like any other.
    }
    this.end(CLOSED);
  }
}

/** Speaks HTTP/1.1 and counts the answers. */
export class HttpPeer extends Peer {
  #tail = "";
  #text = "";

  /** The beginning of the received data. */
  get output(): string {
    return this.#text;
  }

  protected override heard(bytes: Uint8Array): void {
    const now = latin1(bytes);
    this.answers += (this.#tail + now).split("HTTP/1.1 ").length - 1;
    this.#tail = (this.#tail + now).slice(-"HTTP/1.1".length);
    if (this.#text.length < KEPT_CHARS) this.#text += now;
  }
}

/** How a stream ended, as its client sees it. */
type StreamEnd = "answered" | "reset" | "lost";

/** Speaks HTTP/2: opens, acknowledges, and respects the server's windows on request. */
export class Http2Peer extends Peer {
  /** Windows that the server has given. */
  #connectionRoom = INITIAL_WINDOW_BYTES;
  #initialRoom = INITIAL_WINDOW_BYTES;
  readonly #rooms = new Map<number, number>();
  readonly #ends = new Map<number, (how: StreamEnd) => void>();
  #more = Promise.withResolvers<void>();
  #input = new Uint8Array();
  #nextStream = 1;
  readonly #settled = Promise.withResolvers<void>();
  /** Resets that the server sent. */
  resets = 0;

  constructor(conn: Deno.Conn, options: PeerOptions = {}) {
    super(conn, options);
    void this.write(PREFACE);
    void this.write(settings([4, options.window ?? WIDEST]));
    void this.write(widen(0, WIDEST - INITIAL_WINDOW_BYTES));
    void this.over.then(() => {
      this.#settled.resolve();
      for (const end of this.#ends.values()) end("lost");
      this.#more.resolve();
    });
  }

  /** The server's settings are acknowledged: nothing more has to be said in between. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** The next stream of a client. */
  stream(): number {
    const id = this.#nextStream;
    this.#nextStream += 2;
    return id;
  }

  /** Resolves when a stream ends. */
  whenEnded(stream: number): Promise<StreamEnd> {
    if (!this.open) return Promise.resolve("lost");
    return new Promise((resolve) => this.#ends.set(stream, resolve));
  }

  /** Waits for room to send on a stream, takes up to `wanted` of it; 0 when the stream or the connection is over. */
  async room(stream: number, wanted: number): Promise<number> {
    while (this.open) {
      const room = Math.min(wanted, this.#connectionRoom, this.#rooms.get(stream) ?? this.#initialRoom);
      if (room > 0) {
        this.#connectionRoom -= room;
        this.#rooms.set(stream, (this.#rooms.get(stream) ?? this.#initialRoom) - room);
        return room;
      }
      if (this.#rooms.get(stream) === -Infinity) return 0;
      await this.#more.promise;
    }
    return 0;
  }

  /** Sends a body in frames as large as the server takes; `false` if it would not take all of it. */
  async body(stream: number, bytes: Uint8Array, frameBytes: number): Promise<boolean> {
    for (let at = 0; at < bytes.length;) {
      const room = await this.room(stream, Math.min(frameBytes, bytes.length - at));
      if (room === 0) return false;
      const last = at + room === bytes.length;
      await this.write(frame(FRAME.data, last ? END_STREAM : 0, stream, bytes.subarray(at, at + room)));
      at += room;
    }
    return true;
  }

  protected override heard(bytes: Uint8Array): void {
    const input = this.#input.length === 0 ? bytes : concat(this.#input, bytes);
    let at = 0;
    while (input.length - at >= FRAME_HEADER_BYTES) {
      const length = (input[at] << 16) | (input[at + 1] << 8) | input[at + 2];
      const end = at + FRAME_HEADER_BYTES + length;
      if (end > input.length) break;
      const id = uint32At(input, at + 5);
      this.#frame(input[at + 3], input[at + 4], id, input.subarray(at + FRAME_HEADER_BYTES, end));
      at = end;
    }
    this.#input = input.slice(at);
  }

  #frame(type: number, flags: number, id: number, payload: Uint8Array): void {
    switch (type) {
      case FRAME.data:
      case FRAME.headers:
        if (flags & END_STREAM) this.#streamEnds(id, "answered");
        return;
      case FRAME.reset:
        this.resets++;
        this.#streamEnds(id, "reset");
        return;
      case FRAME.settings:
        if (!(flags & ACK)) this.#serverSettings(payload);
        return;
      case FRAME.ping:
        if (!(flags & ACK)) void this.write(frame(FRAME.ping, ACK, 0, payload));
        return;
      case FRAME.goaway: {
        const code = uint32At(payload, 4);
        // A draining server continues until it closes.
        if (code !== 0) this.ended ??= `GOAWAY ${code}`;
        return;
      }
      case FRAME.window: {
        const bytes = uint32At(payload, 0);
        if (id === 0) this.#connectionRoom += bytes;
        else this.#rooms.set(id, (this.#rooms.get(id) ?? this.#initialRoom) + bytes);
        this.#wake();
      }
    }
  }

  #serverSettings(payload: Uint8Array): void {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      if (payload[at + 1] !== 4 || payload[at] !== 0) continue;
      const change = uint32At(payload, at + 2) - this.#initialRoom;
      this.#initialRoom += change;
      for (const [id, room] of this.#rooms) this.#rooms.set(id, room + change);
    }
    void this.write(frame(FRAME.settings, ACK, 0)).then(() => this.#settled.resolve());
    this.#wake();
  }

  #streamEnds(id: number, how: StreamEnd): void {
    if (how === "answered") this.answers++;
    this.#ends.get(id)?.(how);
    this.#ends.delete(id);
    if (this.#rooms.has(id)) this.#rooms.set(id, -Infinity);
    this.#wake();
  }

  #wake(): void {
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }
}

function latin1(bytes: Uint8Array): string {
  return new TextDecoder("latin1").decode(bytes);
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

function uint32At(bytes: Uint8Array, at: number): number {
  return ((bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]) >>> 0;
}
