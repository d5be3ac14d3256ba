import { assert, assertEquals, assertRejects } from "@std/assert";
import { settle } from "../../../base/clock.ts";
import { FakeClock } from "../../../../tests/support/fake_clock.ts";
import { SvcError } from "../../../base/error.ts";
import { FakeProcesses } from "../../../../tests/support/fake_processes.ts";
import { silentLogs } from "../../../base/log/log.ts";
import { FakeCommands } from "../../../../tests/support/fake_commands.ts";
import { type AgentHostParts, hostAgent } from "../../supervise/windows_host.ts";
import {
  installWindowsService,
  removeWindowsService,
  type ServicePort,
  type ServiceSettings,
  type ServiceState,
} from "./service.ts";
import { CONTROLS, SERVICE_STATES, ServiceLife, type ServiceStatus } from "./status.ts";

const OPTIONS = { base: "C:\\opt\\svc", configPath: "C:\\etc\\svc.json", defaultsPath: "C:\\my etc\\d.json" };

/** A Windows with at most one service, which stops when the test says so. */
class FakeServices implements ServicePort {
  readonly did: string[] = [];
  settings: ServiceSettings | undefined;
  unknown: string[] = [];
  hasEnded = true;

  constructor(public found?: ServiceState) {}

  stateOf() {
    return this.found;
  }
  put(settings: ServiceSettings) {
    this.did.push(this.found ? "change" : "make");
    this.settings = settings;
    return this.unknown;
  }
  start() {
    this.did.push("start");
  }
  askStop() {
    this.did.push("stop");
    if (this.found) this.found = { ...this.found, state: SERVICE_STATES.stopPending };
  }
  remove() {
    this.did.push("remove");
  }
  ended() {
    return Promise.resolve(this.hasEnded);
  }
}

function windows(found?: ServiceState) {
  const clock = new FakeClock();
  const commands = new FakeCommands({});
  return { services: new FakeServices(found), commands, clock, logger: silentLogs(clock).logger("test") };
}

Deno.test("creates the service with its failure actions and its firewall rule", async () => {
  const parts = windows();
  const place = () => Promise.resolve(void parts.services.did.push("place"));
  assertEquals(await installWindowsService(OPTIONS, place, parts), false);
  assertEquals(parts.services.did, ["place", "make"]);
  const program = "C:\\opt\\svc\\bin\\svc-agent-service.exe";
  assertEquals(parts.services.settings, {
    name: "svc-agent",
    description: "Installs, runs, watches and updates svc-server",
    commandLine:
      `${program} service --dir C:\\opt\\svc --config C:\\etc\\svc.json --defaults "C:\\my etc\\d.json"`,
    restartMs: 5_000,
    forgetMs: 86_400_000,
  });
  assertEquals(parts.commands.ran, [
    "icacls.exe C:\\opt\\svc /setowner *S-1-5-32-544",
    "icacls.exe C:\\opt\\svc /reset",
    "icacls.exe C:\\opt\\svc /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F",
    "reg.exe add HKLM\\SYSTEM\\CurrentControlSet\\Services\\svc-agent /v Environment /t REG_MULTI_SZ " +
    "/d SVC_HOME=C:\\opt\\svc /f",
    "netsh.exe advfirewall firewall delete rule name=svc-agent",
    "netsh.exe advfirewall firewall add rule name=svc-agent dir=in action=allow service=svc-agent enable=yes",
  ]);
});

Deno.test("installWindowsService: stops a running service, changes it after its process ends, and starts it", async () => {
  const parts = windows({ state: SERVICE_STATES.running, pid: 7 });
  const { services, clock } = parts;
  const place = () => Promise.resolve(void services.did.push("place"));
  const installing = installWindowsService(OPTIONS, place, parts);
  await clock.advance(2_000);
  assertEquals(services.did, ["stop"], "its program is in use until it has stopped");
  services.found = { state: SERVICE_STATES.stopped, pid: 0 };
  await clock.advance(1_000);
  assertEquals(await installing, true);
  assertEquals(services.did, ["stop", "place", "change", "start"]);
});

Deno.test("removeWindowsService: repeats the stop request until a starting service accepts it", async () => {
  const parts = windows({ state: SERVICE_STATES.startPending, pid: 7 });
  parts.services.askStop = () => void parts.services.did.push("stop");
  const removing = removeWindowsService(parts);
  await parts.clock.advance(1_200);
  assert(parts.services.did.length >= 2);
  parts.services.found = { state: SERVICE_STATES.stopped, pid: 0 };
  await parts.clock.advance(1_000);
  await removing;
  assertEquals(parts.services.did.at(-1), "remove");
});

