/**
 * HPACK beside Python's package of this name: both decode the same blocks to the same fields, or refuse them, and each
 * decodes what the other one encodes.
 */

import { Buffer } from "node:buffer";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { HpackDecoder, HpackEncoder, HpackError } from "../../../lib/wire/http2/hpack.ts";
import type { HeaderFields } from "../../../lib/wire/rpc/metadata.ts";
import { pythonProgram } from "../../interop/programs.ts";
import { joined } from "../damage.ts";
import { OtherProgram } from "../other_program.ts";
import type { Target } from "../target.ts";

const READER = new URL("../other/hpack_reader.py", import.meta.url).pathname;
const COVERS = ["wire/http2/hpack.ts", "wire/http2/huffman.ts"];
const LIST_BYTES_MAX = 1 << 20;
/**
 * Ours is stricter, as the standard lets it be (RFC 7541, 4.2 and 5.1): a third change of the table's size, and
 * integers of more than 28 bits.
 */
const STRICTER = /more than two changes|integer too long/;

/** A block as a reader found it. */
interface Seen {
  readonly fields?: HeaderFields;
  readonly secret?: readonly boolean[];
  readonly oversized?: boolean;
  readonly refused?: string;
}

type Sent = readonly [name: string, value: string, secret: boolean];
/** A change of the table's size, and fields. */
type SentList = readonly [tableBytes: number | null, fields: readonly Sent[]];

let other: OtherProgram | undefined;

/** Starts the other reader; returns why it cannot be had. */
async function open(): Promise<string | undefined> {
  const python = await pythonProgram();
  if ("missing" in python) return python.missing;
  other = new OtherProgram(python.found, [READER]);
}

async function close(): Promise<void> {
  await other?.close();
  other = undefined;
}

function decodeOther(blocks: readonly Uint8Array[]): Promise<Seen[]> {
  return other!.ask({ blocks: blocks.map(hex), listBytesMax: LIST_BYTES_MAX });
}

async function encodeOther(lists: readonly SentList[], huffman: boolean): Promise<Uint8Array[]> {
  const blocks = await other!.ask<string[]>({ lists, huffman });
  return blocks.map((block) => new Uint8Array(Buffer.from(block, "hex")));
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** The blocks of an input, each after its length. */
function blocksIn(bytes: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 1 + bytes[at]) {
    blocks.push(bytes.subarray(at + 1, at + 1 + bytes[at]));
  }
  return blocks;
}

async function readBlocks(bytes: Uint8Array): Promise<void> {
  const blocks = blocksIn(bytes);
  const theirs = await decodeOther(blocks);
  const decoder = new HpackDecoder(LIST_BYTES_MAX);
  for (const [index, other] of theirs.entries()) {
    const ours = seenByOurs(decoder, blocks[index]);
    if (!requireSame(ours, other, `block ${index}, ${hex(blocks[index])}`)) return;
  }
}

function seenByOurs(decoder: HpackDecoder, block: Uint8Array): Seen {
  try {
    const fields = decoder.decode(block);
    return fields ? { fields } : { oversized: true };
  } catch (error) {
    if (error instanceof HpackError) return { refused: error.message };
    throw error;
  }
}

/** Throws if the readers disagree; returns whether both read the block, and the connection goes on. */
function requireSame(ours: Seen, other: Seen, block: string): boolean {
  if (ours.fields && other.fields) {
    if (JSON.stringify(ours.fields) === JSON.stringify(other.fields)) return true;
    throw new Error(`${block}: ours found ${JSON.stringify(ours)}, the other ${JSON.stringify(other)}`);
  }
  const isStricter = STRICTER.test(ours.refused ?? "");
  // The other reader ends a list where it grows too long, and ours reads on.
  const agree = !ours.fields && !other.fields && (!ours.oversized || other.oversized);
  if (agree || isStricter) return false;
  throw new Error(`${block}: ours ${JSON.stringify(ours)}, the other ${JSON.stringify(other)}`);
}

const NAMES = [
  ":path",
  ":authority",
  ":status",
  "content-type",
  "te",
  "grpc-status",
  "user-agent",
  "authorization",
  "cookie",
  "x-one",
  "x-two-bin",
];
const SIZES = [null, null, null, 0, 31, 33, 100, 4096, 1 << 20];
const FIELDS_MAX = 8;

