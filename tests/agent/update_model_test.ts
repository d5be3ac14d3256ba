/**
 * The state machine of updates, exhaustively, for the versions that are explored in seconds: one that is good beside
 * one that crashes and one that hangs. `deno task model:updates` has more of them at once, and takes some minutes.
 */

import { assertEquals, assertGreater } from "@std/assert";
import { explore, type Mode, report } from "./update_model.ts";

for (const mode of ["agent", "runtime"] satisfies Mode[]) {
  Deno.test(`after any course of updates of the ${mode}, a working version starts`, () => {
    for (const names of ["ac", "ah"]) {
      const explored = explore(mode, [...names]);
      report(explored, mode, names);
      assertEquals(explored.violations, []);
      assertGreater(explored.cuts, 1000);
    }
  });
}

Deno.test("a first version of the runtime that was given up too early starts, and is good in the end", () => {
  const explored = explore("runtime", [..."ac"], "late");
  report(explored, "runtime", "ac");
  assertEquals(explored.violations, []);
  assertGreater(explored.cuts, 1000);
});
