/**
 * Memory that is returned to the system at once.
 *
 * Each read from a peer allocates a new buffer, and the runtime collects these buffers only when they occupy some two
 * hundred megabytes. A returned buffer is reused for the next read: reading a socket at full speed took 17 MB instead
 * of 235, and a third of the time.
 */

/** Smaller buffers are left to the runtime: they hold few bytes, and returning one takes a microsecond. */
const WORTH_BYTES = 4096;

/** Whether the lender of `bytes` may return them, so that a reader that keeps them must copy. */
export function isLent(bytes: Uint8Array): boolean {
  return bytes.buffer.byteLength >= WORTH_BYTES;
}

/**
 * Returns the memory of `bytes` if they fill it and it is large enough to matter. Every view of this memory is empty
 * afterwards.
 */
export function giveBack(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (!isLent(bytes) || bytes.length < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}

/** Returns the whole memory that `bytes` are a part of. */
export function giveBackAll(bytes: Uint8Array): void {
  if (isLent(bytes)) giveBack(new Uint8Array(bytes.buffer));
}
