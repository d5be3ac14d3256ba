import { assert, assertEquals } from "@std/assert";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { RUNTIME_MARK } from "../system/service_unit.ts";
import { RuntimeProcess, type RuntimeSettings } from "./runtime.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";

const BASE = "/opt/svc";
const RUN = "/run/svc-agent";
const BOOT = { file: "svc-server-1", path: `${BASE}/bin/svc-server`, delayMs: 0 };
const SETTINGS: RuntimeSettings = { enabled: true, startTimeoutMs: 600_000, env: { A: "1" } };

/** A runtime over scripted processes. */
function scene({ delaysMs = [0], settings = SETTINGS, processes = new FakeProcesses() } = {}) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const files = new FakeFiles();
  const seen = {
    url: undefined as string | undefined,
    settled: 0,
    late: [] as string[],
    lasted: 0,
    boots: 0,
    installed: true,
    current: BOOT.file,
  };
  const runtime = new RuntimeProcess({
    base: BASE,
    run: RUN,
    args: ["-config", "/etc/svc.json"],
    boots: {
      boot: () => {
        const delayMs = delaysMs[Math.min(seen.boots++, delaysMs.length - 1)];
        return Promise.resolve(seen.installed ? { ...BOOT, delayMs } : undefined);
      },
      current: () => Promise.resolve(seen.current),
      settled: () => Promise.resolve(void seen.settled++),
      endedLate: (_file, how) => Promise.resolve(void seen.late.push(how)),
      lasted: () => Promise.resolve(void seen.lasted++),
      alone: (work) => work(),
    },
    probe: {
      serving: () => Promise.resolve(seen.url),
      restartStatus: () => Promise.resolve(undefined),
    },
    processes,
    host: files,
    clock,
    logger: logs.logger("svc-agent"),
    errors: logs.logger("svc-server.StdErr"),
    changed: () => {},
  }, settings);
  const stop = new AbortController();
  const done = runtime.adopt().then(() => runtime.run(stop.signal));
  const end = async () => {
    stop.abort();
    await settle();
    await done;
    assertEquals(clock.pending, 0, "timers are left");
  };
  const messages = () => records.map(({ message }) => message);
  return { runtime, clock, processes, files, seen, stop, done, end, messages };
}

Deno.test("a runtime starts, becomes ready, and stops with the agent", async () => {
  const { runtime, clock, processes, seen, end } = scene();
  await settle();
  const [process] = processes.started;
  assertEquals([process.command.command, process.command.args], [BOOT.path, ["-config", "/etc/svc.json"]]);
  assertEquals([process.command.env?.A, process.command.env?.[RUNTIME_MARK]], ["1", BASE]);
  assertEquals(runtime.state.phase, "starting");
  seen.url = "http://localhost:8080";
  await clock.advance(500);
  assertEquals([runtime.state.phase, runtime.state.url], ["running", seen.url]);
  await clock.advance(60_000);
  assertEquals(seen.settled, 1);
  await end();
  assertEquals(process.signals, ["SIGTERM", "SIGKILL group"]);
  assertEquals(processes.started.length, 1);
});

Deno.test("a disk that takes no writes, full or read-only, does not prevent the start", async () => {
  const { runtime, clock, processes, files, seen, end, messages } = scene();
  for (const left of [`${BASE}/state/svc-server.stderr`, `${RUN}/serving.json`]) files.put(left, "{}");
  files.fault = () => ({ kind: "denied" });
  await settle();
  const [{ command: { errorFile, env, oomScoreMin } }] = processes.started;
  assertEquals([errorFile, env?.SVC_SERVING_FILE], [undefined, `${RUN}/serving.json`]);
  assertEquals(oomScoreMin, 0, "the agent is protected, and svc-server with its modules is not");
  seen.url = "http://localhost:8080";
  await clock.advance(500);
  assertEquals(runtime.state.phase, "running");
  assert(
    messages().some((one) => one.startsWith("the standard error of svc-server goes to that of the agent")),
  );
  await end();
});

