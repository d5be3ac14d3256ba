/**
 * DNS messages as bytes; the only file that uses the package.
 */

// @ts-types="./dns_packet.d.ts"
import { AUTHORITATIVE_ANSWER, decode, type DnsMessage, encode } from "dns-packet";
import { Buffer } from "node:buffer";

// @ts-types="./dns_packet.d.ts"
export type { DnsMessage, DnsQuestion, DnsRecord } from "dns-packet";

/** Largest message on any network. */
const MESSAGE_BYTES_MAX = 9_000;

/** The message; `undefined` if the bytes are none. */
export function decodeDns(bytes: Uint8Array): DnsMessage | undefined {
  if (bytes.length > MESSAGE_BYTES_MAX) return undefined;
  try {
    return decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  } catch {
    return undefined;
  }
}

export function encodeDns(message: DnsMessage): Uint8Array {
  return encode(message.type === "response" ? { flags: AUTHORITATIVE_ANSWER, ...message } : message);
}
