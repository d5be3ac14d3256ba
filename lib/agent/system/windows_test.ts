import { assert, assertEquals, assertRejects } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { silentLogs } from "../../base/log/log.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { type AgentHostParts, hostAgent } from "./windows_host.ts";
import { installWindowsService, removeWindowsService } from "./windows_service.ts";
import { CONTROLS, ServiceLife, STATES, type Status } from "./windows_status.ts";

const OPTIONS = { base: "C:\\opt\\svc", configPath: "C:\\etc\\svc.json", defaultsPath: "C:\\my etc\\d.json" };

function windows(answers: ConstructorParameters<typeof FakeCommands>[0] = {}) {
  const clock = new FakeClock();
  const commands = new FakeCommands(answers);
  return { commands, clock, logger: silentLogs(clock).logger("test") };
}

Deno.test("a new service is made, with what Windows does when it fails, and its rule", async () => {
  const parts = windows({ "sc.exe stop": { code: 1060 } });
  await installWindowsService(
    OPTIONS,
    () => Promise.resolve(void parts.commands.ran.push("(placed)")),
    parts,
  );
  const program = "C:\\opt\\svc\\bin\\svc-agent-service.exe";
  const line =
    `${program} service --dir C:\\opt\\svc --config C:\\etc\\svc.json --defaults "C:\\my etc\\d.json"`;
  assertEquals(parts.commands.ran, [
    "sc.exe stop svc-agent",
    "(placed)",
    `sc.exe create svc-agent binPath= ${line} start= auto DisplayName= svc-agent`,
    "sc.exe description svc-agent Installs, runs, watches and updates svc-server",
    "sc.exe failure svc-agent reset= 86400 actions= restart/5000/restart/5000/restart/5000",
    "sc.exe failureflag svc-agent 1",
    "sc.exe sidtype svc-agent unrestricted",
    "reg.exe add HKLM\\SYSTEM\\CurrentControlSet\\Services\\svc-agent /v Environment /t REG_MULTI_SZ " +
    "/d SVC_HOME=C:\\opt\\svc /f",
    "netsh.exe advfirewall firewall delete rule name=svc-agent",
    "netsh.exe advfirewall firewall add rule name=svc-agent dir=in action=allow service=svc-agent enable=yes",
  ]);
});

Deno.test("one that is there is stopped and changed", async () => {
  const parts = windows({ "sc.exe query": { output: "TYPE : 10\n STATE : 3 STOP_PENDING" } });
  let isPlaced = false;
  const installing = installWindowsService(OPTIONS, () => Promise.resolve(void (isPlaced = true)), parts);
  await parts.clock.advance(2_000);
  assertEquals(isPlaced, false, "its program is in use until it has stopped");
  parts.commands.answers["sc.exe query"] = { output: "TYPE : 10\n STATE : 1 STOPPED" };
  await parts.clock.advance(1_000);
  await installing;
  assert(parts.commands.ran.some((one) => one.startsWith("sc.exe config svc-agent binPath=")));
  assert(!parts.commands.ran.some((one) => one.startsWith("sc.exe create")));
});

Deno.test("one that does not stop is told, and left", async () => {
  const parts = windows({ "sc.exe query": { output: " STATE : 3 STOP_PENDING" } });
  const installing = assertRejects(
    () => installWindowsService(OPTIONS, () => Promise.resolve(), parts),
    SvcError,
  );
  await parts.clock.advance(200_000);
  assertEquals((await installing).code, "deadline_exceeded");
  const refused = windows({ "sc.exe stop": { code: 5, output: "Access is denied." } });
  const error = await assertRejects(() => removeWindowsService(refused), SvcError, "Access is denied");
  assertEquals([error.code, refused.commands.ran.length], ["unknown", 1]);
});

Deno.test("a service is removed with its rule; none is no error", async () => {
  const parts = windows({ "sc.exe stop": { code: 1062 } });
  await removeWindowsService(parts);
  assertEquals(parts.commands.ran.slice(1), [
    "sc.exe delete svc-agent",
    "netsh.exe advfirewall firewall delete rule name=svc-agent",
  ]);
  const none = windows({ "sc.exe stop": { code: 1060 } });
  await removeWindowsService(none);
  assert(!none.commands.ran.some((one) => one.startsWith("sc.exe delete")));
});

