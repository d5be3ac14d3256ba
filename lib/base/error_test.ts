/** Errors: codes, causes and their texts. */

import { assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { assert, chainOf, CODES, isRetryable, joined, messageOf, SvcError } from "./error.ts";

Deno.test("CODES: the codes match the gRPC statuses 1 to 16", () => {
  assertEquals(
    Object.values(CODES).toSorted((a, b) => a - b),
    Array.from({ length: 16 }, (_, index) => index + 1),
  );
  for (const [code, status] of Object.entries(CODES)) {
    assertEquals(SvcError.fromStatus(status, "x").code, code);
  }
  assertEquals(SvcError.fromStatus(99, "x").code, "unknown");
});

Deno.test("SvcError.from: converts any thrown value to an SvcError", () => {
  const mine = new SvcError("not_found", "none");
  assertEquals(SvcError.from(mine), mine);
  const codes = [
    AbortSignal.abort().reason,
    new DOMException("late", "TimeoutError"),
    new Error("x"),
    "text",
    null,
  ]
    .map((thrown) => SvcError.from(thrown).code);
  assertEquals(codes, ["canceled", "deadline_exceeded", "unknown", "unknown", "unknown"]);
  assertEquals([messageOf("text"), messageOf(null)], ["text", "null"]);
});

Deno.test("chainOf: lists each cause once, and ends at a circular cause", () => {
  const cause = new Error("disk full", { cause: "ENOSPC" });
  assertEquals(chainOf(new SvcError("unknown", "cannot save", { cause })), "cannot save: disk full: ENOSPC");
  assertEquals(
    chainOf(new SvcError("unknown", "cannot save: disk full", { cause })),
    "cannot save: disk full: ENOSPC",
  );
  const endless = new Error("round");
  endless.cause = endless;
  assertEquals(chainOf(endless), "round");
});

Deno.test("joined: combines several errors into a single SvcError", () => {
  assertEquals(joined("stop", []), undefined);
  const error = joined("stop", [new SvcError("unavailable", "a"), new Error("b")]);
  assertInstanceOf(error, SvcError);
  assertEquals([error.code, error.message], ["unavailable", "stop: a; b"]);
});

Deno.test("assert: throws an error that starts with Bug", () => {
  assert(true, "never");
  assertThrows(() => assert(false, "upside down"), Error, "Bug: upside down");
});

Deno.test("isRetryable: a failure that may pass, by its code alone; a caller may add codes", () => {
  const retried = Object.keys(CODES).filter((code) =>
    isRetryable(new SvcError(code as keyof typeof CODES, "x"))
  );
  assertEquals(retried, ["deadline_exceeded", "resource_exhausted", "aborted", "unavailable"]);
  assertEquals([isRetryable(new Error("x")), isRetryable("x")], [false, false]);
  const canceled = new DOMException("x", "AbortError");
  assertEquals([isRetryable(canceled), isRetryable(canceled, "canceled")], [false, true]);
});
