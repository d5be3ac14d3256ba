import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { tellLastEnd } from "./last_end.ts";

async function logged(answer: { code?: number; output?: string } | Error): Promise<readonly string[]> {
  const records: LogRecord[] = [];
  const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("svc-agent");
  const commands = new FakeCommands({ journalctl: answer });
  await tellLastEnd("svc-agent", "/opt/svc/state/journal_cursor", commands, logger);
  assertEquals(commands.ran.length, 1);
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
