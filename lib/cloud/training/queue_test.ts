import { assert, assertEquals } from "@std/assert";
import { fairOrder, type QueueShare, type Waiting } from "./queue.ts";

/** `a1 a2 b1`: organizations and their jobs. */
function jobs(words: string): Waiting[] {
  return words.split(" ").map((id) => ({ id, organizationId: id[0] }));
}

function order(words: string, shares: Record<string, QueueShare> = {}, runningMax = 1): string {
  const { jobs: found, startable } = fairOrder(jobs(words), new Map(Object.entries(shares)), runningMax);
  const ids = found.map(({ id }) => id);
  return [...ids.slice(0, startable), "|", ...ids.slice(startable)].join(" ");
}

Deno.test("fairOrder: organizations take turns, whatever the number of their jobs", () => {
  assertEquals(order("a1 a2 a3 b1"), "a1 b1 | a2 a3");
  assertEquals(order("a2 a3 b1 c1", { a: { running: 1, turn: 4 } }), "b1 c1 | a2 a3");
  assertEquals(order("a2 b2 b3", { a: { running: 0, turn: 4 }, b: { running: 0, turn: 3 } }), "b2 a2 | b3");
  assertEquals(order("a2", { a: { running: 1, turn: 1 } }), "| a2");
});

Deno.test("fairOrder: an organization runs at most runningMax jobs", () => {
  assertEquals(order("a2 a3 b1 b2", { a: { running: 1, turn: 1 } }, 2), "b1 a2 b2 | a3");
});

/** A generator of numbers that a seed decides. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

Deno.test("fairOrder: no organization starves, and the announced order holds without new jobs", () => {
  const seed = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);
  const random = numbers(seed);
  const organizations = ["a", "b", "c", "d", "e"];
  for (let round = 0; round < 50; round++) {
    const shares = new Map<string, { running: number; turn: number }>();
    let [waiting, made, turn]: [Waiting[], number, number] = [[], 0, 0];
    /** How many starts of others each organization that waits has seen. */
    const seen = new Map<string, Map<string, number>>();
    const add = (organizationId: string) =>
      waiting.push({ id: `${organizationId}${++made}`, organizationId });
    const start = (): string => {
      const [next] = fairOrder(waiting, shares, 1).jobs;
      waiting = waiting.filter((job) => job !== next);
      shares.set(next.organizationId, { running: 0, turn: ++turn });
      for (const organizationId of new Set(waiting.map((job) => job.organizationId))) {
        const starts = seen.get(organizationId) ?? new Map<string, number>();
        starts.set(next.organizationId, (starts.get(next.organizationId) ?? 0) + 1);
        seen.set(organizationId, starts);
        if (organizationId === next.organizationId) continue;
        assert(
          starts.get(next.organizationId)! <= 1,
          `seed ${seed}: ${next.id} again before ${organizationId}`,
        );
      }
      seen.delete(next.organizationId);
      return next.id;
    };
    // "a" never stops submitting.
    for (let step = 0; step < 100; step++) {
      for (let more = random(4); more > 0; more--) add("a");
      if (random(3) === 0) add(organizations[1 + random(4)]);
      if (waiting.length > 0) start();
    }
    const logged = fairOrder(waiting, shares, 1).jobs.map(({ id }) => id);
    assertEquals(logged.map(() => start()), logged, `seed ${seed}`);
  }
});