Deno.test("installWindowsService: fails if the service does not stop or its process does not end", async () => {
  const parts = windows({ state: SERVICE_STATES.stopPending, pid: 7 });
  const installing = assertRejects(
    () => installWindowsService(OPTIONS, () => Promise.resolve(), parts),
    SvcError,
  );
  await parts.clock.advance(200_000);
  assertEquals([(await installing).code, parts.services.did], ["deadline_exceeded", []]);
  const kept = windows({ state: SERVICE_STATES.stopped, pid: 7 });
  kept.services.hasEnded = false;
  await assertRejects(() => removeWindowsService(kept), SvcError, "process 7 of the service svc-agent");
  assertEquals(kept.services.did, []);
});

Deno.test("removeWindowsService: removes the service and its firewall rule, and a missing service is no error", async () => {
  const parts = windows({ state: SERVICE_STATES.stopped, pid: 0 });
  await removeWindowsService(parts);
  assertEquals(parts.services.did, ["remove"]);
  assertEquals(parts.commands.ran, ["netsh.exe advfirewall firewall delete rule name=svc-agent"]);
  const none = windows();
  await removeWindowsService(none);
  assertEquals(none.services.did, []);
});

Deno.test("ServiceLife: reports each state to Windows and stops the work on request", async () => {
  const logged: ServiceStatus[] = [];
  const life = new ServiceLife((status) => void logged.push(status));
  const running = life.run((signal) =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve(0)))
  );
  assertEquals(logged.map((one) => one[1]), [SERVICE_STATES.startPending, SERVICE_STATES.running]);
  assertEquals(logged[1][2], 0x105, "it takes stop, shutdown and preshutdown");
  assertEquals([life.control(CONTROLS.interrogate), life.control(99)], [0, 120]);
  assertEquals(logged.length, 3, "what it was told last, again");
  assertEquals([life.control(CONTROLS.stop), life.control(CONTROLS.shutdown)], [0, 0]);
  assertEquals(await running, 0);
  assertEquals(logged.slice(3).map((one) => one[1]), [SERVICE_STATES.stopPending, SERVICE_STATES.stopped]);
  assert(logged[3][6] >= 150_000, "Windows waits for it");
});

Deno.test("ServiceLife: a failing service reports its exit code when it stops", async () => {
  const logged: ServiceStatus[] = [];
  const life = new ServiceLife((status) => void logged.push(status));
  assertEquals(await life.run(() => Promise.resolve(3)), 3);
  assertEquals(logged.at(-1)!.slice(1, 5), [SERVICE_STATES.stopped, 0, 1066, 3]);
  const other = new ServiceLife((status) => void logged.push(status));
  await assertRejects(() => other.run(() => Promise.reject(new Error("broken"))), Error, "broken");
  assertEquals(logged.at(-1)!.slice(1, 5), [SERVICE_STATES.stopped, 0, 1066, 1]);
});

/** The service's process with an agent that the test ends. */
function hosting(change: Partial<AgentHostParts> = {}) {
  const { clock, logger } = windows();
  const processes = new FakeProcesses();
  const boots: { path: string; delayMs: number }[] = [];
  const asked: string[] = [];
  const parts: AgentHostParts = {
    boots: { boot: () => Promise.resolve(boots.length > 0 ? { file: "f", ...boots.shift()! } : undefined) },
    args: ["--dir", "C:\\opt\\svc"],
    ask: () => Promise.resolve(void asked.push("stop")),
    output: () => {},
    ...{ processes, clock, logger, ...change },
  };
  const stop = new AbortController();
  const done = hostAgent(parts, stop.signal);
  return { done, stop, clock, processes, boots, asked };
}

Deno.test("hostAgent: restarts the agent by the boot rule, after its pause", async () => {
  const { done, stop, clock, processes, boots } = hosting();
  boots.push({ path: "a", delayMs: 0 }, { path: "b", delayMs: 2_000 });
  await clock.advance(5_000);
  assertEquals(processes.started.map(({ command }) => command.command), ["a"]);
  assertEquals(processes.started[0].command.args, ["--dir", "C:\\opt\\svc"]);
  processes.started[0].exit(1);
  await settle();
  assertEquals(processes.started[0].command.leash, true, "what it leaves ends with it");
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

Deno.test("hostAgent: asks the agent to stop, and kills it after the timeout", async () => {
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

Deno.test("hostAgent: repeats the stop request until the agent listens", async () => {
  let asked = 0;
  const world = hosting({
    ask: () => ++asked < 3 ? Promise.reject(new SvcError("not_found", "none answers")) : Promise.resolve(),
  });
  world.boots.push({ path: "a", delayMs: 0 });
  await world.clock.advance(5_000);
  world.stop.abort();
  await world.clock.advance(2_000);
  assertEquals(asked, 3);
  world.processes.started[0].exit(0);
  await world.done;
  assertEquals(world.clock.pending, 0);
});

Deno.test("hostAgent: tries again when no program can be started", async () => {
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
