/**
 * `.pbstream` files: eight magic bytes, then messages, each with its length before it and packed with gzip.
 *
 * Reads and writes one message at a time, so that a map of any size needs the memory of its largest message only. A
 * stated length is not trusted: nothing is allocated for it before its bytes arrive. Every error is an
 * `invalid_argument` that names the message and the byte.
 *
 * The room owns map files: their container, their messages, the rules for these, and the conversion from and to a
 * map.
 */

import { constants, gunzipSync, gzipSync } from "node:zlib";
import { nextTurn } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { ByteReader, joinedBytes } from "../../base/files/byte_reader.ts";
import { MapCheck } from "./check.ts";
import { HeaderMessage, type ItemKind, type MapItem, Serialized } from "./messages.ts";
import { ProtoReader } from "../../base/protobuf/reader.ts";
import { ProtoWriter } from "../../base/protobuf/writer.ts";

export const MAGIC = Uint8Array.of(0xdb, 0x01, 0xf5, 0x5b, 0x7b, 0x1f, 0x1d, 0x7b);
const LENGTH_BYTES = 8;
/** Largest message, packed or unpacked. */
const MESSAGE_BYTES_MAX = 128 * 1024 * 1024;
/** Largest sum of all messages of a file, unpacked. */
const FILE_BYTES_MAX = 4 * 1024 ** 3;
const FORMAT_VERSIONS = [1, 2] as const;
/** The operating system in a gzip header: 255, unknown, so that a map has the same bytes on every system. */
const GZIP_SYSTEM_BYTE = 9;
const GZIP_SYSTEM_UNKNOWN = 255;
/** A writer yields after this many bytes. */
const TURN_BYTES = 256 * 1024;

export interface ReadMapOptions {
  /** Called for each message of an unknown kind. */
  readonly warn?: (message: string) => void;
  readonly signal?: AbortSignal;
}

/** The format version of a file, and its messages. */
export interface OpenMap {
  readonly formatVersion: number;
  /** Can be read once, partly or to the end. */
  readonly items: AsyncIterable<MapItem>;
}

/** Reads the beginning of a file. */
export async function openPbstream(
  chunks: AsyncIterable<Uint8Array>,
  options: ReadMapOptions = {},
): Promise<OpenMap> {
  const messages = new Messages(chunks);
  try {
    await messages.begin();
    const formatVersion = await messages.next((reader) => {
      const { formatVersion } = HeaderMessage.read(reader);
      if (formatVersion === 1 || formatVersion === 2) return formatVersion;
      throw reader.wrong(`the format version ${formatVersion}, wanted ${FORMAT_VERSIONS.join(" or ")}`);
    });
    if (formatVersion === undefined) throw new SvcError("invalid_argument", "map file: found no messages");
    return { formatVersion, items: itemsOf(messages, options) };
  } catch (error) {
    await messages.close();
    throw error;
  }
}

/** Writes a file of the pose graph, the options and the other messages. */
export async function* writePbstream(
  items: Iterable<MapItem>,
  formatVersion: typeof FORMAT_VERSIONS[number] = 2,
): AsyncGenerator<Uint8Array> {
  const check = new MapCheck();
  yield MAGIC;
  yield packed((writer) => HeaderMessage.write(writer, { formatVersion }));
  let bytes = 0;
  for (const item of items) {
    check.add(item);
    const message = { ...Serialized.empty(), [item.kind]: item.value };
    const piece = packed((writer) => Serialized.write(writer, message));
    yield piece;
    if ((bytes += piece.length) < TURN_BYTES) continue;
    bytes = 0;
    await new Promise<void>((resolve) => nextTurn(resolve));
  }
  check.finish();
}

