/** What the fleet's table says of a machine's configuration. */

import { assertEquals } from "@std/assert";
import type { AgentReport } from "./agent_reports.ts";
import type { PublishedRelease } from "../packages/releases.ts";
import { configState, missingReleases } from "./part_reports.ts";

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

Deno.test("a wanted version is missing if the agent neither runs it nor gets a release for its platform", () => {
  const release = { id: "1", name: "svc-server", sha256: "", bytes: 1, createdMs: 1 } as const;
  const releases: PublishedRelease[] = [
    { ...release, version: "1.2.3", platform: "linux/arm64", channel: "stable" },
    { ...release, version: "2.0.0", platform: "linux/amd64", channel: "dev" },
  ];
  const agent = { platform: "linux/arm64", agentRunning: "v1.0.0", serverRunning: "1.0.0" } as AgentReport;
  const missing = (server: string, own = "1.0.0") =>
    missingReleases(releases, { agent, info: {} }, { server, agent: own });
  assertEquals(missing("stable"), []);
  assertEquals(missing("dev"), []);
  assertEquals(missing("1.2"), []);
  assertEquals(missing("2.0.0"), ["svc-server 2.0.0 for linux/arm64"]);
  assertEquals(missing("v1.0.0"), [], "it runs already");
  assertEquals(missing("https://example.com/svc-server", "stable"), ["svc-agent stable for linux/arm64"]);
  assertEquals(missingReleases(releases, { agent: undefined, info: {} }, { server: "9", agent: "9" }), []);
});
