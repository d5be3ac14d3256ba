import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { tellLastEnd } from "./last_end.ts";

const BASE = "/opt/svc";
const CURSOR_FILE = `${BASE}/state/last_end_cursor`;

async function logged(
  answer: { code?: number; output?: string } | Error,
  files = new FakeFiles(),
  commands = new FakeCommands({ journalctl: answer }),
): Promise<readonly string[]> {
  const records: LogRecord[] = [];
  const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("svc-agent");
  await tellLastEnd("svc-agent", { commands, files, logger, base: BASE });
  return records.map(({ message }) => message);
}

Deno.test("tellLastEnd: out of memory, the watchdog and failures are told, the usual course is not", async () => {
  const output = [
    "Started svc-agent.service - svc-agent.",
    "svc-agent.service: A process of this unit has been killed by the OOM killer.",
    "svc-agent.service: Main process exited, code=killed, status=9/KILL",
    "svc-agent.service: Watchdog timeout (limit 3min)!",
    "svc-agent.service: Main process exited, code=exited, status=1/FAILURE",
    "Stopped svc-agent.service - svc-agent.",
    "svc-agent.service: Scheduled restart job, restart counter is at 3.",
  ].join("\n");
  assertEquals((await logged({ output })).length, 4);
  assertEquals(
    (await logged({ output: Array.from({ length: 100 }, (_, n) => `failed ${n}`).join("\n") })).at(-1),
    "systemd: failed 99",
  );
  assertEquals((await logged({ output: "x failed\n".repeat(100) })).length <= 20, true);
});

Deno.test("tellLastEnd: a system without a journal, and an empty one, tell nothing", async () => {
  for (const answer of [new Error("there is no journalctl"), { code: 1, output: "failed" }, { output: "" }]) {
    assertEquals(await logged(answer), []);
  }
});

Deno.test("tellLastEnd: goes on after the last line, with options that journalctl has had since systemd 206", async () => {
  const files = new FakeFiles();
  const [ask, UNIT] = [
    "journalctl --no-pager --quiet -o cat -n 200 --show-cursor",
    "_PID=1 UNIT=svc-agent.service",
  ];
  const commands = new FakeCommands({ journalctl: { output: "one failed\n-- cursor: s=1;i=2" } });
  assertEquals(await logged({}, files, commands), ["systemd: one failed"]);
  assertEquals([commands.ran.splice(0), files.text(CURSOR_FILE)], [[`${ask} ${UNIT}`], "s=1;i=2"]);

  // Nothing new: journalctl names no cursor.
  commands.answers.journalctl = { output: "" };
  assertEquals(await logged({}, files, commands), []);
  assertEquals([commands.ran.splice(0), files.text(CURSOR_FILE)], [
    [`${ask} --after-cursor=s=1;i=2 ${UNIT}`],
    "s=1;i=2",
  ]);

  // Another journal, in which the cursor is no place.
  commands.answers["journalctl --no-pager --quiet -o cat -n 200 --show-cursor --after-cursor"] = {
    code: 1,
    output: "Failed to seek to cursor: Invalid argument",
  };
  commands.answers.journalctl = { output: "two failed\n-- cursor: s=9;i=1" };
  assertEquals(await logged({}, files, commands), ["systemd: two failed"]);
  assertEquals([commands.ran.length, files.text(CURSOR_FILE)], [2, "s=9;i=1"]);
});
