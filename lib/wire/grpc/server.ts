/**
 * The server side of gRPC over HTTP/2: serves the streams of a connection as calls of a `ServiceTable`.
 *
 * Owns the layout of an answer on a stream: header, framed messages, trailers with the status. Knows no services.
 *
 * The room owns gRPC over HTTP/2 on both sides: framing of messages, compression, health and reflection.
 */

import { CODES, type SvcError } from "../../base/error.ts";
import { Cancellation } from "../rpc/cancellation.ts";
import { type Allowance } from "../flow/byte_budget.ts";
import { giveBackAll } from "../flow/given_back.ts";
import {
  answerFieldsOf,
  checkSize,
  encodeStatusText,
  framed,
  GRPC_CONTENT_TYPE,
  isGrpc,
  metadataOf,
  parseTimeoutMs,
  prefixOf,
} from "../rpc/message.ts";
import { type AdmittedConnection, CallMark } from "../flow/admission.ts";
import { MAX_STREAMS } from "../http2/connection.ts";
import type { Stream, StreamListener } from "../http2/stream.ts";
import { admit, MessageReader } from "../rpc/message_reader.ts";
import { ADDRESSED, type HeaderFields, Metadata } from "../rpc/metadata.ts";
import { forwardedBy, isForwarding, type TrustedProxies } from "../rpc/proxies.ts";
import {
  canceledByCaller,
  type Peer,
  type RawCall,
  type RawSink,
  type ServiceTable,
  type Status,
} from "../rpc/service.ts";

const RESPONSE: HeaderFields = [
  [":status", "200"],
  ["content-type", GRPC_CONTENT_TYPE],
  ["grpc-accept-encoding", "identity,deflate,gzip"],
];

/** A message of this size or more is sent without a copy that includes its prefix. */
const GIVEN_BYTES = 16 * 1024;

/** Handles streams that are not gRPC calls, if there is such a handler. */
export type OtherStreams = (stream: Stream, fields: HeaderFields, peer: Peer) => StreamListener | undefined;

/**
 * Serves the streams of a connection as calls of `table`. A call that the client gave up counts until its handler has
 * ended, so that resetting streams does not raise the limit. Reports the start and the end of calls to `guest`.
 */
export function acceptGrpc(
  table: ServiceTable,
  connected: Peer,
  allowance: Allowance,
  { others, admitted, proxies }: AroundCalls = {},
) {
  const isProxy = proxies?.has(connected.remoteAddress);
  let running = 0, peer = connected, scheme: string | undefined, authority: string | undefined;
  const ended = () => void running--;
  return (stream: Stream, fields: HeaderFields | undefined): StreamListener => {
    if (!fields) return refuse(stream, "the call has more header fields than the server accepts");
    const request = requestOf(fields);
    // Calls on one connection nearly always have the same origin.
    if (request.scheme !== scheme || request.authority !== authority) {
      ({ scheme, authority } = request);
      const host = authority ?? fields.find(([name]) => name === "host")?.[1];
      // Empty if the caller names no host: a link for this caller cannot name one either.
      peer = { ...connected, origin: host === undefined ? "" : `${scheme}://${host}` };
    }

    const forwarded = request.isForwarded ? forwardedBy(fields, request.addressed) : request;
    if (forwarded.addressed !== peer.addressed || forwarded.forwardedFor !== peer.forwardedFor) {
      peer = { ...peer, addressed: forwarded.addressed, forwardedFor: forwarded.forwardedFor };
    }
    // The connection of a proxy carries calls of many callers.
    const caller = isProxy ? proxies!.callerOf(peer, fields) : peer;
    if (!isGrpc(request.contentType)) {
      return others?.(stream, fields, caller) ?? refuseHttp(stream, "415");
    }
    if (request.method !== "POST") return refuseHttp(stream, "405");
    if (running >= MAX_STREAMS) return refuse(stream, "too many calls on one connection");

    const call = new ServerCall(stream, fields, request, caller, allowance, new CallMark(admitted));
    running++;
    void table.handle(call, new Reply(stream, call.path)).then(ended);

    return call;
  };
}

/** The surroundings of the calls of a connection. */
export interface AroundCalls {
  /** Handles streams that are not calls. */
  readonly others?: OtherStreams;
  readonly admitted?: Pick<AdmittedConnection, "callStarted" | "callEnded">;
  /** The proxies that are trusted to name their callers. */
  readonly proxies?: TrustedProxies;
}

