import { assertEquals } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { addressOf, type Attempt, KeyRateLimiter } from "./rate_limit.ts";

const TYPE = "api-key";
const LIMITS = { wrongKeysPerAddress: 20, wrongKeysPerKey: 5, keyChecksAtOnce: 4 };

function attempts(limits = LIMITS) {
  const clock = new FakeClock();
  const episodes: Attempt[] = [];
  let [checks, most, open] = [0, 0, 0];
  let gate: Promise<void> = Promise.resolve();
  const book = {
    find: ({ id }: Attempt) =>
      Promise.resolve(
        id.startsWith("known") ? { form: `hash of ${id}`, owner: id.split("@")[1] ?? id } : undefined,
      ),
    async generation(kept: string | undefined, { key }: Attempt) {
      checks++;
      most = Math.max(most, ++open);
      await gate;
      open--;
      return key === "right" ? kept : undefined;
    },
  };
  const made = new KeyRateLimiter({
    stored: book,
    limits: () => limits,
    clock,
    limitExceeded: (one) => Promise.resolve(void episodes.push(one)),
  });
  const of = (id: string, key: string, address = "192.0.2.1") =>
    made.check({ type: TYPE, id, key, address }).then((hash) => hash !== undefined).catch((error) =>
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

Deno.test("KeyRateLimiter: 2000 wrong keys cause at most the limited number of checks and two episodes", async () => {
  const { of, episodes, checks } = attempts();
  const guesses = [];
  for (let guess = 0; guess < 1_000; guess++) guesses.push(await of("known", `wrong ${guess}`));
  assertEquals([guesses.filter((one) => one === false).length, checks()], [5, 5]);
  for (let guess = 0; guess < 1_000; guess++) guesses.push(await of(`unknown ${guess}`, "wrong"));
  assertEquals([guesses.filter((one) => one === false).length, checks()], [25, 25]);
  assertEquals(episodes.length, 2);
});

Deno.test("KeyRateLimiter: a right key from an attacker's address is accepted while its own count allows", async () => {
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

Deno.test("KeyRateLimiter: a replaced key is no longer accepted from memory", async () => {
  const clock = new FakeClock();
  let hash = "old";
  const book = {
    find: () => Promise.resolve({ form: hash, owner: "a" }),
    generation: (kept: string | undefined, { key }: Attempt) =>
      Promise.resolve(kept === key ? kept : undefined),
  };
  const made = new KeyRateLimiter({
    stored: book,
    limits: () => LIMITS,
    clock,
    limitExceeded: () => Promise.resolve(),
  });
  const isKey = async (key: string) =>
    await made.check({ type: TYPE, id: "a", key, address: "b" }) !== undefined;
  assertEquals([await isKey("old"), await isKey("new")], [true, false]);
  hash = "new";
  assertEquals([await isKey("old"), await isKey("new")], [false, true]);
});

Deno.test("KeyRateLimiter: reports another episode only after quiet minutes", async () => {
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

Deno.test("KeyRateLimiter: forgets the oldest of 20000 addresses to bound its memory", async () => {
  const { of } = attempts();
  const first = () => of("unknown", "wrong", "192.0.2.1");
  for (let guess = 0; guess < 20; guess++) assertEquals(await first(), false);
  assertEquals(await first(), "resource_exhausted");
  for (let other = 0; other < 9_999; other++) {
    await of("unknown", "wrong", `2001:db8:0:${other.toString(16)}::/64`);
  }
  assertEquals(await first(), "resource_exhausted");
  for (let other = 0; other < 10_000; other++) {
    await of("unknown", "wrong", `2001:db8:1:${other.toString(16)}::/64`);
  }
  assertEquals(await first(), false);
});

Deno.test("KeyRateLimiter: checks at most keyChecksAtOnce keys at the same time and refuses a long queue", async () => {
  const { of, most, hold } = attempts({ ...LIMITS, keyChecksAtOnce: 3 });
  const { promise, resolve } = Promise.withResolvers<void>();
  void hold(promise);
  const all = Array.from({ length: 300 }, (_, index) => of(`known ${index}`, "right", `a${index}`));
  const refused = await Promise.race([...all.slice(280)]);
  assertEquals(refused, "resource_exhausted");
  resolve();
  const found = await Promise.all(all);
  assertEquals([found.filter((one) => one === true).length, most()], [259, 3]);
  assertEquals(await of("known", "right"), true);
});

Deno.test("KeyRateLimiter: wrong keys for 300 ids of one organization delay no first login of another", async () => {
  const { of, checks, hold } = attempts();
  const { promise, resolve } = Promise.withResolvers<void>();
  void hold(promise);
  const flood = Array.from({ length: 300 }, (_, at) => of(`known ${at}@flooding`, "wrong", `a${at % 3}`));
  await settle();
  assertEquals(checks(), 4, "the first four are under way");
  const login = of("known@quiet", "right", "b");
  void hold(Promise.resolve());
  await settle();
  resolve();
  assertEquals(await login, true);
  assertEquals(checks() < 20, true, "before those that came earlier");
  const refused = (await Promise.all(flood)).filter((one) => one === "resource_exhausted").length;
  assertEquals(refused, 300 - 4 - 128, "beyond its share of the waiting places");
});

Deno.test("addressOf: reduces an IPv6 address to its /64 network", () => {
  assertEquals(addressOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  assertEquals(addressOf("2001:db8::6"), "2001:db8:0:0::/64");
  assertEquals(addressOf("::1"), "0:0:0:0::/64");
  assertEquals(addressOf("::ffff:192.0.2.1"), "192.0.2.1");
  assertEquals(addressOf(undefined), "none");
});
