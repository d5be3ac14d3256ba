/**
 * Conversion of values for functions of Windows.
 */

/** A text in UTF-16 with a zero at its end. */
export function wide(text: string): Uint8Array<ArrayBuffer> {
  const units = new Uint16Array(text.length + 1);
  for (let at = 0; at < text.length; at++) units[at] = text.charCodeAt(at);
  return new Uint8Array(units.buffer);
}

export function address(pointer: Deno.PointerValue): bigint {
  return BigInt(Deno.UnsafePointer.value(pointer));
}
