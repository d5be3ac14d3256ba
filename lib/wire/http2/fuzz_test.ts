/** HTTP/2: random frames, and good ones with random changes, in both roles. A failure names its seed. */

import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { settle } from "../../base/clock.ts";
import { HpackEncoder } from "./hpack.ts";
import { MAX_STREAMS } from "./connection.ts";
import { FLAG, TYPE, uint32 } from "./frame.ts";
import { frameBytes, GET, Notes, OK, Wire } from "../../../tests/support/http2_wire.ts";

const ROUNDS = 300;
const FRAMES = 60;

/** Numbers below `limit` in an order that the seed decides. */
function random(seed: number): (limit: number) => number {
  return (limit) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * limit);
  };
}

type Random = (limit: number) => number;

function bytes(next: Random, most: number): Uint8Array {
  return Uint8Array.from({ length: next(most) }, () => next(256));
}

/** A frame that means something, or any frame at all. */
function frame(next: Random, encoder: HpackEncoder, server: boolean): Uint8Array {
  const id = 1 + 2 * next(8), flags = next(64);
  const fields = server ? GET : OK;
  switch (next(12)) {
    case 0:
    case 1:
    case 2:
      return frameBytes(TYPE.headers, FLAG.endHeaders | next(2), id, encoder.encode(fields));
    case 3:
      return frameBytes(TYPE.headers, flags, id, encoder.encode([...fields, ["x", "y".repeat(next(100))]]));
    case 4:
      return frameBytes(TYPE.continuation, flags, id, bytes(next, 50));
    case 5:
      return frameBytes(TYPE.data, next(2), id, bytes(next, 3000));
    case 6:
      return frameBytes(TYPE.data, flags, id, bytes(next, 100));
    case 7:
      return frameBytes(TYPE.window, 0, next(3) * id, uint32(next(1000) ** next(4)));
    case 8:
      return frameBytes(
        TYPE.settings,
        next(2),
        0,
        Buffer.concat([Uint8Array.of(0, next(8)), uint32(next(70_000))]),
      );
    case 9:
      return frameBytes(TYPE.reset, 0, id, uint32(next(15)));
    case 10:
      return frameBytes(TYPE.ping, next(2), 0, new Uint8Array(8));
    default:
      return frameBytes(next(12), next(256), next(20), bytes(next, 40));
  }
}

/** A conversation, now and then with a changed byte, in pieces of any size. */
function conversation(next: Random, server: boolean): Uint8Array[] {
  const encoder = new HpackEncoder();
  const frames = [frameBytes(TYPE.settings, 0, 0, new Uint8Array())];
  for (let i = 0; i < FRAMES; i++) frames.push(frame(next, encoder, server));
  const all = Buffer.concat(frames);
  for (let changes = next(4); changes > 1; changes--) all[next(all.length)] = next(256);
  const pieces: Uint8Array[] = [];
  for (let at = 0, size; at < all.length; at += size) {
    size = 1 + next(next(2) === 0 ? 20 : 5000);
    pieces.push(all.subarray(at, at + size));
  }
  return pieces;
}

for (const role of ["server", "client"] as const) {
  Deno.test(`HTTP/2: a ${role} survives random frames and keeps at most twice the received bytes`, async () => {
    for (let seed = 1; seed <= ROUNDS; seed++) {
      const next = random(seed);
      const notes: Notes[] = [];
      let kept = 0, ends = 0;
      class Kept extends Notes {
        override data(bytes: Uint8Array): void {
          kept += bytes.buffer.byteLength;
          super.data(bytes);
        }
      }
      const wire = new Wire({
        role,
        closed: () => ends++,
        accept: (stream) => {
          notes.push(new Kept());
          // Some answer soon, some later or never.
          const answer = next(4);
          queueMicrotask(() => {
            if (answer < 2) stream.headers(OK, answer === 0);
            else if (answer === 2) void stream.send(new Uint8Array(50_000));
          });
          return notes.at(-1)!;
        },
      });
      for (let i = 0; role === "client" && i < 8; i++) {
        notes.push(new Kept());
        wire.connection.request(GET, next(2) === 0, notes.at(-1)!);
      }
      let sent = 0;
      for (const piece of conversation(next, role === "server")) {
        await wire.sendBytes(piece);
        sent += piece.length;
      }
      const { connection } = wire;
      assert(connection.table.size <= MAX_STREAMS, `seed ${seed}: ${connection.table.size} streams`);
      assert(kept <= 2 * sent + 16 * 1024, `seed ${seed}: ${kept} bytes kept of ${sent}`);
      wire.close();
      await settle();
      assertEquals([connection.open, connection.table.size, ends], [false, 0, 1], `seed ${seed}`);
      // `Notes` itself complains when a stream ends twice.
      assert(notes.every(({ over }) => over), `seed ${seed}: a stream that does not end`);
      await wire.clock.advance(2000);
      assertEquals(wire.clock.pending, 0, `seed ${seed}`);
    }
  });
}
