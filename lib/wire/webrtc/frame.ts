/**
 * gRPC calls as frames on a data channel: one protobuf message each (published).
 *
 * A call's messages travel in packets; other frames are headers, trailers and resets. Packets are encoded by hand
 * here, because nearly all bytes travel in them; the generated code handles everything else.
 */

import {
  type Metadata as MetadataMessage,
  type Request,
  type RequestHeaders,
  RequestSchema,
  type Response,
  ResponseSchema,
} from "../../../proto/gen/webrtc_grpc_pb.ts";
import { SvcError } from "../../base/error.ts";
import { varint64Bytes, varintBytes, WIRE_TYPE } from "../../base/protobuf/wire_type.ts";
import { ProtoWriter } from "../../base/protobuf/writer.ts";
import {
  answerFieldsOf,
  encodeStatusText,
  fieldsOf,
  metadataOf,
  parseTimeoutMs,
  statusText,
} from "../rpc/message.ts";
import type { Metadata } from "../rpc/metadata.ts";
import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from "../rpc/proto.ts";
import type { Status } from "../rpc/service.ts";
import { FRAME_BYTES_MAX } from "./limits.ts";

/** A stream within a packet within a message within a frame. */
const NESTING_MAX = 8;

export function readRequest(bytes: Uint8Array): Request {
  return read(RequestSchema, bytes);
}

export function readResponse(bytes: Uint8Array): Response {
  return read(ResponseSchema, bytes);
}

function read<Desc extends DescMessage>(desc: Desc, bytes: Uint8Array): MessageShape<Desc> {
  if (bytes.length > FRAME_BYTES_MAX) {
    const found = `a frame has ${bytes.length} bytes`;
    throw new SvcError("resource_exhausted", `${found}, wanted at most ${FRAME_BYTES_MAX}`);
  }
  try {
    return fromBinary(desc, bytes, { readUnknownFields: false, recursionLimit: NESTING_MAX });
  } catch (cause) {
    throw new SvcError("invalid_argument", "a frame cannot be read", { cause });
  }
}

export function requestHeaders(
  id: bigint,
  method: string,
  metadata: Metadata,
  timeoutMs?: number,
): Uint8Array {
  const timeout = timeoutMs === undefined ? undefined : durationOf(timeoutMs);
  const headers = { method, metadata: messageOf(fieldsOf(metadata)), timeout };
  return toBinary(
    RequestSchema,
    create(RequestSchema, { stream: { id }, type: { case: "headers", value: headers } }),
  );
}

export function requestEnd(id: bigint): Uint8Array {
  const value = { hasMessage: false, packetMessage: { eom: true }, eos: true };
  return toBinary(
    RequestSchema,
    create(RequestSchema, { stream: { id }, type: { case: "message", value } }),
  );
}

export function reset(id: bigint): Uint8Array {
  return toBinary(
    RequestSchema,
    create(RequestSchema, { stream: { id }, type: { case: "rstStream", value: true } }),
  );
}

export function responseHeaders(id: bigint, metadata: Metadata): Uint8Array {
  const value = { metadata: messageOf(answerFieldsOf(metadata)) };
  return toBinary(
    ResponseSchema,
    create(ResponseSchema, { stream: { id }, type: { case: "headers", value } }),
  );
}

/** `viaProxy`: see `isViaProxy`. */
export function responseTrailers(
  id: bigint,
  { code, message: text }: Status,
  metadata: Metadata,
  viaProxy: boolean,
): Uint8Array {
  const message = viaProxy ? encodeStatusText(text) : statusText(text);
  const value = { status: { code, message }, metadata: messageOf(answerFieldsOf(metadata)) };
  return toBinary(
    ResponseSchema,
    create(ResponseSchema, { stream: { id }, type: { case: "trailers", value } }),
  );
}

/** The metadata of a frame, without fields of the transport. */
export function metadataFrom(message: MetadataMessage | undefined): Metadata {
  const fields = Object.entries(message?.md ?? {}).flatMap(([name, { values }]) =>
    values.map((value): [string, string] => [name.toLowerCase(), value])
  );
  return metadataOf(fields);
}