/** Lists of fields that the bytes choose, over and over: names, values of any byte, changes of the table's size. */
function listsFrom(bytes: Uint8Array): SentList[] {
  let at = 0;
  const next = () => bytes.length === 0 ? 0 : bytes[at++ % bytes.length];
  return Array.from({ length: 1 + next() % FIELDS_MAX }, (): SentList => {
    const tableBytes = SIZES[next() % SIZES.length];
    const fields = Array.from({ length: next() % FIELDS_MAX }, (): Sent => {
      const name = NAMES[next() % NAMES.length];
      const value = Array.from({ length: lengthFrom(next()) }, () => String.fromCharCode(next())).join("");
      return [name, value, name === "authorization"];
    });
    return [tableBytes, fields];
  });
}

/** Short ones, and now and then one whose length takes three bytes or that is larger than a table. */
function lengthFrom(byte: number): number {
  return byte < 200 ? byte % 20 : (byte - 199) * 90;
}

async function exchangeBlocks(bytes: Uint8Array): Promise<void> {
  const lists = listsFrom(bytes);
  const encoder = new HpackEncoder();
  const sent = lists.map(([tableBytes, fields]) => {
    if (tableBytes !== null) encoder.resize(tableBytes);
    return encoder.encode(fields.map(([name, value]) => [name, value])).slice();
  });
  const theirs = await decodeOther(sent);
  for (const [index, [, fields]] of lists.entries()) requireArrived(fields, theirs[index], "ours");

  // What the other encoder may use is what our decoder allows.
  const allowed = lists.map((
    [size, fields],
  ): SentList => [size === null ? null : Math.min(4096, size), fields]);
  for (const huffman of [false, true]) {
    const decoder = new HpackDecoder(LIST_BYTES_MAX);
    const blocks = await encodeOther(allowed, huffman);
    for (const [index, [, fields]] of lists.entries()) {
      requireArrived(fields, seenByOurs(decoder, blocks[index]), "the other one's");
    }
  }
}

/** Throws unless a block has the fields that were put into it, and keeps the secret ones out of tables. */
function requireArrived(sent: readonly Sent[], seen: Seen | undefined, whose: string): void {
  const wanted = JSON.stringify(sent.map(([name, value]) => [name, value]));
  const found = JSON.stringify(seen?.fields);
  if (found !== wanted) throw new Error(`${whose} block of ${wanted} was read as ${JSON.stringify(seen)}`);
  const lost = seen?.secret && sent.some(([, , secret], index) => secret && !seen.secret![index]);
  if (lost) throw new Error(`${whose} block of ${wanted} lets a secret into tables`);
}

/** Blocks of the other encoder, and some that are near a limit. */
async function samples(): Promise<Uint8Array[]> {
  const random = randomFrom(3);
  const inputs = await Promise.all(Array.from({ length: 12 }, async (_, index) => {
    const bytes = Uint8Array.from({ length: 60 }, () => 256 * random());
    const lists = listsFrom(bytes).map(([size, fields]): SentList => {
      return [size === null ? null : Math.min(4096, size), fields.filter(([, value]) => value.length < 20)];
    });
    return joined(...(await encodeInTurn(lists, index % 2 === 1)).map(withLength));
  }));
  return [...inputs, ...EDGES.map((block) => withLength(Buffer.from(block, "hex")))];
}

let turn: Promise<unknown> = Promise.resolve();

/** One request at a time. */
function encodeInTurn(lists: readonly SentList[], huffman: boolean): Promise<Uint8Array[]> {
  const encoding = turn.then(() => encodeOther(lists, huffman));
  turn = encoding.catch(() => {});
  return encoding;
}

function withLength(block: Uint8Array): Uint8Array {
  return joined(Uint8Array.of(block.length), block);
}

const EDGES = [
  "80",
  "be",
  "ff808080808001",
  "7f80808000",
  "0f8000" + "0161",
  "3fe11f" + "82",
  "3fe21f",
  "202082",
  "20203fe11f82",
  "2082" + "20",
  "1081ff" + "00",
  "10821cff" + "0161",
  "0085ffffffffff" + "00",
  "0084fffffffe" + "00",
  "0000" + "0000",
];

export const SAME_HPACK: readonly Target[] = [
  { name: "same/hpack", covers: COVERS, open, close, samples, read: readBlocks },
  {
    name: "same/hpack-exchange",
    covers: COVERS,
    open,
    close,
    samples: () =>
      Array.from(
        { length: 20 },
        (_, at) => Uint8Array.from({ length: 80 }, (_, index) => at * 31 + index * (at + 5)),
      ),
    read: exchangeBlocks,
  },
];
