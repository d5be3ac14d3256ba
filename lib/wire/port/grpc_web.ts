/**
 * gRPC-web, binary and text: the calls of browsers, with the trailers as the last frame of the body.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import { Cancellation } from "../rpc/cancellation.ts";
import { giveBackAll } from "../flow/given_back.ts";
import {
  answerFieldsOf,
  checkSize,
  encodeStatusText,
  framed,
  metadataOf,
  parseTimeoutMs,
} from "../rpc/message.ts";
import { fieldValue, type WebBody, type WebRequest, type WebResponse } from "./exchange.ts";
import { CallMark } from "../flow/admission.ts";
import { ANY_SITE } from "./sites.ts";
import { admit, MessageReader } from "../rpc/message_reader.ts";
import { Metadata } from "../rpc/metadata.ts";
import {
  canceledByCaller,
  type Peer,
  type RawCall,
  type RawSink,
  type ServiceTable,
  type Status,
} from "../rpc/service.ts";

const TRAILER_FRAME = 0x80;

/** An incoming call, passed to the service that it names. */
export function openWebCall(
  table: ServiceTable,
  type: string,
  request: WebRequest,
  response: WebResponse,
): WebBody {
  const [path = ""] = request.target.split("?", 1);
  const call = new WebCall(path, type, request);
  void table.handle(call, new WebReply(response, path, type));
  return call;
}

export function isGrpcWeb(type: string): boolean {
  return /^application\/grpc-web(?:-text)?(?:\+proto)?\s*(?:;|$)/i.test(type);
}

function isText(type: string): boolean {
  return /^application\/grpc-web-text/i.test(type);
}

/** The client's direction of a call. */
class WebCall implements RawCall, WebBody {
  readonly header: Metadata;
  readonly timeoutMs?: number;
  readonly peer: Peer;
  readonly requests: MessageReader;
  readonly cancellation = new Cancellation();
  readonly #base64: Base64Reader | undefined;
  readonly #mark: CallMark;
  /** Received bytes minus decoded bytes; briefly negative when a base64 group arrives in parts. */
  #overheadBytes = 0;

  constructor(readonly path: string, type: string, private readonly request: WebRequest) {
    const { fields } = request;
    this.peer = request.peer;
    this.#mark = new CallMark(request.admitted);
    this.header = metadataOf(fields);
    this.requests = new MessageReader({
      encoding: fieldValue(fields, "grpc-encoding"),
      taken: (bytes) => request.taken(bytes),
      budget: request.allowance.unauthenticated,
      inflater: request.allowance.inflater,
    });
    if (isText(type)) this.#base64 = new Base64Reader();
    const timeout = fieldValue(fields, "grpc-timeout");
    if (timeout !== undefined) this.#guard(() => Object.assign(this, { timeoutMs: parseTimeoutMs(timeout) }));
  }

  admitted(caller: "authenticated" | "unauthenticated"): void {
    admit(this.requests, caller, this.request.allowance);
    this.#mark.admitted(caller);
  }

  begun(): void {
    this.#mark.begun();
  }

  decoding(bytes: number): void {
    this.requests.decoding(bytes);
  }

  refused(bytes: Uint8Array): void {
    giveBackAll(bytes);
  }

  released(): void {
    this.#mark.released();
    this.requests.release();
  }

  data(bytes: Uint8Array): void {
    this.#guard(() => this.requests.push(this.#base64 ? this.#decoded(bytes, this.#base64) : bytes));
  }

  /** Releases the bytes that the encoding added; the reader releases the rest. */
  #decoded(bytes: Uint8Array, base64: Base64Reader): Uint8Array {
    this.#overheadBytes += bytes.length;
    const decoded = base64.read(bytes);
    this.#overheadBytes -= decoded.length;
    if (this.#overheadBytes > 0) {
      this.request.taken(this.#overheadBytes);
      this.#overheadBytes = 0;
    }
    return decoded;
  }

  ended(): void {
    this.#guard(() => this.#base64?.end());
    this.requests.end();
  }

  gone(error: SvcError): void {
    this.requests.abort(error);
    this.cancellation.cancel(canceledByCaller(this.path));
  }

  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.requests.abort(SvcError.from(error));
    }
  }
}

/** Decodes base64 that arrives in pieces, each part of which may have its own padding. */
class Base64Reader {
  #left = "";

  read(bytes: Uint8Array): Uint8Array {
    const text = this.#left + Buffer.from(bytes).toString("latin1").replace(/\s/g, "");
    if (/[^A-Za-z0-9+/=]/.test(text)) throw new SvcError("internal", "the body is not base64");
    const whole = text.length - text.length % 4;
    this.#left = text.slice(whole);
    const parts = text.slice(0, whole).split(/(?<==)(?!=)/);
    return Buffer.concat(parts.map((part) => Buffer.from(part, "base64")));
  }

  end(): void {
    if (this.#left !== "") throw new SvcError("internal", "the body ends in the middle of a group of base64");
  }
}

/** The server's direction of a call. */
class WebReply implements RawSink {
  readonly #text: boolean;
  #opened = false;

  constructor(private readonly response: WebResponse, private readonly path: string, type: string) {
    this.#text = isText(type);
  }

  header(header: Metadata): void {
    if (this.#opened) return;
    this.#opened = true;
    const custom = answerFieldsOf(header);
    const exposed = ["grpc-status", "grpc-message", "grpc-encoding", ...custom.map(([name]) => name)];
    this.response.start(200, [
      ["content-type", this.#text ? "application/grpc-web-text+proto" : "application/grpc-web+proto"],
      ANY_SITE,
      ["access-control-expose-headers", [...new Set(exposed)].join(", ")],
      ["cache-control", "no-store"],
      // nginx keeps the messages of a stream back otherwise, often until its end.
      ["x-accel-buffering", "no"],
      ...custom,
    ]);
  }

  get roomBytes(): number | undefined {
    return this.response.unread?.roomBytes;
  }

  checkRoom(bytes: number): void {
    this.response.unread?.check(bytes);
  }

  message(bytes: Uint8Array): Promise<void> | undefined {
    checkSize(bytes, this.path);
    return this.#send(framed(bytes));
  }

  /** The status always travels in the body, where every client looks for it. */
  end(status: Status, trailer: Metadata): void {
    this.header(new Metadata());
    const trailers: [string, string][] = [
      ["grpc-status", String(status.code)],
      ["grpc-message", encodeStatusText(status.message)],
      ...answerFieldsOf(trailer),
    ];
    const lines = trailers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    try {
      void this.#send(framed(Buffer.from(lines), TRAILER_FRAME));
      this.response.end();
    } catch {
      // This client has left too much unread; the missing trailers show it that the answer is incomplete.
      this.response.abort();
    }
  }

  #send(frame: Uint8Array): Promise<void> | undefined {
    return this.response.send(this.#text ? Buffer.from(Buffer.from(frame).toString("base64")) : frame);
  }
}
