import { assertEquals, assertThrows } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../error.ts";
import { type PoolLimits, SharedPool } from "./shared_pool.ts";

const LIMITS: PoolLimits = {
  shares: [6, 4, 3],
  levels: ["this control plane", "one organization", "one key"],
  what: "calls",
};

/** Takes places by a text such as `a/1`, and tells whose is gone. */
function taker(limits: Partial<PoolLimits> = {}) {
  const clock = new FakeClock();
  const pool = new SharedPool({ ...LIMITS, ...limits }, clock);
  const gone: string[] = [];
  const take = (who: string, count = 1) => {
    return Array.from({ length: count }, () => pool.take(who.split("/"), () => gone.push(who)));
  };
  return { clock, pool, gone, take };
}

function refused(run: () => unknown): string {
  const { code, message } = assertThrows(run, SvcError);
  assertEquals(code, "resource_exhausted");
  return message;
}

Deno.test("SharedPool: each level has its share, and a released place is free again", () => {
  const { pool, take, gone } = taker();
  const [first] = take("a/1", 3);
  assertEquals(
    refused(() => take("a/1")),
    "3 calls of one key exist already, the most that there may be: try again later",
  );
  take("a/2");
  take("b/1");
  assertEquals([pool.size, gone], [5, []]);
  first.release();
  first.release();
  assertEquals(pool.size, 4);
  take("a/1");
  take("b/1");
  assertEquals([pool.size, gone], [6, []]);
});

Deno.test("SharedPool: in a full pool the largest group gives way, and a group alone keeps its share", () => {
  const { pool, take, gone } = taker();
  take("a/1", 3);
  take("a/2");
  take("b/1", 2);
  take("c/1");
  assertEquals([gone, pool.size], [["a/1"], 6], "the largest key of the largest organization");
  take("c/1");
  assertEquals(gone, ["a/1", "a/1"]);
  // Now each has two: nobody takes more from anybody.
  refused(() => take("c/1"));
  refused(() => take("a/2"));
  take("d/1");
  assertEquals(gone, ["a/1", "a/1", "a/1"]);
});

Deno.test("SharedPool: inside an organization at its share, the key with most places gives way", () => {
  const { take, gone } = taker();
  take("a/1", 3);
  take("a/2");
  take("a/3");
  assertEquals(gone, ["a/1"]);
});

Deno.test("SharedPool: an idle holder gives way to anybody, and one in use does not", async () => {
  const { clock, take, gone } = taker({ idleMs: 1_000 });
  const holders = [take("a/1"), take("b/1"), take("c/1"), take("d/1"), take("e/1"), take("f/1")].flat();
  refused(() => take("g/1"));
  await clock.advance(1_000);
  holders[0].used();
  take("g/1");
  take("h/1");
  assertEquals(gone, ["b/1", "c/1"]);
});

Deno.test("SharedPool: the least recently used of the largest group gives way, whoever came first", async () => {
  const { clock, take, gone, pool } = taker({ shares: [4, 3, 3] });
  const [first] = take("a/1");
  await clock.advance(1);
  const [second] = take("a/1");
  take("a/2");
  await clock.advance(1);
  first.used();
  take("b/1");
  take("b/1");
  assertEquals(gone, ["a/1"]);
  second.release();
  assertEquals(pool.size, 4, "it was the second one");
  first.release();
  assertEquals(pool.size, 3);
});

Deno.test("SharedPool: with replaces, a newcomer replaces the oldest of its own innermost group", () => {
  const { take, gone, pool } = taker({ replaces: true });
  take("a/1", 5);
  assertEquals([gone, pool.size], [["a/1", "a/1"], 3]);
});

Deno.test("SharedPool: a holder that cannot give way keeps its place", () => {
  const { pool, take } = taker();
  for (let count = 0; count < 4; count++) pool.take(["a", `${count}`]);
  take("b/1", 2);
  refused(() => take("c/1"));
});

Deno.test("SharedPool: whatever comes, no share is exceeded and its groups are forgotten", () => {
  const seed = Deno.env.get("SVC_TEST_SEED") ?? "7";
  let state = Number(seed);
  const next = (max: number) => (state = (state * 48271) % 2147483647) % max;
  const { pool } = taker();
  const live = new Map<object, { readonly who: string; readonly release: () => void }>();
  for (let step = 0; step < 3_000; step++) {
    const who = `${next(4)}/${next(3)}`;
    const key = {};
    if (next(3) === 0) {
      const [one] = live;
      one?.[1].release();
      live.delete(one?.[0]);
      continue;
    }
    try {
      const { release } = pool.take(who.split("/"), () => live.delete(key));
      live.set(key, { who, release });
    } catch (error) {
      assertEquals(SvcError.from(error).code, "resource_exhausted");
    }
    const of = (start: string) => live.values().filter((one) => one.who.startsWith(start)).toArray().length;
    assertEquals(pool.size, live.size, `seed ${seed}`);
    for (const one of live.values()) {
      const bounds = [live.size <= 6, of(one.who.split("/")[0]) <= 4, of(one.who) <= 3];
      assertEquals(bounds, [true, true, true], `seed ${seed}`);
    }
  }
});
