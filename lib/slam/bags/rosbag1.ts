/**
 * Reads bags of ROS 1 (format 2.0) from their beginning, record by record. It needs no index, so it reads a bag whose
 * recorder was killed as far as it goes, and relies on no offset in the file.
 */

import { ByteReader } from "../../base/files/byte_reader.ts";
import { type BagMessage, wantedType } from "./messages.ts";
import { CHUNK_BYTES_MAX, type Unpacker } from "./unpacking.ts";

const MAGIC = "#ROSBAG V2.0\n";
const OP = { message: 0x02, header: 0x03, chunk: 0x05, connection: 0x07 } as const;
const HEADER_BYTES_MAX = 1024 ** 2;
const CONNECTIONS_MAX = 10_000;
const NS_PER_S = 1e9;
/** Ends a record in the middle of the file. */
const CUT = new RangeError("the bag ends within a record");

type RecordFields = ReadonlyMap<string, Uint8Array>;
type Connections = Map<number, { readonly topic: string; readonly type: string }>;

/** The wanted messages in the order of the file. `cut` is called if the file ends within a record. */
export async function* readRosbag1(
  pieces: AsyncIterable<Uint8Array>,
  unpacker: Unpacker,
  cut: () => void,
): AsyncGenerator<BagMessage> {
  const reader = new ByteReader(pieces, () => CUT);
  const connections: Connections = new Map();
  try {
    const begin = textOf(await reader.take(MAGIC.length));
    if (begin !== MAGIC) throw new RangeError("it does not begin as a bag of ROS 1 of the format 2.0 does");
    while (!await reader.ended()) {
      const fields = fieldsIn(await reader.take(sizeIn(await reader.take(4), 0, HEADER_BYTES_MAX)));
      const bytes = sizeIn(await reader.take(4), 0, CHUNK_BYTES_MAX), op = fields.get("op")?.[0];
      unpacker.count(bytes);
      if (op === OP.header && textOf(fields.get("encryptor")) !== "") {
        throw new RangeError("the bag is encrypted");
      }
      if (op === OP.chunk) {
        const size = viewOf(fields, "size", 4).getUint32(0, true);
        const form = textOf(fields.get("compression"));
        yield* messagesIn(unpacker.unpack(form, await reader.take(bytes), size), connections);
      } else if (op === OP.connection) note(fields, await reader.take(bytes), connections);
      else if (op === OP.message) yield* messageOf(fields, await reader.take(bytes), connections);
      else await reader.skip(bytes);
    }
  } catch (error) {
    if (error !== CUT) throw error;
    cut();
  } finally {
    await reader.close();
  }
}

/** The records of a chunk. */
function* messagesIn(chunk: Uint8Array, connections: Connections): Generator<BagMessage> {
  for (let at = 0; at < chunk.length;) {
    const headerBytes = sizeIn(chunk, at, HEADER_BYTES_MAX);
    const fields = fieldsIn(partOf(chunk, at + 4, headerBytes));
    const bytes = sizeIn(chunk, at + 4 + headerBytes, CHUNK_BYTES_MAX);
    const data = partOf(chunk, at + 8 + headerBytes, bytes), op = fields.get("op")?.[0];
    if (op === OP.connection) note(fields, data, connections);
    else if (op === OP.message) yield* messageOf(fields, data, connections);
    at += 8 + headerBytes + bytes;
  }
}

function note(fields: RecordFields, data: Uint8Array, connections: Connections): void {
  if (connections.size >= CONNECTIONS_MAX) throw new RangeError(`more than ${CONNECTIONS_MAX} connections`);
  const type = textOf(fieldsIn(data).get("type"));
  connections.set(viewOf(fields, "conn", 4).getUint32(0, true), { topic: textOf(fields.get("topic")), type });
}

function* messageOf(fields: RecordFields, data: Uint8Array, connections: Connections): Generator<BagMessage> {
  const connection = connections.get(viewOf(fields, "conn", 4).getUint32(0, true));
  const type = wantedType(connection?.type ?? "");
  if (!connection || !type) return;
  const time = viewOf(fields, "time", 8);
  const loggedS = time.getUint32(0, true) + time.getUint32(4, true) / NS_PER_S;
  yield { topic: connection.topic, type, encoding: "ros1", loggedS, data };
}

/** The fields of a header: length, then `name=value`. */
function fieldsIn(header: Uint8Array): RecordFields {
  const fields = new Map<string, Uint8Array>();
  for (let at = 0; at < header.length;) {
    const field = partOf(header, at + 4, sizeIn(header, at, HEADER_BYTES_MAX));
    const equals = field.indexOf("=".charCodeAt(0));
    if (equals < 0) throw new RangeError("a field of a record without a name");
    fields.set(textOf(field.subarray(0, equals)), field.subarray(equals + 1));
    at += 4 + field.length;
  }
  return fields;
}

function sizeIn(bytes: Uint8Array, at: number, most: number): number {
  const part = partOf(bytes, at, 4);
  const size = new DataView(part.buffer, part.byteOffset, 4).getUint32(0, true);
  if (size <= most) return size;
  throw new RangeError(`a part of a record of ${size} bytes, wanted at most ${most}`);
}

function partOf(bytes: Uint8Array, at: number, length: number): Uint8Array {
  if (at + length <= bytes.length) return bytes.subarray(at, at + length);
  throw new RangeError("a record reaches beyond its chunk");
}

function viewOf(fields: RecordFields, name: string, bytes: number): DataView {
  const value = fields.get(name);
  if (value?.length === bytes) return new DataView(value.buffer, value.byteOffset, bytes);
  throw new RangeError(`a record without the field "${name}" of ${bytes} bytes`);
}

function textOf(bytes: Uint8Array | undefined): string {
  return new TextDecoder().decode(bytes);
}
