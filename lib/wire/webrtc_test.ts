/** makeOffer(): the offer is one a published client can read, and an aborted wait ends. */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { makeOffer } from "./webrtc.ts";

Deno.test("makeOffer() offers data channels", async () => {
  const sdp = await makeOffer(new AbortController().signal);
  assertEquals(sdp.split("\r\n")[0], "v=0");
  assertStringIncludes(sdp, "m=application ");
  assertStringIncludes(sdp, "a=fingerprint:sha-256 ");
  assertStringIncludes(sdp, "a=setup:actpass");
});

Deno.test("makeOffer() ends with the signal", async () => {
  await assertRejects(() => makeOffer(AbortSignal.abort(new Error("enough"))), Error, "enough");
});
