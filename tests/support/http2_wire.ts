/**
 * For the tests of HTTP/2, frame by frame: one end is a `Connection`, the other a test that reads and writes frames.
 */

import { assert } from "@std/assert";
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "./fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { HeaderFields } from "../../lib/wire/rpc/metadata.ts";
import { HpackDecoder, HpackEncoder } from "../../lib/wire/http2/hpack.ts";
import { Connection } from "../../lib/wire/http2/connection.ts";
import type { ConnectionOptions } from "../../lib/wire/http2/options.ts";
import { FLAG, FRAME_HEADER_BYTES, PREFACE, TYPE } from "../../lib/wire/http2/frame.ts";
import type { Stream, StreamListener } from "../../lib/wire/http2/stream.ts";
import { until } from "./until.ts";

/** A frame as it travels. */
export function frameBytes(type: number, flags: number, stream: number, payload: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes.set([type, flags], 3);
  bytes.writeUInt32BE(stream, 5);
  bytes.set(payload, FRAME_HEADER_BYTES);
  return bytes;
}

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  payload: Buffer;
}

/** The other end of a connection: stores arriving frames, sends the test's. */
export class Wire {
  readonly frames: Frame[] = [];
  readonly connection: Connection;
  readonly #encoder = new HpackEncoder();
  readonly #decoder = new HpackDecoder(1_000_000);
  readonly #socket: Duplex;
  #input = Buffer.alloc(0);

  constructor(options: Omit<ConnectionOptions, "clock">, readonly clock = new FakeClock()) {
    let skip = options.role === "client" ? PREFACE.length : 0;
    this.#socket = new Duplex({
      read() {},
      write: (bytes: Buffer, _encoding, done) => {
        this.#receive(bytes.subarray(skip));
        skip = 0;
        done();
      },
    });
    this.connection = new Connection(this.#socket, { clock, ...options });
    if (options.role === "server") this.#socket.push(Buffer.from(PREFACE, "latin1"));
  }

  async send(type: number, flags: number, stream: number, payload: Uint8Array): Promise<void> {
    await this.sendBytes(frameBytes(type, flags, stream, payload));
  }

  async sendBytes(bytes: Uint8Array): Promise<void> {
    // A socket reads into memory of its own, which the connection gives back.
    this.#socket.push(new Uint8Array(bytes));
    await settle();
  }

  settings(...values: [id: number, value: number][]): Promise<void> {
    const payload = Buffer.alloc(values.length * 6);
    values.forEach(([id, value], i) => payload.writeUInt32BE(value, payload.writeUInt16BE(id, 6 * i)));
    return this.send(TYPE.settings, 0, 0, payload);
  }

  headers(stream: number, fields: HeaderFields, flags: number = FLAG.endHeaders): Promise<void> {
    return this.send(TYPE.headers, flags, stream, Buffer.from(this.#encoder.encode(fields)));
  }

  /** The frames of a kind that have arrived, taken away. */
  take(type: number): Frame[] {
    const found = this.frames.filter((frame) => frame.type === type);
    this.frames.splice(0, Infinity, ...this.frames.filter((frame) => frame.type !== type));
    return found;
  }

  decode({ payload }: Frame): HeaderFields | undefined {
    return this.#decoder.decode(payload);
  }

  close(): void {
    this.connection.destroy(new SvcError("canceled", "the test is over"));
  }

  #receive(bytes: Buffer): void {
    this.#input = Buffer.concat([this.#input, bytes]);
    while (this.#input.length >= 9) {
      const end = 9 + this.#input.readUIntBE(0, 3);
      if (this.#input.length < end) return;
      const [type, flags] = this.#input.subarray(3, 5);
      const payload = this.#input.subarray(9, end);
      this.frames.push({ type, flags, stream: this.#input.readUInt32BE(5), payload });
      this.#input = this.#input.subarray(end);
    }
  }
}

/** Lets the connection take its turns until the condition holds. */
export async function turns(done: () => boolean): Promise<void> {
  await until(done, { meanwhile: settle });
  await settle();
}

/** Records a stream's events. */
export class Notes implements StreamListener {
  fields: HeaderFields[] = [];
  body = "";
  end = false;
  error: SvcError | undefined;
  untouched: boolean | undefined;
  over = false;

  headers(fields: HeaderFields): void {
    this.fields.push(fields);
  }

  data(bytes: Uint8Array): void {
    this.body += Buffer.from(bytes).toString();
  }

  ended(): void {
    this.end = true;
  }

  closed(error: SvcError | undefined, untouched?: boolean): void {
    assert(!this.over, "closed twice");
    this.over = true;
    this.error = error;
    this.untouched = untouched;
  }
}

export function server(
  more: Partial<ConnectionOptions> = {},
  clock?: FakeClock,
): { wire: Wire; streams: Stream[]; notes: Notes[] } {
  const streams: Stream[] = [], notes: Notes[] = [];
  const accept = (stream: Stream, fields: HeaderFields | undefined) => {
    streams.push(stream);
    notes.push(new Notes());
    notes.at(-1)!.headers(fields ?? []);
    return notes.at(-1)!;
  };
  return { wire: new Wire({ role: "server", accept, ...more }, clock), streams, notes };
}

export const GET: HeaderFields = [[":method", "GET"], [":scheme", "http"], [":path", "/"]];
export const OK: HeaderFields = [[":status", "200"]];
