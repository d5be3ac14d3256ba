/**
 * A call as handlers and interceptors see it, for tests that have no connection.
 */

import { Metadata } from "../../lib/wire/metadata.ts";
import { type CallContext, pathOf } from "../../lib/wire/service.ts";

/** A call of a method, by nobody in particular; what the test names is as it says. */
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
