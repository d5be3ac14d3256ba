/**
 * Reads MCAP files message by message, including files whose recorder was stopped before it wrote the end.
 */

import { McapStreamReader } from "@mcap/core";
import { CHUNK_BYTES_MAX, Unpacker } from "./unpacking.ts";
import { type BagMessage, encodingOf, wantedType } from "./messages.ts";

/** Limit of the channels, and so of the topics, of a file. */
const CHANNELS_MAX = 10_000;
const NS_PER_S = 1e9;

/** The wanted messages in the order of the file. `cut` is called if the file ends before its end record. */
export async function* readMcap(
  pieces: AsyncIterable<Uint8Array>,
  unpacker: Unpacker,
  cut: () => void,
): AsyncGenerator<BagMessage> {
  const unpack = (form: "lz4" | "zstd") => (packed: Uint8Array, size: bigint) => {
    return unpacker.unpack(form, packed, Number(size));
  };
  const reader = new McapStreamReader({ decompressHandlers: { lz4: unpack("lz4"), zstd: unpack("zstd") } });
  const types = new Map<number, string>();
  const channels = new Map<number, Pick<BagMessage, "topic" | "type" | "encoding">>();
  for await (const piece of pieces) {
    unpacker.count(piece.length);
    if (reader.done()) throw new RangeError("bytes follow the end of the MCAP file");
    reader.append(piece);
    if (reader.bytesRemaining() > CHUNK_BYTES_MAX) {
      throw new RangeError(`a record of more than ${CHUNK_BYTES_MAX} bytes`);
    }
    for (let record; (record = reader.nextRecord());) {
      if (record.type === "Schema") types.set(record.id, record.name);
      if (record.type === "Channel") {
        const type = wantedType(types.get(record.schemaId) ?? ""),
          encoding = encodingOf(record.messageEncoding);
        if (type && encoding) channels.set(record.id, { topic: record.topic, type, encoding });
      }
      if (types.size > CHANNELS_MAX || channels.size > CHANNELS_MAX) {
        throw new RangeError(`more than ${CHANNELS_MAX} topics or types`);
      }
      if (record.type !== "Message") continue;
      const channel = channels.get(record.channelId);
      if (channel) yield { ...channel, loggedS: Number(record.logTime) / NS_PER_S, data: record.data };
    }
  }
  if (!reader.done()) cut();
}
