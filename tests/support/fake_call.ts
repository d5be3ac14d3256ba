/**
 * A call for handlers and interceptors, for tests without a connection.
 */

import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type CallContext, pathOf } from "../../lib/wire/rpc/service.ts";

/** A call of a method by an anonymous caller; the test overrides fields. */
export function fakeCall(
  { method, ...more }: Pick<CallContext, "method"> & Partial<CallContext>,
): CallContext {
  const over = new AbortController();
  return {
    method,
    path: pathOf(method),
    requestHeader: new Metadata(),
    responseHeader: new Metadata(),
    responseTrailer: new Metadata(),
    signal: over.signal,
    peer: { kind: "memory" },
    firstRequest: Promise.resolve(undefined),
    unread: false,
    cancel: (reason) => over.abort(reason),
    ...more,
  };
}
