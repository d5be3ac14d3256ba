/** What the fleet's table says of a machine's configuration. */

import { assertEquals } from "@std/assert";
import { configState } from "./part_reports.ts";

Deno.test("a configuration is applied, behind, held back or unknown, with the revisions of its fragments", () => {
  const state = (wanted: string, revision: string, heldBack = false) =>
    configState(wanted, { revision, unhealthy: [], heldBack, atMs: 1 }).state;
  assertEquals(configState("2", undefined), { state: "unknown", wanted: "2", running: null });
  assertEquals(state("2", "2"), "applied");
  // A package whose version floats is known to the machine only.
  assertEquals(state("2", "2+org/model@1.0.0"), "applied");
  assertEquals(state("2", "20"), "behind");
  assertEquals(state("3", "2"), "behind");
  assertEquals(state("3", "2", true), "held back");
  assertEquals(state("2+0a1b2c3d.4", "2+0a1b2c3d.3"), "behind", "a fragment has a newer revision");
  assertEquals(state("2+0a1b2c3d.4", "2+0a1b2c3d.4+org/model@none"), "applied");
  assertEquals(state("0", ""), "unknown");
});
