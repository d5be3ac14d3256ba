import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { addressOf, type Attempt, Attempts } from "./attempts.ts";
import { defaultLimits } from "./limits.ts";

function attempts(limits = defaultLimits()) {
  const clock = new FakeClock();
  const episodes: Attempt[] = [];
  let [checks, most, open] = [0, 0, 0];
  let gate: Promise<void> = Promise.resolve();
  const book = {
    hash: (id: string) => Promise.resolve(id.startsWith("known") ? `hash of ${id}` : undefined),
    async isHashOf(hash: string | undefined, key: string) {
      checks++;
      most = Math.max(most, ++open);
      await gate;
      open--;
      return hash !== undefined && key === "right";
    },
  };
  const made = new Attempts({
    book,
    limits,
    clock,
    episode: (one) => Promise.resolve(void episodes.push(one)),
  });
  const of = (id: string, key: string, address = "192.0.2.1") =>
    made.check({ id, key, address }).then((hash) => hash !== undefined).catch((error) =>
      SvcError.from(error).code
    );
  return {
    of,
    clock,
    episodes,
    checks: () => checks,
    most: () => most,
    hold: (until: Promise<void>) => gate = until,
  };
}

Deno.test("two thousand wrong keys are as many checks as the limits say, and one episode each", async () => {
  const { of, episodes, checks } = attempts();
  const guesses = [];
  for (let guess = 0; guess < 1_000; guess++) guesses.push(await of("known", `wrong ${guess}`));
  assertEquals([guesses.filter((one) => one === false).length, checks()], [5, 5]);
  for (let guess = 0; guess < 1_000; guess++) guesses.push(await of(`unknown ${guess}`, "wrong"));
  assertEquals([guesses.filter((one) => one === false).length, checks()], [25, 25]);
  assertEquals(episodes.length, 2);
});

Deno.test("a right key from an attacker's address gets in: at once if it is known, else under its own count", async () => {
  const { of, clock } = attempts();
  assertEquals(await of("known-1", "right"), true);
  for (let guess = 0; guess < 100; guess++) {
    await of("known-1", "wrong");
    await of(`unknown ${guess}`, "wrong");
  }
  assertEquals(await of("known-1", "wrong"), "resource_exhausted");
  assertEquals(await of("known-1", "right"), true);
  assertEquals(await of("known-2", "right"), true);
  // Tried for the first time after wrong ones under the same id: a second later.
  for (let guess = 0; guess < 10; guess++) await of("known-3", "wrong");
  assertEquals(await of("known-3", "right"), "resource_exhausted");
  assertEquals(await of("known-3", "right", "192.0.2.9"), true);
  await clock.advance(1_000);
  assertEquals(await of("known-3", "right"), true);
});

Deno.test("a key that was replaced is no longer known", async () => {
  const clock = new FakeClock();
  let hash = "old";
  const book = {
    hash: () => Promise.resolve(hash),
    isHashOf: (found?: string, key?: string) => Promise.resolve(found === key),
  };
  const made = new Attempts({ book, limits: defaultLimits(), clock, episode: () => Promise.resolve() });
  const isKey = async (key: string) => await made.check({ id: "a", key, address: "b" }) !== undefined;
  assertEquals([await isKey("old"), await isKey("new")], [true, false]);
  hash = "new";
  assertEquals([await isKey("old"), await isKey("new")], [false, true]);
});

Deno.test("an episode is told again after quiet minutes", async () => {
  const { of, clock, episodes } = attempts();
  const burst = async () => {
    for (let guess = 0; guess < 20; guess++) await of("known", "wrong");
  };
  await burst();
  await clock.advance(60_000);
  await burst();
  assertEquals(episodes.length, 1);
  await clock.advance(11 * 60_000);
  await burst();
  assertEquals(episodes.length, 2);
});

Deno.test("only so many keys are checked at once, and only so many wait", async () => {
  const { of, most, hold } = attempts({ ...defaultLimits(), keyChecksAtOnce: 3 });
  const { promise, resolve } = Promise.withResolvers<void>();
  hold(promise);
  const all = Array.from({ length: 300 }, (_, index) => of(`known ${index}`, "right", `a${index}`));
  const refused = await Promise.race([...all.slice(280)]);
  assertEquals(refused, "resource_exhausted");
  resolve();
  const found = await Promise.all(all);
  assertEquals([found.filter((one) => one === true).length, most()], [259, 3]);
  assertEquals(await of("known", "right"), true);
});

Deno.test("an address of IPv6 counts as its network", () => {
  assertEquals(addressOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  assertEquals(addressOf("2001:db8::6"), "2001:db8:0:0::/64");
  assertEquals(addressOf("::1"), "0:0:0:0::/64");
  assertEquals(addressOf("::ffff:192.0.2.1"), "192.0.2.1");
  assertEquals(addressOf(undefined), "none");
});

Deno.test("what is wrong in the file of limits is told", async () => {
  const { parseLimits } = await import("./limits.ts");
  assertEquals(parseLimits({ log_lines_per_call: 5 }, "f").logLinesPerCall, 5);
  for (const json of [[], { log_lines_per_cal: 5 }, { log_lines_per_call: 0 }, { log_lines_per_call: "5" }]) {
    await assertRejects(async () => void await parseLimits(json, "f"), SvcError, "f: ");
  }
});
