import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogBatch, LogFeed } from "./log_feed.ts";

const record = (message: string, fields: Record<string, unknown> = {}) => ({
  timeMs: 5,
  level: "info" as const,
  logger: "rdk",
  message,
  fields,
});

const texts = (batch: LogBatch | undefined | void) => batch?.records.map(({ message }) => message);

Deno.test("LogFeed: a follower gets the last records first, then later ones in batches", async () => {
  const clock = new FakeClock();
  const feed = new LogFeed(clock);
  for (const name of ["a", "b", "c"]) feed.sink(record(name));
  const end = new AbortController();
  const batches = feed.follow(2, end.signal);
  assertEquals(texts((await batches.next()).value), ["b", "c"]);
  const next = batches.next();
  feed.sink(record("d"));
  feed.sink(record("e"));
  await clock.advance(1000);
  assertEquals(texts((await next).value), ["d", "e"]);
  const over = batches.next();
  end.abort();
  assertEquals((await over).done, true);
});

Deno.test("LogFeed: a follower that takes nothing loses the oldest and is told how many", async () => {
  const feed = new LogFeed(new FakeClock());
  const end = new AbortController();
  const batches = feed.follow(0, end.signal);
  assertEquals(texts((await batches.next()).value), []);
  for (let at = 0; at < 5000; at++) feed.sink(record(`line ${at}`));
  const { value } = await batches.next();
  assertEquals(value?.leftOut, 3000);
  assertEquals(texts(value)?.[0], "line 3000");
  await batches.return(undefined);
});

Deno.test("LogFeed: long texts, cycles and big numbers do not break a record", async () => {
  const feed = new LogFeed(new FakeClock());
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  feed.sink(record("x".repeat(10_000), cycle));
  feed.sink(record("number", { big: 12n }));
  const batches = feed.follow(10, new AbortController().signal);
  const { value } = await batches.next();
  assertStringIncludes(value!.records[0].message, "(10000 characters)");
  assertEquals(value!.records.map(({ fields }: { fields: string }) => fields), ["", '{"big":"12"}']);
  await batches.return(undefined);
});

Deno.test("LogFeed: admits a bounded number of followers", async () => {
  const feed = new LogFeed(new FakeClock());
  const signal = new AbortController().signal;
  const all = Array.from({ length: 32 }, () => feed.follow(0, signal));
  await Promise.all(all.map((one) => one.next()));
  assertEquals(feed.hasPlace, false);
  await all[0].return(undefined);
  assertEquals(feed.hasPlace, true);
  await Promise.all(all.map((one) => one.return(undefined)));
});
