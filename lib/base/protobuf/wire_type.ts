/** The wire types of fields, and the sizes of their numbers (source: encoding of protocol buffers). */

export const WIRE_TYPE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Bytes of the longest varint, which has 64 bits. */
export const VARINT_BYTES_MAX = 10;

/** Bytes of a varint of 32 bits. */
export function varintBytes(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}

/** Bytes of a varint of 64 bits. */
export function varint64Bytes(value: bigint): number {
  let bytes = 1;
  for (let rest = BigInt.asUintN(64, value); rest >= 0x80n; rest >>= 7n) bytes++;
  return bytes;
}
