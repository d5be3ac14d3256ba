/** STUN binding requests and their answers (RFC 8489): the part by which a program learns its public address. */

/** The magic cookie of every current STUN message. */
const COOKIE = 0x2112a442;
const BINDING_REQUEST = 0x0001;
const BINDING_SUCCESS = 0x0101;
const MAPPED_ADDRESS = 0x0001;
const XOR_MAPPED_ADDRESS = 0x0020;
const HEADER_BYTES = 20;
const ID_BYTES = 12;
const IPV4 = 1;
const IPV6 = 2;
/** Limit of a request: clients add little. */
const REQUEST_BYTES_MAX = 512;

export interface StunAnswer {
  /** The transaction id, as hexadecimal digits. */
  readonly id: string;
  /** `address:port` that the server saw (IPv4); `undefined` if the answer has none. */
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

/**
 * The answer to a binding request from this address; `undefined` for anything else that arrives at a port, so that
 * only requests are answered. It is hardly longer than the request.
 */
export function stunAnswer(request: Uint8Array, address: string, port: number): Uint8Array | undefined {
  if (request.length < HEADER_BYTES || request.length > REQUEST_BYTES_MAX) return undefined;
  const asked = new DataView(request.buffer, request.byteOffset, request.byteLength);
  if (asked.getUint16(0) !== BINDING_REQUEST || asked.getUint32(4) !== COOKIE) return undefined;
  if (asked.getUint16(2) !== request.length - HEADER_BYTES) return undefined;

  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
  const octets = plain.includes(":") ? octetsOfV6(plain) : plain.split(".").map(Number);
  const answer = new Uint8Array(HEADER_BYTES + 8 + octets.length);
  const view = new DataView(answer.buffer);
  view.setUint16(0, BINDING_SUCCESS);
  view.setUint16(2, 8 + octets.length);

  // The cookie and the transaction id mask the address.
  const mask = request.subarray(4, HEADER_BYTES);
  answer.set(mask, 4);
  view.setUint16(HEADER_BYTES, XOR_MAPPED_ADDRESS);
  view.setUint16(HEADER_BYTES + 2, 4 + octets.length);
  view.setUint8(HEADER_BYTES + 5, octets.length === 4 ? IPV4 : IPV6);
  view.setUint16(HEADER_BYTES + 6, port ^ (COOKIE >>> 16));

  answer.set(octets.map((octet, index) => octet ^ (mask[index] ?? 0)), HEADER_BYTES + 8);
  return answer;
}

/** The 16 bytes of an IPv6 address, without its zone. */
function octetsOfV6(address: string): number[] {
  const [front, back] = address.replace(/%.*$/, "").split("::");
  const groupsOf = (text: string | undefined) => text ? text.split(":") : [];
  const [head, tail] = [groupsOf(front), groupsOf(back)];
  const zeros = back === undefined ? [] : Array<string>(Math.max(0, 8 - head.length - tail.length)).fill("0");
  return [...head, ...zeros, ...tail].map((group) => parseInt(group, 16)).flatMap((
    group,
  ) => [group >> 8, group & 255]);
}

/** Reads a success answer; `undefined` for anything else that arrives at a port. */
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
