/** Assertions on refusals: an error is the code that callers act on as much as its words. */

import { assertEquals, assertRejects } from "@std/assert";
import { type Code, SvcError } from "../../lib/base/error.ts";

/** Fails unless the call is refused with this code, and with a message that contains the words. */
export async function assertRefused(
  code: Code,
  words: string,
  call: () => PromiseLike<unknown>,
): Promise<SvcError> {
  const error = await assertRejects(call, SvcError, words);
  assertEquals(error.code, code, error.message);
  return error;
}
