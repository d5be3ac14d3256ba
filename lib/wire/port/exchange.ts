/**
 * An HTTP exchange as what answers it sees it, blind to the version of HTTP that carries it: whoever has the exchange
 * hands it over as a `WebRequest` and a `WebResponse`, and feeds the returned `WebBody`.
 */

import type { SvcError } from "../../base/error.ts";
import type { Fields } from "../http2/hpack.ts";
import type { Unread } from "../http2/stream.ts";
import type { Peer } from "../service.ts";
import type { Allowance } from "./byte_budget.ts";
import type { Guest } from "./guests.ts";

export interface WebRequest {
  readonly method: string;
  /** Path and query, as they came. */
  readonly target: string;
  readonly fields: Fields;
  readonly peer: Peer;
  /** Hears of bytes of the body that have been read. */
  taken(bytes: number): void;
  /** What its connection may use. */
  readonly allowance: Allowance;
  /** Hears of calls that begin, and of their ends. */
  readonly guest?: Pick<Guest, "began" | "ended">;
}

export interface WebResponse {
  /** What may wait for the client. */
  readonly unread?: Unread;
  start(status: number, fields: Fields): void;
  /** Sends a part of the body; a returned promise asks to wait. Throws `resource_exhausted` where too much waits. */
  send(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
  /** Breaks off, so that the client can tell that the body is not whole. */
  abort(): void;
}

/** Takes the body of a request as it comes. */
export interface WebBody {
  /** Bytes that are lent for the call: whoever keeps them copies them. */
  data(bytes: Uint8Array): void;
  ended(): void;
  /** The client went away before its answer was complete. */
  gone(error: SvcError): void;
}

/** The first value of a header field; names are in lower case. */
export function field(fields: Fields, name: string): string | undefined {
  return fields.find(([key]) => key === name)?.[1];
}
