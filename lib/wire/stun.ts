/**
 * STUN binding requests and their answers (RFC 8489), as far as asking a server "from where do you see me?" needs.
 */

/** Of every STUN message of today. */
const COOKIE = 0x2112a442;
const BINDING_REQUEST = 0x0001;
const BINDING_SUCCESS = 0x0101;
const MAPPED_ADDRESS = 0x0001;
const XOR_MAPPED_ADDRESS = 0x0020;
const HEADER_BYTES = 20;
const ID_BYTES = 12;
const IPV4 = 1;

export interface StunAnswer {
  /** What ties it to its request, as hexadecimal digits. */
  readonly id: string;
  /** `address:port` that the server saw; `undefined` where it says none that this reads (IPv4). */
  readonly seenAs?: string;
}

/** A binding request and its id. */
export function stunRequest(): { readonly id: string; readonly bytes: Uint8Array } {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, BINDING_REQUEST);
  view.setUint32(4, COOKIE);
  crypto.getRandomValues(bytes.subarray(HEADER_BYTES - ID_BYTES));
  return { id: idOf(bytes), bytes };
}

/** Reads a success answer; `undefined` for whatever else may come to a port. */
export function readStunAnswer(bytes: Uint8Array): StunAnswer | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint16(0) !== BINDING_SUCCESS || view.getUint32(4) !== COOKIE) return undefined;
  const end = Math.min(bytes.length, HEADER_BYTES + view.getUint16(2));
  let seenAs: string | undefined;
  for (let at = HEADER_BYTES; at + 4 <= end;) {
    const type = view.getUint16(at), length = view.getUint16(at + 2), value = at + 4;
    if (value + length > end) break;
    const readable = length >= 8 && view.getUint8(value + 1) === IPV4;
    if (readable && type === XOR_MAPPED_ADDRESS) {
      seenAs = addressOf(view.getUint32(value + 4) ^ COOKIE, view.getUint16(value + 2) ^ (COOKIE >>> 16));
    } else if (readable && type === MAPPED_ADDRESS) {
      seenAs ??= addressOf(view.getUint32(value + 4), view.getUint16(value + 2));
    }
    at = value + Math.ceil(length / 4) * 4;
  }
  return { id: idOf(bytes), seenAs };
}

function idOf(message: Uint8Array): string {
  return message.slice(HEADER_BYTES - ID_BYTES, HEADER_BYTES).toHex();
}

function addressOf(address: number, port: number): string {
  return `${[24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".")}:${port}`;
}
