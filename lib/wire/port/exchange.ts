/**
 * An HTTP exchange, independent of the version of HTTP: the carrier passes a `WebRequest` and a `WebResponse`, and
 * feeds the returned `WebBody`.
 */

import type { SvcError } from "../../base/error.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import type { Unread } from "../http2/stream_data.ts";
import type { Peer } from "../rpc/service.ts";
import type { Allowance } from "../flow/byte_budget.ts";
import type { AdmittedConnection } from "../flow/admission.ts";

export interface WebRequest {
  readonly method: string;
  /** Path and query, unchanged. */
  readonly target: string;
  readonly fields: HeaderFields;
  readonly peer: Peer;
  /** Receives the number of body bytes that were read. */
  taken(bytes: number): void;
  /** The budgets of its connection. */
  readonly allowance: Allowance;
  /** Notified of the start and end of calls. */
  readonly admitted?: Pick<AdmittedConnection, "callStarted" | "callEnded">;
}

export interface WebResponse {
  /** The budget of unread answers. */
  readonly unread?: Unread;
  start(status: number, fields: HeaderFields): void;
  /** Sends a part of the body; a returned promise asks to wait. Throws `resource_exhausted` if too much is unread. */
  send(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
  /** Breaks off, visibly for the client. */
  abort(): void;
}

/** Takes the body of a request as it arrives. */
export interface WebBody {
  /** Bytes on loan for the call: copy them to keep them. */
  data(bytes: Uint8Array): void;
  ended(): void;
  /** The client went away before its answer was complete. */
  gone(error: SvcError): void;
}

/** The first value of a header field; names are in lower case. */
export function fieldValue(fields: HeaderFields, name: string): string | undefined {
  return fields.find(([key]) => key === name)?.[1];
}
