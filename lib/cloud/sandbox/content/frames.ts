/**
 * The protocol between a content process and its starter: small JSON messages, and the bytes that belong to them.
 *
 * A frame consists of the length of its head (4 bytes, little-endian), the head, and the number of bytes that the
 * head states.
 */

import { ByteReader } from "../../../base/files/byte_reader.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import { isObject, type JsonObject } from "../../../base/schema/schema.ts";

export interface Head extends JsonObject {
  /** Limit of the bytes after the head. */
  readonly bytes: number;
}

/** Limit of a head; the longest ones list the findings in a picture. */
const HEAD_BYTES_MAX = 4 * 1024 * 1024;

const [ENCODER, DECODER] = [new TextEncoder(), new TextDecoder()];

export function headBytes(head: Head): Uint8Array {
  const words = ENCODER.encode(JSON.stringify(head));
  const frame = new Uint8Array(4 + words.length);
  new DataView(frame.buffer).setUint32(0, words.length, true);
  frame.set(words, 4);
  return frame;
}

/** Reads frames; take the bytes of a head from `body` before the next head. */
export class ContentFrameReader {
  readonly body: ByteReader;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.body = new ByteReader(bytes, () => new SvcError("unavailable", "the other side has ended"));
  }

  /** `undefined` at the end; throws `internal` for a malformed head or one of more than `bytesMax` bytes. */
  async next(bytesMax: number): Promise<Head | undefined> {
    if (await this.body.ended()) return undefined;
    const length = await this.body.take(4);
    const size = new DataView(length.buffer).getUint32(0, true);
    if (size > HEAD_BYTES_MAX) throw new SvcError("internal", `a head of ${size} bytes came`);
    const words = await this.body.take(size);
    try {
      const head: unknown = JSON.parse(DECODER.decode(words));
      if (isObject(head) && Number.isSafeInteger(head.bytes)) {
        const { bytes } = head as { bytes: number };
        if (bytes >= 0 && bytes <= bytesMax) return head as unknown as Head;
      }
    } catch (cause) {
      throw new SvcError("internal", `a head that cannot be read came: ${messageOf(cause)}`, { cause });
    }
    throw new SvcError(
      "internal",
      `a head came without the number of bytes after it, wanted 0 to ${bytesMax}`,
    );
  }
}
