/** A route of the web part of a port: what it gets, and what it answers. */

import type { HeaderFields } from "../rpc/metadata.ts";
import type { Peer } from "../rpc/service.ts";

export interface RouteRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly fields: HeaderFields;
  readonly peer: Peer;
  /** The request's body; can be read once, and applies back-pressure. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
}

/** A page of the port. Scripts of other sites cannot read it, unless `forAnySite` allows it. */
export type Route = (request: RouteRequest) => RouteAnswer | Promise<RouteAnswer>;

export interface RouteAnswer {
  readonly status: number;
  readonly contentType: string;
  /** A stream is read as fast as the client takes it, and not at all for HEAD. */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** The length of a stream. */
  readonly bytes?: number;
  readonly fields?: HeaderFields;
}
