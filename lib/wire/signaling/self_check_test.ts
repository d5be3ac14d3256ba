/** A program connects to itself over WebRTC, calls, and nothing of it is left. */

import { assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { Logs } from "../../base/log/log.ts";
import { testWebRtc } from "./self_check.ts";

Deno.test("a peer offers, is answered, connects, and calls go over it", async () => {
  const clock = new SystemClock();
  const told = await testWebRtc(clock, new Logs(clock, []).logger("test"));
  assertStringIncludes(told, "a call over WebRTC was answered");
});
