import { assertEquals, assertMatch } from "@std/assert";
import { clockHint } from "./clock_hint.ts";

const UNSET_MS = Date.UTC(1973, 0, 14);
const SET_MS = Date.UTC(2026, 10, 28);

Deno.test("clockHint: a clock that was never set explains every refused certificate, another one only its dates", () => {
  const wrong = "; the clock of this device says 1973-01-14, which is wrong: set the time";
  for (
    const message of [
      "unable to verify the first certificate",
      "invalid peer certificate: UnknownIssuer",
      "certificate is not yet valid",
    ]
  ) assertEquals(clockHint(message, UNSET_MS), wrong);
  assertEquals(clockHint("connection refused", UNSET_MS), "");
  for (const message of ["invalid peer certificate: Expired", "CERT NotValidYet"]) {
    assertMatch(clockHint(message, SET_MS), /is 2026-11-28, as the clock of this device says, right\?/);
  }
  assertEquals(clockHint("unable to verify the first certificate", SET_MS), "");
});
