/**
 * HTTP/2 beside Go's server: both take the same bytes of a client, end the connection or reset streams for the same
 * faults, and pass the same requests on.
 */

import { Buffer } from "node:buffer";
import {
  FLAG,
  FRAME_HEADER_BYTES,
  H2,
  MAX_FRAME_BYTES,
  readUint32,
  TYPE,
  uint32,
} from "../../../lib/wire/http2/frame.ts";
import { HpackEncoder } from "../../../lib/wire/http2/hpack.ts";
import type { HeaderFields } from "../../../lib/wire/rpc/metadata.ts";
import { goProgram } from "../../interop/programs.ts";
import { frameBytes, GET, Notes, server, type Wire } from "../../support/http2_wire.ts";
import { joined } from "../damage.ts";
import { OtherProgram } from "../other_program.ts";
import type { Target } from "../target.ts";

const PROGRAM = new URL("../other/http2_reader", import.meta.url).pathname;
const STREAMS_MAX = 1000;
const HEADER_BYTES_MAX = 64 * 1024;
const GOING_ON = -1;
const CLOSED = 0;
/** A setting of RFC 8441, which ours does not know. */
const CONNECT_PROTOCOL = 8;
/** Faults of a frame that may have a second one, for which the other server ends the connection. */
const FIRST_OF_TWO =
  /^frame of|first frame is not SETTINGS|block is interrupted|^\w+ on (?:a )?stream|depends on itself/;

interface Request {
  readonly method: string;
  readonly path: string;
  readonly fields: readonly string[];
  /** Of the other server only those that the request has announced. */
  readonly trailers: readonly string[];
  readonly body: string;
  /** Whether its end has come. */
  readonly whole: boolean;
}

/** What a server made of a client's bytes. */
interface Seen {
  /** The code that ended the connection; -1 if it goes on, 0 if it was closed without a code. */
  readonly ended: number;
  /** What ours says about it. */
  readonly reason?: string;
  /** The code of each stream that it reset. */
  readonly resets: Readonly<Record<string, number>>;
  readonly requests: Readonly<Record<string, Request>>;
  /** Whether a request had too many fields for ours: the servers count in different ways. */
  readonly oversized?: boolean;
}

/** The other program ends each conversation so. */
const PING = frameBytes(TYPE.ping, 0, 0, new TextEncoder().encode("the end."));

let other: OtherProgram | undefined;

async function open(): Promise<string | undefined> {
  const program = await goProgram(PROGRAM);
  if ("missing" in program) return program.missing;
  other = new OtherProgram(program.found);
}

async function close(): Promise<void> {
  await other?.close();
  other = undefined;
}

/** Fields that Go's server takes out of a request, or joins. */
const KEPT_APART = /^(?:host|cookie|trailer|expect|content-length|:.*)$/;

class Body extends Notes {
  readonly parts: Buffer[] = [];

  override data(bytes: Uint8Array): void {
    this.parts.push(Buffer.from(bytes));
  }
}

/** Our server, taking one frame after the other. */
class OurServer {
  readonly #requests = new Map<number, Body>();
  readonly #wire: Wire;
  readonly #resets: Record<string, number> = {};
  #ended = GOING_ON;
  #reason = "";
  #isOversized = false;

  constructor() {
    const { wire } = server({
      maxStreams: STREAMS_MAX,
      accept: (stream, fields) => {
        this.#isOversized ||= fields === undefined;
        const body = new Body();
        body.headers(fields ?? []);
        this.#requests.set(stream.id, body);
        return body;
      },
    });
    this.#wire = wire;
  }

  async take(frame: Uint8Array): Promise<void> {
    await this.#wire.sendBytes(frame);
    for (const { payload } of this.#wire.take(TYPE.goaway)) {
      this.#ended = payload.readUInt32BE(4);
      this.#reason = payload.subarray(8).toString();
    }
    for (const { stream, payload } of this.#wire.take(TYPE.reset)) {
      this.#resets[stream] ??= payload.readUInt32BE();
    }
  }