Deno.test("RuntimeProcess: restarts a runtime that exits, after the pause", async () => {
  const { runtime, clock, processes, end, messages } = scene({ delaysMs: [0, 4000] });
  await settle();
  processes.started[0].exit(3);
  await settle();
  assertEquals([runtime.state.phase, runtime.state.failures], ["waiting", 1]);
  await clock.advance(3999);
  assertEquals(processes.started.length, 1);
  await clock.advance(1);
  assertEquals(processes.started.length, 2);
  assert(messages().includes("svc-server ended by itself, with exit code 3"));
  await end();
});

Deno.test("RuntimeProcess: another version starts without the pause of a failing version", async () => {
  const { runtime, processes, seen, end } = scene({ delaysMs: [0, 300_000, 0] });
  await settle();
  processes.started[0].exit(1);
  await settle();
  await runtime.restart("it is told so again");
  await settle();
  assertEquals([runtime.state.phase, processes.started.length], ["waiting", 1]);
  seen.current = "svc-server-2";
  await runtime.restart("another version is to run");
  await settle();
  assertEquals([runtime.state.phase, processes.started.length], ["starting", 2]);
  await end();
});

Deno.test("viam_server_env overrides nothing of the agent, and with pinned keys loads no other program", async () => {
  const env = {
    ...{ A: "1", SVC_RELEASE_KEYS: "/tmp/none", SVC_SERVING_FILE: "/tmp/other" },
    ...{ LD_PRELOAD: "/tmp/evil.so", path: "/tmp", DENO_CERT: "/ca.pem", SVC_HOME: "/tmp/home" },
  };
  const started = async (pinned: boolean): Promise<(string | undefined)[]> => {
    const { processes, files, end } = scene({ settings: { ...SETTINGS, env } });
    if (pinned) files.put(`${BASE}/etc/release_keys.json`, "[]");
    await settle();
    await end();
    const [{ command }] = processes.started;
    const { A, SVC_RELEASE_KEYS, SVC_SERVING_FILE, LD_PRELOAD, path, DENO_CERT, SVC_HOME } = command.env!;
    assertEquals([A, SVC_RELEASE_KEYS, SVC_SERVING_FILE, DENO_CERT], [
      "1",
      `${BASE}/etc/release_keys.json`,
      `${RUN}/serving.json`,
      "/ca.pem",
    ]);
    return [LD_PRELOAD, path, SVC_HOME];
  };
  assertEquals(await started(false), ["/tmp/evil.so", "/tmp", "/tmp/home"]);
  assertEquals(await started(true), [undefined, undefined, undefined]);
});

Deno.test("neither does another environment", async () => {
  const { runtime, processes, end } = scene({ delaysMs: [0, 300_000] });
  await settle();
  processes.started[0].exit(1);
  await settle();
  runtime.configure(SETTINGS);
  await settle();
  assertEquals([runtime.state.phase, processes.started.length], ["waiting", 1]);
  runtime.configure({ ...SETTINGS, env: { A: "2" } });
  await settle();
  assertEquals(processes.started.map(({ command }) => command.env?.A), ["1", "2"]);
  await end();
});

Deno.test("an agent that stops does not wait for the pause before the next start", async () => {
  const { runtime, processes, end } = scene({ delaysMs: [0, 300_000] });
  await settle();
  processes.started[0].exit(1);
  await settle();
  assertEquals(runtime.state.phase, "waiting");
  await end();
  assertEquals(processes.started.length, 1);
});

Deno.test("kills and restarts a runtime that is not ready in time", async () => {
  const { clock, processes, end, runtime } = scene();
  await clock.advance(599_000);
  assertEquals([processes.started.length, processes.started[0].over], [1, false]);
  await clock.advance(2000);
  assertEquals([processes.started[0].signals, processes.started.length], [["SIGKILL group"], 2]);
  assertEquals(runtime.state.failures, 1);
  await end();
});

Deno.test("RuntimeProcess: tolerates a short silence and kills a runtime that hangs for 3 minutes", async () => {
  const { clock, processes, seen, end } = scene();
  seen.url = "http://localhost:8080";
  await clock.advance(10_000);
  seen.url = undefined;
  await clock.advance(170_000);
  assertEquals(processes.started[0].over, false);
  await clock.advance(20_000);
  assertEquals([processes.started[0].over, processes.started.length], [true, 2]);
  await end();
});

