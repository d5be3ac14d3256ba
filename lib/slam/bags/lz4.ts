/** Unpacks LZ4 frames, as the LZ4 frame format 1.6 describes them. Checksums are skipped: containers have their own. */

const MAGIC = 0x184d2204;
const SKIPPABLE = { magic: 0x184d2a50, mask: 0xfffffff0 } as const;
const FLAGS = { blockChecksum: 0x10, contentSize: 0x08, contentChecksum: 0x04, dictionary: 0x01 } as const;
const STORED = 0x80000000;
/** The shortest match. */
const MATCH_MIN = 4;

/** Unpacks all frames of `packed` to at most `bytes` bytes in total. Throws a `RangeError` for other data. */
export function unpackLz4(packed: Uint8Array, bytes: number): Uint8Array {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const out = new Uint8Array(bytes);
  let at = 0, to = 0;
  while (at < packed.length) {
    const magic = view.getUint32(at, true);
    at += 4;
    if ((magic & SKIPPABLE.mask) >>> 0 === SKIPPABLE.magic) {
      at += 4 + view.getUint32(at, true);
      continue;
    }
    if (magic !== MAGIC) throw new RangeError("no LZ4 frame");
    const flags = view.getUint8(at);
    if (flags >> 6 !== 1 || flags & FLAGS.dictionary) {
      throw new RangeError("an LZ4 frame of another version or with a dictionary");
    }
    at += 3 + (flags & FLAGS.contentSize ? 8 : 0);
    for (;;) {
      const word = view.getUint32(at, true), size = (word & ~STORED) >>> 0;
      at += 4;
      if (size === 0) break;
      if (at + size > packed.length) throw new RangeError("an LZ4 block is cut off");
      const block = packed.subarray(at, at + size);
      if (word & STORED) {
        if (to + size > bytes) throw new RangeError(`LZ4 data of more than ${bytes} bytes`);
        out.set(block, to);
        to += size;
      } else to = unpackBlock(block, out, to);
      at += size + (flags & FLAGS.blockChecksum ? 4 : 0);
    }
    if (flags & FLAGS.contentChecksum) at += 4;
  }
  return out.subarray(0, to);
}

/** Unpacks a block behind `to`, and returns the new end. Matches may reach into the blocks before. */
function unpackBlock(block: Uint8Array, out: Uint8Array, to: number): number {
  let at = 0;
  /** A length of 15 continues in further bytes. */
  const lengthFrom = (nibble: number) => {
    let length = nibble;
    if (nibble < 15) return length;
    for (let byte = 255; byte === 255;) {
      if (at >= block.length) throw new RangeError("an LZ4 length is cut off");
      byte = block[at++] ?? 0;
      length += byte;
    }
    return length;
  };
  while (at < block.length) {
    const token = block[at++] ?? 0;
    const literals = lengthFrom(token >> 4);
    if (at + literals > block.length || to + literals > out.length) {
      throw new RangeError("LZ4 literals beyond the end");
    }
    out.set(block.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at === block.length) break;
    if (at + 2 > block.length) throw new RangeError("an LZ4 match is cut off");
    const distance = (block[at] ?? 0) | (block[at + 1] ?? 0) << 8;
    at += 2;
    const length = MATCH_MIN + lengthFrom(token & 15);
    if (distance === 0 || distance > to || to + length > out.length) {
      throw new RangeError("an LZ4 match beyond the data");
    }
    // Match and output may overlap: the bytes repeat.
    for (let n = 0; n < length; n++, to++) out[to] = out[to - distance] ?? 0;
  }
  return to;
}