/**
 * Whether the caller reaches its data channel by the proxy of the published Python library, which passes on the header
 * of an HTTP/2 client. The proxy copies the status text into an HTTP/2 header, where it has to be percent-encoded: with
 * any other character than ASCII the client loses the connection. Clients without the proxy show the text as it is.
 */
export function isViaProxy({ metadata }: RequestHeaders): boolean {
  return metadata?.md["te"] !== undefined;
}

/**
 * Whether the caller is the published library for TypeScript. Of a stream of answers it drops an error that follows
 * headers: the stream ends as if all were well. It reports one that comes alone.
 */
export function wantsBareErrors({ metadata }: RequestHeaders): boolean {
  return metadata?.md["viam_client"]?.values[0]?.startsWith("typescript;") === true;
}

/**
 * The caller's time limit. The proxy of the published Python library leaves it in the header of its own caller, and
 * does not report when that caller goes away.
 */
export function timeoutMsOf({ timeout, metadata }: RequestHeaders): number | undefined {
  if (timeout) return Number(timeout.seconds) * 1000 + timeout.nanos / 1e6;
  const [limit] = metadata?.md["grpc-timeout"]?.values ?? [];
  if (limit === undefined) return undefined;
  try {
    return parseTimeoutMs(limit);
  } catch {
    return undefined;
  }
}

/** Metadata in transit: `undefined` if there is none. */
function messageOf(fields: readonly (readonly [string, string])[]) {
  if (fields.length === 0) return undefined;
  const byName = Map.groupBy(fields, ([name]) => name);
  const md = Object.fromEntries(
    Array.from(byName, ([name, pairs]) => [name, { values: pairs.map(([, value]) => value) }]),
  );
  return { md };
}

function durationOf(ms: number) {
  const whole = Math.floor(Math.max(0, ms) / 1000);
  // Rounded up, the last part of a second would be a whole one, which no duration may have.
  return { seconds: BigInt(whole), nanos: Math.floor((Math.max(0, ms) - whole * 1000) * 1e6) };
}

/** Part of a message to a server; the last one has `eom`. */
export function requestPacket(id: bigint, data: Uint8Array, eom: boolean): Uint8Array {
  return packet(id, data, eom, true);
}

/** Part of a message to a client; the last one has `eom`. */
export function responsePacket(id: bigint, data: Uint8Array, eom: boolean): Uint8Array {
  return packet(id, data, eom, false);
}

/** Numbers of the fields of a packet, from the outermost message in. */
const STREAM = 1, MESSAGE = 3, ID = 1, HAS_MESSAGE = 1, PACKET_OF_REQUEST = 2, PACKET_OF_RESPONSE = 1;
const DATA = 1, EOM = 2;

/** Measures before it writes, so that the data is copied once. */
function packet(id: bigint, data: Uint8Array, eom: boolean, isRequest: boolean): Uint8Array {
  const idBytes = id === 0n ? 0 : 1 + varint64Bytes(id);
  const dataBytes = data.length === 0 ? 0 : 1 + varintBytes(data.length) + data.length;
  const packetBytes = dataBytes + (eom ? 2 : 0);
  const messageBytes = (isRequest ? 2 : 0) + 1 + varintBytes(packetBytes) + packetBytes;

  const writer = new ProtoWriter(2 + idBytes + 1 + varintBytes(messageBytes) + messageBytes);
  writer.tag(STREAM, WIRE_TYPE.bytes);
  writer.length(idBytes);
  if (idBytes > 0) writeNumber(writer, ID, id);
  writer.tag(MESSAGE, WIRE_TYPE.bytes);
  writer.length(messageBytes);

  if (isRequest) writeNumber(writer, HAS_MESSAGE, 1n);
  writer.tag(isRequest ? PACKET_OF_REQUEST : PACKET_OF_RESPONSE, WIRE_TYPE.bytes);
  writer.length(packetBytes);
  if (dataBytes > 0) {
    writer.tag(DATA, WIRE_TYPE.bytes);
    writer.content(data);
  }
  if (eom) writeNumber(writer, EOM, 1n);
  return writer.finish();
}

function writeNumber(writer: ProtoWriter, field: number, value: bigint): void {
  writer.tag(field, WIRE_TYPE.varint);
  writer.int64(value);
}
