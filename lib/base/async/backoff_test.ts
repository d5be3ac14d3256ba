import { assert, assertEquals } from "@std/assert";
import { SvcError } from "../error.ts";
import { backoffMs, requestPauseMs, unevenMs } from "./backoff.ts";

const LIMITS = { firstMs: 100, mostMs: 1_500, jitter: 0 };
const after = (failures: number[], jitter = 0, random = () => 1) =>
  failures.map((count) => backoffMs({ ...LIMITS, jitter }, count, random));

Deno.test("backoffMs doubles with each failure up to the limit, and is none without one", () => {
  assertEquals(after([0, 1, 2, 3, 4, 5, 6, 1e9]), [0, 100, 200, 400, 800, 1_500, 1_500, 1_500]);
});

Deno.test("backoffMs takes a random part of the jitter's share off", () => {
  assertEquals(after([1, 9], 0.5, () => 1), [100, 1_500]);
  assertEquals(after([1, 9], 0.5, () => 0.5), [75, 1_125]);
  assertEquals(after([0, 1, 9], 1, () => 0.25), [0, 25, 375]);
});

Deno.test("backoffMs is a whole number, as columns of a database are", () => {
  assertEquals(after([1, 2, 9], 1 / 6, () => 0.123), [85, 171, 1_281]);
});

Deno.test("backoffMs draws nothing where there is no jitter", () => {
  const unused = () => {
    throw new Error("drawn");
  };
  assertEquals(after([3], 0, unused), [400]);
});

Deno.test("requestPauseMs is never shorter than the server asks for, also through a cause", () => {
  const busy = new SvcError("unavailable", "busy", { retryMs: 1_000 });
  const wrapped = new SvcError("unavailable", "no logs are taken", { cause: busy });
  const pauses = [busy, wrapped, new SvcError("unavailable", "away"), new Error("x"), undefined]
    .map((error) => [1, 9].map((failures) => requestPauseMs(LIMITS, failures, error)));
  assertEquals(pauses, [[1_000, 1_500], [1_000, 1_500], [100, 1_500], [100, 1_500], [100, 1_500]]);
});

Deno.test("unevenMs: up to a tenth of an interval is left out", () => {
  assertEquals([0, 0.5, 1].map((number) => unevenMs(1000, () => number)), [1000, 950, 900]);
  const drawn = Array.from({ length: 100 }, () => unevenMs(1000));
  assert(drawn.every((ms) => ms > 900 && ms <= 1000) && new Set(drawn).size > 50);
});