Deno.test("Windows is told each state in its turn, and stops what the service does", async () => {
  const told: Status[] = [];
  const life = new ServiceLife((status) => void told.push(status));
  const running = life.run((signal) =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve(0)))
  );
  assertEquals(told.map((one) => one[1]), [STATES.startPending, STATES.running]);
  assertEquals(told[1][2], 0x105, "it takes stop, shutdown and preshutdown");
  assertEquals([life.control(CONTROLS.interrogate), life.control(99)], [0, 120]);
  assertEquals(told.length, 3, "what it was told last, again");
  assertEquals([life.control(CONTROLS.stop), life.control(CONTROLS.shutdown)], [0, 0]);
  assertEquals(await running, 0);
  assertEquals(told.slice(3).map((one) => one[1]), [STATES.stopPending, STATES.stopped]);
  assert(told[3][6] >= 150_000, "Windows waits for it");
});

Deno.test("a service that fails says so when it stops", async () => {
  const told: Status[] = [];
  const life = new ServiceLife((status) => void told.push(status));
  assertEquals(await life.run(() => Promise.resolve(3)), 3);
  assertEquals(told.at(-1)!.slice(1, 5), [STATES.stopped, 0, 1066, 3]);
  const other = new ServiceLife((status) => void told.push(status));
  await assertRejects(() => other.run(() => Promise.reject(new Error("broken"))), Error, "broken");
  assertEquals(told.at(-1)!.slice(1, 5), [STATES.stopped, 0, 1066, 1]);
});

/** The service's process with an agent that the test ends. */
function hosting(change: Partial<AgentHostParts> = {}) {
  const { commands, clock, logger } = windows();
  const processes = new FakeProcesses();
  const boots: { path: string; delayMs: number }[] = [];
  const asked: string[] = [];
  const parts: AgentHostParts = {
    boots: { boot: () => Promise.resolve(boots.length > 0 ? { file: "f", ...boots.shift()! } : undefined) },
    args: ["--dir", "C:\\opt\\svc"],
    ask: () => Promise.resolve(void asked.push("stop")),
    output: () => {},
    ...{ processes, commands, clock, logger, ...change },
  };
  const stop = new AbortController();
  const done = hostAgent(parts, stop.signal);
  return { done, stop, clock, processes, boots, asked, commands };
}

Deno.test("the agent is started again, by the boot rule and after its pause", async () => {
  const { done, stop, clock, processes, boots, commands } = hosting();
  boots.push({ path: "a", delayMs: 0 }, { path: "b", delayMs: 2_000 });
  await clock.advance(5_000);
  assertEquals(processes.started.map(({ command }) => command.command), ["a"]);
  assertEquals(processes.started[0].command.args, ["--dir", "C:\\opt\\svc"]);
  processes.started[0].exit(1);
  await settle();
  assertEquals(commands.ran, ["taskkill.exe /F /T /FI IMAGENAME eq svc-server-*"]);
  await clock.advance(1_900);
  assertEquals(processes.started.length, 1);
  await clock.advance(200);
  assertEquals(processes.started.map(({ command }) => command.command), ["a", "b"]);
  stop.abort();
  await settle();
  processes.started[1].exit(0);
  await done;
  assertEquals(clock.pending, 0);
});

Deno.test("when it is to stop the agent is asked, and killed where it does not end", async () => {
  const { done, stop, clock, processes, boots, asked } = hosting();
  boots.push({ path: "a", delayMs: 0 });
  await clock.advance(5_000);
  stop.abort();
  await settle();
  assertEquals([asked, processes.started[0].signals], [["stop"], []]);
  await clock.advance(150_000);
  await done;
  assertEquals(processes.started[0].signals, ["SIGKILL"]);
});

Deno.test("where nothing can be started it is looked again", async () => {
  const world = hosting({
    processes: {
      spawn: () => {
        throw new SvcError("not_found", "no such file");
      },
    },
  });
  world.boots.push({ path: "a", delayMs: 0 });
  await world.clock.advance(30_000);
  world.stop.abort();
  await world.done;
  assertEquals(world.clock.pending, 0);
});
