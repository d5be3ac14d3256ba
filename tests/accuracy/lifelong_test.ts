import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import { livesOn, type SessionScore } from "./lifelong.ts";

/** After so many sessions the map has its size. */
const GROWN = 5;

Deno.test("a map that is updated while furniture moves stays small and right, and forgets what has gone", async () => {
  const scores: SessionScore[] = await Array.fromAsync(livesOn(10, 1, { way: "short" }));
  const grown = scores.slice(0, GROWN).reduce((most, { bytes }) => Math.max(most, bytes), 0);
  const nodes = scores.slice(0, GROWN).reduce((most, one) => Math.max(most, one.nodes), 0);
  for (const one of scores) {
    const logged = `session ${one.session}: ${JSON.stringify(one)}`;
    assertLess(one.worstM, 0.15, logged);
    assertGreater(one.placed, 0.4 * one.scans, logged);
    assertGreater(one.presentShown, 0.25, logged);
    assertLess(one.goneShown, 0.2, logged);
    assert(one.bytes <= 1.5 * grown && one.nodes <= 1.5 * nodes, logged);
  }
  assertEquals(scores.length, 10);
  assert(scores.some(({ goneBoxes }) => goneBoxes > 0));
});