/** The transport's part of a request's header. */
interface Request {
  method?: string;
  scheme?: string;
  authority?: string;
  path?: string;
  contentType?: string;
  encoding?: string;
  timeout?: string;
  addressed?: string;
  /** Absent, because no proxy has forwarded the call. */
  forwardedFor?: undefined;
  isForwarded?: boolean;
}

function requestOf(fields: HeaderFields): Request {
  const request: Request = {};
  for (const [name, value] of fields) {
    switch (name) {
      case ":method":
        request.method = value;
        break;
      case ":scheme":
        request.scheme = value;
        break;
      case ":authority":
        request.authority = value;
        break;
      case ":path":
        request.path = value;
        break;
      case "content-type":
        request.contentType = value;
        break;
      case "grpc-encoding":
        request.encoding = value;
        break;
      case "grpc-timeout":
        request.timeout = value;
        break;
      case ADDRESSED:
        request.addressed = value;
        break;
      default:
        if (isForwarding(name)) request.isForwarded = true;
    }
  }
  return request;
}

/** Ignores the rest of an answered stream. */
const DEAF: StreamListener = { headers() {}, data() {}, ended() {}, closed() {} };

function refuse(stream: Stream, message: string): StreamListener {
  new Reply(stream, "").end({ code: CODES.resource_exhausted, message }, new Metadata());
  return DEAF;
}

function refuseHttp(stream: Stream, status: string): StreamListener {
  stream.headers([[":status", status]], true);
  return DEAF;
}

/** The client's direction of a call on a server. */
class ServerCall implements RawCall, StreamListener {
  readonly path: string;
  readonly header: Metadata;
  readonly timeoutMs?: number;
  readonly requests: MessageReader;
  readonly cancellation = new Cancellation();

  constructor(
    stream: Stream,
    fields: HeaderFields,
    { path, encoding, timeout }: Request,
    readonly peer: Peer,
    private readonly allowance: Allowance,
    private readonly mark: CallMark,
  ) {
    this.path = path ?? "";
    this.header = metadataOf(fields);
    this.requests = new MessageReader({
      encoding,
      budget: allowance.unauthenticated,
      inflater: allowance.inflater,
      taken: (bytes) => stream.consumed(bytes),
    });
    if (timeout === undefined) return;

    try {
      this.timeoutMs = parseTimeoutMs(timeout);
    } catch (error) {
      this.requests.abort(error as SvcError);
    }
  }

  admitted(caller: "authenticated" | "unauthenticated"): void {
    admit(this.requests, caller, this.allowance);
    this.mark.admitted(caller);
  }

  begun(): void {
    this.mark.begun();
  }

  decoding(bytes: number): void {
    this.requests.decoding(bytes);
  }

  refused(bytes: Uint8Array): void {
    giveBackAll(bytes);
  }

  released(): void {
    this.mark.released();
    this.requests.release();
  }

  get owed(): boolean {
    return this.requests.owed;
  }

  headers(): void {}

  data(bytes: Uint8Array): void {
    this.requests.push(bytes);
  }

  ended(): void {
    this.requests.end();
  }

  closed(error: SvcError | undefined): void {
    if (!error) return;
    this.requests.abort(error);
    this.cancellation.cancel(canceledByCaller(this.path));
  }
}

/** The server's direction of a call. */
class Reply implements RawSink {
  #opened = false;

  constructor(private readonly stream: Stream, private readonly path: string) {}

  header(header: Metadata): void {
    if (this.#opened) return;
    this.#opened = true;
    this.stream.headers([...RESPONSE, ...answerFieldsOf(header)], false);
  }

  get roomBytes(): number | undefined {
    return this.stream.unread?.roomBytes;
  }

  checkRoom(bytes: number): void {
    this.stream.unread?.check(bytes);
  }

  message(bytes: Uint8Array): Promise<void> | undefined {
    checkSize(bytes, this.path);
    if (bytes.length < GIVEN_BYTES) return this.stream.send(framed(bytes));
    return this.stream.give(prefixOf(bytes.length), bytes);
  }

  end(status: Status, trailer: Metadata): void {
    const trailers: [string, string][] = [["grpc-status", String(status.code)]];
    if (status.message !== "") trailers.push(["grpc-message", encodeStatusText(status.message)]);
    trailers.push(...answerFieldsOf(trailer));
    if (this.#opened) this.stream.end(trailers);
    else this.stream.headers([...RESPONSE, ...trailers], true);
  }
}
