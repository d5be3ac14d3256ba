import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { settle } from "../../base/clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { RUNTIME_MARK } from "../system/service_unit.ts";
import { endLeftRuntime } from "./left_runtime.ts";

const BASE = "/opt/svc";

function scene() {
  const clock = new FakeClock(), logged: LogRecord[] = [];
  const processes = new FakeProcesses();
  const start = (base: string) =>
    processes.spawn({ command: "svc-server", args: [], env: { [RUNTIME_MARK]: base } });
  const logger = new Logs(clock, [memorySink(logged)]).logger("agent");
  return { clock, logged, processes, start, parts: { processes, base: BASE, clock, logger } };
}

Deno.test("an agent that stops before it works ends what an earlier one has left running, and nothing else", async () => {
  const { clock, start, parts } = scene();
  const [own, other] = [start(BASE), start("/opt/other")];
  await endLeftRuntime(parts);
  assertEquals([own.signals, other.signals], [["SIGTERM", "SIGKILL group"], []]);
  assertEquals(clock.pending, 0);
});

Deno.test("a svc-server that does not end is killed, and a failure to look is no error", async () => {
  const { clock, start, parts, logged } = scene();
  const stubborn = start(BASE);
  stubborn.onSignal = () => {};
  const ended = endLeftRuntime(parts);
  await settle();
  await clock.advance(119_000);
  assertEquals(stubborn.over, false);
  await clock.advance(1_000);
  await ended;
  assertEquals(stubborn.over, true);
  const findMarked = () => Promise.reject(new Error("no /proc"));
  await endLeftRuntime({ ...parts, processes: { findMarked } });
  assertEquals(logged.at(-1)?.message, "cannot stop svc-server of an earlier agent: no /proc");
});
