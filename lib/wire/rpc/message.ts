/**
 * The common part of gRPC and gRPC-web: messages with their five-byte prefix, time limits, status texts, metadata.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import { type HeaderFields, Metadata } from "./metadata.ts";

/** Largest message in either direction (the published limit). */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;

/** Largest message to a method without authentication: a token or credentials, the name of a service. */
export const PUBLIC_MESSAGE_BYTES = 64 * 1024;
/** Longest text of a status, before its encoding. */
const STATUS_TEXT_BYTES = 4 * 1024;
/** Limit of an answer's metadata, for header and trailer each. */
const ANSWER_METADATA_BYTES = 16 * 1024;

/** The content type of gRPC over HTTP/2. */
export const GRPC_CONTENT_TYPE = "application/grpc";

export function isGrpc(contentType: string | undefined): boolean {
  if (contentType === GRPC_CONTENT_TYPE) return true;
  return contentType !== undefined && /^application\/grpc(?:\+|\s*(?:;|$))/i.test(contentType);
}

export const PREFIX_BYTES = 5;

/** A message with its prefix, as it travels. */
export function framed(message: Uint8Array, flags = 0): Uint8Array {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = flags;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** The prefix of a message of this size. */
export function prefixOf(bytes: number): Uint8Array {
  return Uint8Array.of(0, bytes >>> 24, bytes >>> 16, bytes >>> 8, bytes);
}

/** Throws for a message that the other side would refuse. */
export function checkSize(message: Uint8Array, path: string): void {
  if (message.length <= MAX_MESSAGE_BYTES) return;
  const problem =
    `${path} has a message of ${message.length} bytes to send, wanted at most ${MAX_MESSAGE_BYTES}`;
  throw new SvcError("resource_exhausted", problem);
}

/** Milliseconds of a `grpc-timeout`; a malformed one is `internal`, as in other servers. */
export function parseTimeoutMs(text: string): number {
  const unitsMs: Record<string, number> = { H: 36e5, M: 6e4, S: 1e3, m: 1, u: 1e-3, n: 1e-6 };
  const [, digits, unit = ""] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  const unitMs = unitsMs[unit];
  if (unitMs === undefined) {
    throw new SvcError("internal", `grpc-timeout is "${text}", wanted digits and one of HMSmun`);
  }
  return Number(digits) * unitMs;
}

export function formatTimeout(ms: number): string {
  const rounded = Math.max(0, Math.ceil(ms));
  if (rounded < 1e8) return `${rounded}m`;
  return `${Math.min(99_999_999, Math.ceil(ms / 1000))}S`;
}

/** A status text for callers: of limited length, without control characters. */
export function statusText(text: string): string {
  return bounded(escaped(bounded(text)));
}

/** A status text in a header: percent-encoded except printable ASCII. */
export function encodeStatusText(text: string): string {
  text = statusText(text);
  if (/^[ -$&-~]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text)) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

/**
 * Escapes control characters: texts repeat what callers send, and appear on terminals and in logs. Line breaks and
 * tabs stay.
 */
function escaped(text: string): string {
  return text.replace(
    // deno-lint-ignore no-control-regex
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The start of a text that is too long, cut between two characters. */
function bounded(text: string): string {
  if (3 * text.length <= STATUS_TEXT_BYTES || Buffer.byteLength(text) <= STATUS_TEXT_BYTES) return text;
  const room = Buffer.alloc(STATUS_TEXT_BYTES - Buffer.byteLength("…"));
  const { read } = new TextEncoder().encodeInto(text, room);
  return `${text.slice(0, read)}…`;
}

/**
 * Decodes a status text of a header, which has one character per byte; a malformed part stays unchanged. Some servers
 * send UTF-8 as it is.
 */
export function decodeStatusText(text: string): string {
  if (/^[ -$&-~]*$/.test(text)) return text;
  const bytes = text.replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** Header fields that belong to the transport, not to the call. */
const TRANSPORT_FIELDS = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "grpc-accept-encoding",
  "grpc-encoding",
  "grpc-message",
  "grpc-status",
  "grpc-timeout",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const COLON = 0x3a;

/** The metadata among header fields. */
export function metadataOf(fields: HeaderFields): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of fields) {
    if (name.charCodeAt(0) === COLON || TRANSPORT_FIELDS.has(name)) continue;
    const parts = name.endsWith("-bin") ? value.split(",").map((part) => part.trim()) : [];
    if (parts.length > 1 && parts.every(isBase64)) { for (const part of parts) metadata.append(name, part); }
    else metadata.append(name, value);
  }
  return metadata;
}

/** With padding or without: gRPC takes both. */
function isBase64(text: string): boolean {
  return /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/.test(text);
}

/**
 * Metadata as header fields. Leaves out impossible names, and replaces impossible characters by `?`. The published Go
 * library sends bytes over WebRTC as they are; elsewhere they end the whole call, so they become base64 here.
 */
export function fieldsOf(metadata: Metadata): [string, string][] {
  if (metadata.isEmpty) return [];
  const fields: [string, string][] = [];
  for (const [name, value] of metadata) {
    if (TRANSPORT_FIELDS.has(name) || !/^[0-9a-z_.-]+$/.test(name)) continue;
    if (name.endsWith("-bin") && !isBase64(value)) {
      const bytes = Buffer.from(value);
      fields.push([name, bytes.toString("base64").slice(0, Math.ceil(bytes.length * 4 / 3))]);
    } else fields.push([name, value.replace(/[^\x20-\x7e]/g, "?")]);
  }
  return fields;
}

/** An answer's metadata as header fields: as many as every client accepts. */
export function answerFieldsOf(metadata: Metadata): [string, string][] {
  if (metadata.isEmpty) return [];
  let left = ANSWER_METADATA_BYTES;
  return fieldsOf(metadata).filter(([name, value]) => (left -= name.length + value.length) >= 0);
}
