/** How a call ended. */

import { SvcError } from "../../lib/base/error.ts";

/** `ok`, or the code of the error that the call ended with. */
export function awaitOutcome(call: Promise<unknown>): Promise<string> {
  return call.then(() => "ok", (error) => SvcError.from(error).code);
}