  seen(): Seen {
    const requests = [...this.#requests].map(([id, body]) => [id, requestOf(body)]);
    return {
      ended: this.#ended,
      reason: this.#reason,
      resets: Object.fromEntries(Object.entries(this.#resets).sort()),
      requests: Object.fromEntries(requests),
      oversized: this.#isOversized,
    };
  }

  get isWithinBlock(): boolean {
    return this.#wire.connection.dispatch.block !== undefined;
  }

  close(): void {
    this.#wire.close();
  }
}

function requestOf({ fields: [fields = [], trailers = []], parts, end }: Body): Request {
  const value = (wanted: string) => fields.find(([name]) => name === wanted)?.[1] ?? "";
  return {
    method: value(":method"),
    path: value(":path"),
    fields: shown(fields),
    trailers: shown(trailers),
    body: Buffer.concat(parts).toString("hex"),
    whole: end,
  };
}

function shown(fields: HeaderFields): string[] {
  return fields.map(([name, value]) => `${name}: ${Buffer.from(value, "latin1").toString("hex")}`);
}

/** The frames of an input; what is left at its end is no frame. */
function framesIn(bytes: Uint8Array): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let at = 0; at + FRAME_HEADER_BYTES <= bytes.length;) {
    const length = bytes[at] << 16 | bytes[at + 1] << 8 | bytes[at + 2];
    const end = at + FRAME_HEADER_BYTES + length;
    if (length <= MAX_FRAME_BYTES && end > bytes.length) break;
    // The other server takes no new streams from then on.
    if (bytes[at + 3] === TYPE.goaway && length >= 8) break;
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}

async function readFrames(bytes: Uint8Array): Promise<void> {
  const frames = [...framesIn(bytes), PING];
  const ours = new OurServer();
  const refused = new RefusedStreams();
  const sent: Uint8Array[] = [];
  try {
    let before = ours.seen();
    for (const [index, frame] of frames.entries()) {
      if (!ours.isWithinBlock && refused.concerns(frame, before)) continue;
      const isWithinBlock = ours.isWithinBlock;
      await ours.take(frame);
      const now = ours.seen();
      const isLast = index === frames.length - 1;
      const earlier = [...sent];
      sent.push(frame);
      if (!isLast && countOf(now) === countOf(before)) {
        before = now;
        continue;
      }

      // Up to this frame both found the same faults, and then at this one.
      const until = { ours: before, theirs: await seenByOther(earlier) };
      if (earlier.length > 0 && !isWithinBlock && !agree(until, earlier)) return;
      const since = { ours: now, theirs: await seenByOther(sent) };
      if (!agree(since, sent)) return;
      refused.note(now);
      before = now;
    }
  } finally {
    ours.close();
  }
}

/**
 * Streams whose first fields were refused. Go's server forgets them and takes what follows for frames of a stream that
 * never was, so neither server gets more of them.
 */
class RefusedStreams {
  readonly #ids = new Set<number>();

  /** Adds those that were reset and never became a request. */
  note({ resets, requests }: Seen): void {
    for (const id of Object.keys(resets)) if (!(id in requests)) this.#ids.add(Number(id));
  }

  /** Whether a frame is about such a stream, or about one below it that never was: the servers differ about those, too. */
  concerns(frame: Uint8Array, { requests }: Seen): boolean {
    const id = streamOf(frame);
    return id > 0 && id <= Math.max(0, ...this.#ids) && !(id in requests);
  }
}

function countOf({ ended, resets }: Seen): number {
  return Object.keys(resets).length + (ended === GOING_ON ? 0 : 1);
}

function seenByOther(frames: readonly Uint8Array[]): Promise<Seen> {
  const bytes = Buffer.concat(frames).toString("hex");
  return other!.ask<Seen>({ bytes, streams: STREAMS_MAX, headerBytes: HEADER_BYTES_MAX });
}

interface Both {
  readonly ours: Seen;
  readonly theirs: Seen;
}

/** Throws if the servers disagree; returns whether they can be compared further. */
function agree({ ours, theirs }: Both, frames: readonly Uint8Array[]): boolean {
  if (ours.oversized) return false;
  const problem = difference(ours, theirs);
  if (problem === undefined) return ours.ended === GOING_ON;
  if (isStricter(ours, theirs) || isMoreLenient(ours, frames)) return false;
  const sent = frames.map((frame) => Buffer.from(frame).toString("hex")).join(" ");
  throw new Error(
    `${problem}, after ${sent}: ours ${JSON.stringify(ours)}, the other ${JSON.stringify(theirs)}`,
  );
}

/** A change of the table's size after a field, or a third one (RFC 7541, 4.2): the other takes it for an empty table. */
const WRONG_TABLE = /size after a field|more than two changes/;
const INTEGER_TOO_LONG = /integer too long/;
const NO_SETTINGS = "the first frame is not SETTINGS";
const CONTENT_LENGTH = /^content-length: /;

/** Where ours refuses, on purpose, what the other server takes, or ends more than it. */
function isStricter(ours: Seen, theirs: Seen): boolean {
  const { reason = "" } = ours;
  if (WRONG_TABLE.test(reason) || INTEGER_TOO_LONG.test(reason)) return true;
  // An acknowledgement is not what a connection begins with (RFC 9113, 3.4).
  if (reason === NO_SETTINGS) return true;
  // An error of a stream may be one of the connection (RFC 9113, 5.4.1).
  if (ours.ended !== GOING_ON) return countOf(theirs) > 0 && theirs.ended === GOING_ON;
  // The data has to be as long as a content-length says, which has to be a number (8.1.1).
  const added = Object.keys(ours.resets).filter((id) => !(id in theirs.resets));
  return added.some((id) => theirs.requests[id]?.fields.some((field) => CONTENT_LENGTH.test(field)));
}

/** Where ours takes, on purpose, what the other server refuses. */
function isMoreLenient({ requests, resets }: Seen, frames: readonly Uint8Array[]): boolean {
  // The other ends the connection for a malformed block as soon as a second frame of it comes.
  const isReset = Object.values(resets).includes(H2.protocol);
  if (isReset && frames.at(-1)![3] === TYPE.continuation) return true;
  // Fields that come after our reset may have been under way (RFC 9113, 5.1).
  const opened = frames.filter((frame) => frame[3] === TYPE.headers).map(streamOf);
  if (opened.some((id, at) => id in resets && opened.indexOf(id) < at)) return true;
  return frames.some(hasOddSettings) ||
    Object.values(requests).some(({ fields, trailers }) => {
      const isAnnounced = fields.some((field) => nameIn(field) === "trailer");
      return [...fields, ...trailers].some(isOdd) ||
        isAnnounced && trailers.some((field) => REFUSED_TRAILERS.test(nameIn(field)));
    });
}

/** Fields that Go's server refuses as trailers of a request that announces some; a server may take and ignore them. */
const REFUSED_TRAILERS =
  /^(?:if-.*|authorization|cache-control|connection|content-(?:encoding|length|range|type)|expect|host|keep-alive|max-forwards|pragma|proxy-(?:authenticate|authorization|connection)|range|realm|te|trailer|transfer-encoding|www-authenticate)$/;

function streamOf(frame: Uint8Array): number {
  return readUint32(frame, 5) & 0x7fffffff;
}

/** Settings may come twice, be unknown, and be acknowledged though nobody waits for it (RFC 9113, 6.5). */
function hasOddSettings(frame: Uint8Array): boolean {
  if (frame[3] !== TYPE.settings) return false;
  const ids: number[] = [];
  for (let at = FRAME_HEADER_BYTES; at + 6 <= frame.length; at += 6) ids.push(frame[at] << 8 | frame[at + 1]);
  return (frame[4] & FLAG.ack) !== 0 || new Set(ids).size < ids.length || ids.includes(CONNECT_PROTOCOL);
}

/**
 * Most control characters in values may be kept (RFC 9110, 5.5); the path and the scheme are for those who route the
 * request.
 */
function isOdd(field: string): boolean {
  const [name, text] = [nameIn(field), valueIn(field)];
  if (name === ":path") return !/^\/[\w./-]*$/.test(text);
  if (name === ":scheme") return !/^https?$/.test(text);
  // deno-lint-ignore no-control-regex
  return /[\x00-\x08\x0e-\x1f\x7f]/.test(text);
}

/** What the servers disagree about. */
function difference(ours: Seen, theirs: Seen): string | undefined {
  if (!isSameEnd(ours, theirs)) return `the end ${ours.ended}, ${theirs.ended}`;
  if (ours.ended !== GOING_ON) return undefined;
  const [resets, others] = [ours.resets, resetsAndRefusals(ours, theirs)].map((all) => JSON.stringify(all));
  if (resets !== others) return `the resets ${resets}, ${others}`;
  // Go's server takes the field "trailer" out of a request.
  const announced = announcedIn(ours);
  const [requests, theirRequests] = [ours, theirs].map((seen) =>
    JSON.stringify(openRequests(seen, announced))
  );
  return requests === theirRequests ? undefined : `the requests ${requests}, ${theirRequests}`;
}

function isSameEnd(ours: Seen, theirs: Seen): boolean {
  if (ours.ended === theirs.ended) return true;
  if (ours.ended === GOING_ON || theirs.ended === GOING_ON) return false;
  // Some faults the other server answers by closing alone, and one frame may have two.
  if (theirs.ended === CLOSED || FIRST_OF_TWO.test(ours.reason ?? "")) return true;
  // Malformed fields end it before the rest of their block is read.
  return theirs.ended === H2.protocol &&
    [H2.streamClosed, H2.compression].some((code) => code === ours.ended);
}

/**
 * The other server's resets, and its refusals by a status where ours resets. Fields that are malformed and come after
 * the end have two faults.
 */
function resetsAndRefusals(ours: Seen, theirs: Seen): Seen["resets"] {
  const all = Object.entries(theirs.resets).map(([id, code]): [string, number] => {
    return [id, code === H2.protocol && ours.resets[id] === H2.streamClosed ? H2.streamClosed : code];
  });
  const refused = Object.entries(ours.resets).filter(([id, code]) => {
    return code === H2.protocol && !(id in theirs.resets) && !(id in theirs.requests);
  });
  return Object.fromEntries([...all, ...refused].sort());
}

/** By stream: the names of trailers that its request has announced. */
type Announced = Readonly<Record<string, ReadonlySet<string>>>;

/** Fields that Go's server takes for no trailers, even if they are announced. */
const NEVER_TRAILERS = ["transfer-encoding", "trailer", "content-length"];

function announcedIn({ requests }: Seen): Announced {
  return Object.fromEntries(
    Object.entries(requests).map(([id, { fields }]) => {
      const names = fields.filter((field) => nameIn(field) === "trailer").flatMap((field) =>
        valueIn(field).split(",").map((name) => name.trim().toLowerCase())
      );
      return [id, new Set(names.filter((name) => !NEVER_TRAILERS.includes(name)))];
    }),
  );
}

function nameIn(field: string): string {
  return field.slice(0, field.lastIndexOf(": "));
}

function valueIn(field: string): string {
  return Buffer.from(field.slice(field.lastIndexOf(": ") + 2), "hex").toString("latin1");
}

/** Without those that were reset: what has arrived of them until then is left to chance. */
function openRequests({ requests, resets }: Seen, announced: Announced): readonly unknown[] {
  return Object.entries(requests).filter(([id]) => !(id in resets)).map((
    [id, { method, path, fields, trailers, body, whole }],
  ) => ({
    id,
    ...{ method, path, body, whole },
    fields: fields.filter((field) => !KEPT_APART.test(nameIn(field))).sort(),
    trailers: whole ? trailers.filter((field) => announced[id]?.has(nameIn(field))).sort() : [],
  }));
}

/** Conversations of a client, frame by frame. */
function samples(): Uint8Array[] {
  const encoder = new HpackEncoder();
  const settings = frameBytes(TYPE.settings, 0, 0, joined(Uint8Array.of(0, 4), uint32(70_000)));
  const headers = (id: number, flags: number, more: HeaderFields = []) =>
    frameBytes(TYPE.headers, flags, id, encoder.encode([...GET, ...more]).slice());
  const data = (id: number, flags: number, length = 3) =>
    frameBytes(TYPE.data, flags, id, new Uint8Array(length));
  const whole = FLAG.endHeaders | FLAG.endStream;
  const trailers = (id: number, flags: number, fields: HeaderFields = [["x", "y"]]) =>
    frameBytes(TYPE.headers, flags, id, encoder.encode(fields).slice());
  const window = (id: number, bytes: number) => frameBytes(TYPE.window, 0, id, uint32(bytes));
  const priority = Uint8Array.of(2, 0, 0, 0, 0, 9);
  return [
    [
      headers(1, whole),
      headers(3, FLAG.endHeaders),
      data(3, 0),
      data(3, FLAG.endStream),
      data(3, 0),
      window(3, 9),
    ],
    [headers(1, FLAG.endHeaders, [["content-length", "3"], ["x", "y"]]), data(1, FLAG.endStream)],
    [
      headers(1, 0),
      frameBytes(TYPE.continuation, FLAG.endHeaders, 1, encoder.encode([["x", "y"]]).slice()),
      window(1, 1000),
      window(0, 1000),
      frameBytes(TYPE.ping, 0, 0, new Uint8Array(8)),
      frameBytes(TYPE.reset, 0, 1, uint32(8)),
      frameBytes(TYPE.priority, 0, 3, new Uint8Array(5)),
    ],
    [
      frameBytes(TYPE.headers, 0x2c, 1, joined(priority, encoder.encode(GET).slice(), new Uint8Array(2))),
      frameBytes(TYPE.data, FLAG.padded, 1, Uint8Array.of(2, 1, 0, 0)),
      trailers(1, whole),
      trailers(1, whole),
    ],
    [
      headers(1, FLAG.endHeaders),
      trailers(1, FLAG.endHeaders),
      headers(3, FLAG.endHeaders),
      trailers(3, whole, GET),
    ],
    [
      headers(1, FLAG.endHeaders, [["trailer", "x, sum"]]),
      data(1, 0),
      trailers(1, whole, [["x", "y"], ["sum", "9"], ["unannounced", "z"]]),
      headers(3, whole, [["connection", "close"]]),
      data(3, FLAG.endStream),
      headers(5, FLAG.endHeaders, [["trailer", "x"], ["x", "first"]]),
      trailers(5, whole, [["x", "y"], ["x", "z"]]),
    ],
    [
      headers(1, FLAG.endHeaders, [["trailer", "x"]]),
      trailers(1, whole, [["X", "y"]]),
      headers(3, FLAG.endHeaders, [["te", "gzip"]]),
      trailers(3, whole),
      headers(5, whole),
    ],
    [
      headers(1, FLAG.endHeaders),
      window(1, 2 ** 31 - 1),
      headers(3, FLAG.endHeaders),
      window(0, 2 ** 31 - 1),
    ],
    [
      headers(1, FLAG.endHeaders),
      frameBytes(TYPE.reset, 0, 1, uint32(8)),
      data(1, 0),
      window(1, 0),
      headers(1, whole),
    ],
    [
      headers(1, whole, [["connection", "close"]]),
      headers(3, whole, [["te", "gzip"]]),
      headers(5, whole, [["X", ""]]),
    ],
  ].map((frames) => joined(settings, ...frames));
}

export const SAME_HTTP2: Target = {
  name: "same/http2",
  covers: ["wire/http2/"],
  open,
  close,
  samples,
  read: readFrames,
};
