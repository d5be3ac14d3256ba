/** The status of the agent at several widths, and for programs. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { AgentStatus } from "../../lib/agent/control/status.ts";
import { styleProblems } from "../../tests/support/json_style.ts";
import { statusJson, statusLines } from "./status.ts";

const build = (version: string) => ({
  key: version,
  version,
  file: `svc-server-${version}`,
  sha256: "ab",
  sizeBytes: 1,
});
const STATUS: AgentStatus = {
  version: "1.2.3",
  uptimeMs: 3_600_000,
  online: false,
  refused: false,
  offlineWhy:
    "reaching https://cloud.example.com failed: the name does not exist, and no other one was given",
  sinceOnlineMs: 90_000,
  runtime: {
    phase: "running",
    pid: 4711,
    url: "http://localhost:8080",
    failures: 0,
  } as AgentStatus["runtime"],
  versions: {
    "svc-agent": { good: build("1.2.3"), target: { key: "k", version: "1.2.3" } },
    "svc-server": {
      good: build("2.0.0"),
      previous: build("1.9.0"),
      target: { key: "n", version: "3.0.0-rc.1+a-long-name-of-a-build" },
      refused: { key: "n", version: "3.0.0-rc.1+a-long-name-of-a-build", reason: "it did not start\x1b[2J" },
      progress: { doneBytes: 5e6, totalBytes: 2e7 },
    },
  } as AgentStatus["versions"],
  problems: [
    "system_configuration.logging: found 3, wanted an object with disk_max and other keys of journald",
  ],
};

Deno.test("svc-agent status fits 60, 80 and 140 columns, and shows every version", () => {
  for (const columns of [60, 80, 140]) {
    const lines = statusLines(STATUS, { columns });
    assertEquals(lines.filter((line) => line.length > columns), [], `${columns}`);
    const text = lines.join("\n");
    for (const part of ["! ", "1.2.3, up for 60 min", "last reached 90 s ago", "pid 4711", "2.0.0"]) {
      assertStringIncludes(text, part);
    }
    assertStringIncludes(
      text.replaceAll(/\n +/g, " "),
      "svc-server  refused 3.0.0-rc.1+a-long-name-of-a-build:",
    );
    assertStringIncludes(text, "svc-server  downloads 5.0 MB of 20.0 MB (25 %)");
    assert(!text.includes("\x1b"), "what the cloud wrote moves no cursor");
  }
  const refused = statusLines({ ...STATUS, refused: true, offlineWhy: "invalid credentials" }, {});
  assert(refused.includes("cloud       refuses this device: invalid credentials"), refused.join("\n"));
  const whole = statusLines(STATUS, {}).find((line) => line.startsWith("cloud"));
  assert(whole!.endsWith("no other one was given"), "without a terminal no line is cut or broken");
});

Deno.test("svc-agent status --json has ISO times beside the lengths of time", () => {
  const found = statusJson(STATUS, Date.UTC(2024, 0, 2, 3, 4, 5)) as Record<string, unknown>;
  assertEquals([found.started, found.seen], ["2024-01-02T02:04:05.000Z", "2024-01-02T03:02:35.000Z"]);
  assertEquals(found.versions, STATUS.versions);
  assertEquals(styleProblems(found), []);
});