async function* itemsOf(messages: Messages, { warn, signal }: ReadMapOptions): AsyncGenerator<MapItem> {
  const check = new MapCheck();
  try {
    for (;;) {
      signal?.throwIfAborted();
      const item = await messages.next((reader) => {
        const found = itemOf(reader);
        if (found) check.add(found);
        return found ?? "unknown";
      });
      if (item === undefined) break;
      if (item !== "unknown") yield item;
      else warn?.(`${messages.where}: left out, because it is of an unknown kind`);
    }
    messages.locate(() => check.finish());
  } finally {
    await messages.close();
  }
}

function itemOf(reader: ProtoReader): MapItem | undefined {
  const content = Serialized.read(reader);
  const kinds = (Object.keys(content) as ItemKind[]).filter((kind) => content[kind] !== undefined);
  if (kinds.length > 1) throw reader.wrong(`${kinds.join(" and ")} in one message`);
  const [kind] = kinds;
  return kind && { kind, value: content[kind] } as MapItem;
}

/** Iterates over the messages of a file and tracks the position of each. */
class Messages {
  readonly #reader: ByteReader;
  #count = 0;
  #start = 0;
  #unpackedBytes = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#reader = new ByteReader(chunks, () => this.#wrong("an end in the middle of it"));
  }

  get where(): string {
    return this.#count === 0 ? "map file" : `map file, message ${this.#count} at byte ${this.#start}`;
  }

  async begin(): Promise<void> {
    const magic = await this.#reader.take(MAGIC.length);
    if (!MAGIC.every((byte, at) => byte === magic[at])) {
      throw this.#wrong("another beginning than that of a .pbstream file");
    }
  }

  /** Reads the next message with `read`; `undefined` at the end of the file. */
  async next<T>(read: (reader: ProtoReader) => T): Promise<T | undefined> {
    if (await this.#reader.ended()) return undefined;
    this.#count++;
    this.#start = this.#reader.at;
    const head = await this.#reader.take(LENGTH_BYTES);
    const length = new DataView(head.buffer).getBigUint64(0, true);
    if (length > MESSAGE_BYTES_MAX) {
      throw this.#wrong(`a length of ${length} bytes, wanted at most ${MESSAGE_BYTES_MAX}`);
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.#reader.part(Number(length))) chunks.push(chunk);
    const bytes = this.#unpack(joinedBytes(chunks));
    const reader = new ProtoReader(bytes);
    return this.locate(() => read(reader));
  }

  /** Runs `work` and adds the position in the file to its error. */
  locate<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      const { code, message, cause } = error;
      const found = message.includes("found ") ? message : `found ${message}`;
      throw new SvcError(code, `${this.where}: ${found}`, { cause });
    }
  }

  async close(): Promise<void> {
    await this.#reader.close();
  }

  #unpack(bytes: Uint8Array): Uint8Array {
    try {
      const left = FILE_BYTES_MAX - this.#unpackedBytes;
      const unpacked = gunzipSync(bytes, { maxOutputLength: Math.max(1, Math.min(MESSAGE_BYTES_MAX, left)) });
      this.#unpackedBytes += unpacked.length;
      return unpacked;
    } catch (error) {
      if ((error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") {
        throw this.#wrong("more than a map holds once it is unpacked");
      }
      throw this.#wrong(`bytes that are not packed with gzip (${messageOf(error)})`);
    }
  }

  #wrong(found: string): SvcError {
    return new SvcError("invalid_argument", `${this.where}: found ${found}`);
  }
}

function packed(write: (writer: ProtoWriter) => void): Uint8Array {
  const writer = new ProtoWriter();
  write(writer);
  const gzip = gzipSync(writer.finish(), { level: constants.Z_BEST_SPEED });
  gzip[GZIP_SYSTEM_BYTE] = GZIP_SYSTEM_UNKNOWN;
  const piece = new Uint8Array(LENGTH_BYTES + gzip.length);
  new DataView(piece.buffer).setBigUint64(0, BigInt(gzip.length), true);
  piece.set(gzip, LENGTH_BYTES);
  return piece;
}