Deno.test("RuntimeProcess: a crash soon after a healthy minute is told of, other ends are not", async () => {
  const { clock, processes, seen, end } = scene();
  seen.url = "http://localhost:8080";
  const endsAfter = async (minutes: number, code: number, signal?: string) => {
    await clock.advance(minutes * 60_000);
    processes.started.at(-1)!.exit(code, signal);
    await settle();
    return seen.late.splice(0);
  };
  assertEquals(await endsAfter(0.5, 3), [], "the boot rule counts it");
  assertEquals(await endsAfter(2, 3), ["ended by itself, with exit code 3"]);
  assertEquals(await endsAfter(29, 134, "SIGABRT"), ["ended by itself, by SIGABRT"]);
  assertEquals(await endsAfter(2, 0), [], "somebody asked for it");
  assertEquals(await endsAfter(2, 137, "SIGKILL"), [], "for want of memory");
  assertEquals(await endsAfter(2, 143, "SIGTERM"), []);
  assertEquals(seen.lasted, 0);
  assertEquals(await endsAfter(32, 3), [], "it has lasted");
  assertEquals(seen.lasted, 1);
  await clock.advance(120_000);
  seen.url = undefined;
  await clock.advance(190_000);
  assertEquals(seen.late, ["has not answered for 180 s and is killed"]);
  await end();
});

Deno.test("RuntimeProcess: restart kills the whole group if the runtime ignores SIGTERM", async () => {
  const { runtime, clock, processes, seen, end } = scene();
  seen.url = "http://localhost:8080";
  await settle();
  processes.started[0].onSignal = () => {};
  const restarted = runtime.restart("new version");
  assertEquals(runtime.restart("again"), restarted);
  await settle();
  assertEquals(runtime.state.phase, "stopping");
  await clock.advance(120_000);
  await restarted;
  assertEquals(processes.started[0].signals, ["SIGTERM", "SIGKILL group"]);
  await settle();
  assertEquals(processes.started.length, 2);
  assertEquals(runtime.state.failures, 0);
  await end();
});

Deno.test("a disabled runtime does not run; a changed environment makes it stale", async () => {
  const { runtime, processes, end } = scene({ settings: { ...SETTINGS, enabled: false } });
  await settle();
  assertEquals(processes.started.length, 0);
  runtime.configure(SETTINGS);
  await settle();
  assertEquals([processes.started.length, runtime.state.stale], [1, false]);
  runtime.configure({ ...SETTINGS, env: { A: "2" } });
  assertEquals(runtime.state.stale, true);
  runtime.configure({ ...SETTINGS, enabled: false });
  await settle();
  assertEquals([processes.started[0].over, runtime.state.phase], [true, "stopped"]);
  await end();
});

Deno.test("RuntimeProcess: a new agent adopts the runtime that the previous agent left running", async () => {
  const first = scene();
  await settle();
  first.runtime.leave();
  await first.done;
  assertEquals([first.processes.started[0].over, first.clock.pending], [false, 0]);

  const { processes } = first;
  const second = scene({ processes, settings: { ...SETTINGS, env: { A: "2" } } });
  second.seen.url = "http://localhost:8080";
  await settle();
  assertEquals([processes.started.length, second.runtime.state.phase], [1, "running"]);
  assertEquals([second.runtime.state.file, second.runtime.state.stale], [BOOT.file, true]);
  await second.end();
  assertEquals(processes.started[0].over, true);
});

Deno.test("RuntimeProcess: logs standard error once and adds it to the failure reason", async () => {
  const { clock, files, end, messages, processes, runtime } = scene();
  await settle();
  files.put(`${BASE}/state/svc-server.stderr`, "panic: out of luck\n\n");
  await clock.advance(1000);
  assertEquals(messages().filter((message) => message.includes("luck")), ["panic: out of luck"]);
  processes.started[0].exit(3);
  await settle();
  assertEquals(runtime.state.lastFailure, "ended by itself, with exit code 3: panic: out of luck");
  await end();
});

Deno.test("RuntimeProcess: checks again every few seconds until a runtime is installed", async () => {
  const { clock, processes, seen, end } = scene();
  seen.installed = false;
  await settle();
  assertEquals(processes.started.length, 0);
  seen.installed = true;
  await clock.advance(5000);
  assertEquals(processes.started.length, 1);
  await end();
});
