import { assert, assertEquals } from "@std/assert";
import {
  type DeviceAgentConfigRequest,
  DeviceAgentConfigRequestSchema,
  DeviceAgentConfigResponseSchema,
} from "../../proto/gen/agent_pb.ts";
import { toDuration } from "../api/shared/time.ts";
import { race, settle } from "../base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../base/error.ts";
import { FakeProcesses } from "../../tests/support/fake_processes.ts";
import { type LogRecord, Logs, memorySink } from "../base/log/log.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { create, type MessageInitShape } from "../wire/rpc/proto.ts";
import { Agent, type AgentOptions } from "./agent.ts";
import { OfflineReboots } from "./supervise/offline.ts";
import { RuntimeProcess } from "./supervise/runtime.ts";
import type { AgentSettings } from "./settings/settings.ts";
import type { Now, UpdaterStatus } from "./update/updater.ts";
import { FakeChanges } from "../../tests/support/fake_changes.ts";
import { FakeFiles } from "../../tests/support/fake_files.ts";

const BASE = "/opt/svc";
const BUILD = { key: "1:a", version: "1.0.0", file: "svc-server-1.0.0-a", sha256: "a", sizeBytes: 1 };

/** Scripted updates. */
class FakeUpdater {
  readonly targets: (string | undefined)[] = [];
  readonly passes: Now[] = [];
  readonly backs: string[] = [];
  readonly forgiven: string[] = [];
  state: UpdaterStatus = { good: BUILD };
  restart = false;

  open = () => Promise.resolve();
  setTarget = (release?: { version: string }) => void this.targets.push(release?.version);
  pass = (now: Now) => {
    this.passes.push(now);
    const { restart } = this;
    this.restart = false;
    return Promise.resolve({ restart });
  };
  goBack = (reason: string) => Promise.resolve(void this.backs.push(reason));
  forgive = (reason: string) => Promise.resolve(void this.forgiven.push(reason));
  status = () => this.state;
  clean = () => Promise.resolve([]);
  refresh = () => Promise.resolve();
  idle = () => Promise.resolve();
  boot = () => Promise.resolve({ file: BUILD.file, path: `${BASE}/cache/${BUILD.file}`, delayMs: 0 });
  current = () => Promise.resolve(BUILD.file);
  settled = () => Promise.resolve();
  note = () => Promise.resolve();
}

type Answer = MessageInitShape<typeof DeviceAgentConfigResponseSchema>;

/** An agent in a world of the test's making. */
function scene({ devMode, ...options }: Partial<AgentOptions> & { devMode?: boolean } = {}) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  const files = new FakeFiles();
  const processes = new FakeProcesses();
  const world = {
    answer: { checkInterval: toDuration(60_000) } as Answer | Error,
    asked: [] as DeviceAgentConfigRequest[],
    hangs: false,
    mustRestart: false,
    /** How often restart orders were asked about; how often the cloud wants it; why it does not answer. */
    ordersAsked: 0,
    ordersEveryMs: 0,
    orderFailure: undefined as SvcError | undefined,
    restartAllowed: true as boolean | undefined,
    inWindow: false,
    url: "http://localhost:8080" as string | undefined,
    reboots: 0,
    rebooted: [] as string[],
    rebootFails: false,
    diskFull: false,
    hasOthers: false,
    isConnected: false,
    /** The host that answers when the network is checked. */
    answers: undefined as string | undefined,
    alive: 0,
    applied: [] as AgentSettings[],
    unable: undefined as SvcError | undefined,
  };
  const changes = new FakeChanges();
  const [agent, server] = [new FakeUpdater(), new FakeUpdater()];
  const probe = {
    serving: () => Promise.resolve(world.url),
    restartStatus: () => {
      const { restartAllowed, inWindow } = world;
      return Promise.resolve(
        restartAllowed === undefined ? undefined : { restartAllowed, inWindow, handledByAgent: true },
      );
    },
  };
  const subject = new Agent({
    options: {
      base: BASE,
      defaultsPath: "/etc/d.json",
      version: "0.1.0",
      debug: false,
      leavesRuntime: true,
      ...options,
    },
    device: { platform: "linux/amd64", distro: "debian:12", tags: [], problems: [] },
    changes,
    rareMs: 30 * 60_000,
    cloud: {
      deviceAgentConfig: (request, { signal } = {}) => {
        if (world.hangs) return race(new Promise<never>(() => {}), signal!);
        world.asked.push(create(DeviceAgentConfigRequestSchema, request));
        if (world.answer instanceof Error) return Promise.reject(world.answer);
        return Promise.resolve(create(DeviceAgentConfigResponseSchema, world.answer));
      },
      needsRestart: ({ signal } = {}) => {
        if (world.hangs) return race(new Promise<never>(() => {}), signal!);
        world.ordersAsked++;
        if (world.orderFailure) return Promise.reject(world.orderFailure);
        const { mustRestart, ordersEveryMs: intervalMs } = world;
        world.mustRestart = false;
        return Promise.resolve({ mustRestart, intervalMs });
      },
    },
    hasOthers: () => Promise.resolve(world.hasOthers),
    updaters: { agent, server },
    runtime: (settings, boots, changed) =>
      new RuntimeProcess({
        ...{
          base: BASE,
          run: "/run/svc-agent",
          args: [],
          boots,
          probe,
          processes,
          host: files,
          clock,
          changed,
        },
        logger: logs.logger("svc-agent"),
        errors: logs.logger("errors"),
      }, settings),
    probe,
    subsystems: [{
      name: "system",
      apply: (settings) => {
        if (world.unable) return Promise.reject(world.unable);
        return Promise.resolve(void world.applied.push(settings));
      },
      close: () => Promise.resolve(),
    }],
    offline: new OfflineReboots({
      clock,
      logger: logs.logger("svc-agent"),
      reboot: devMode ? undefined : (reason) => {
        world.rebooted.push(reason);
        return world.rebootFails ? Promise.reject(new Error("systemctl reboot failed")) : Promise.resolve();
      },
      isConnected: () => world.isConnected,
      evidence: () => Promise.resolve(world.answers),
      reboots: {
        get: () => Promise.resolve(world.reboots),
        set: (count) => {
          if (world.diskFull && world.reboots !== count) return Promise.reject(new Error("the disk is full"));
          return Promise.resolve(void (world.reboots = count));
        },
      },
    }),
    alive: () => void world.alive++,
    configureLogs: () => {},
    host: files,
    clock,
    logger: logs.logger("svc-agent"),
  });
  const stop = new AbortController();
  const begin = () => {
    const done = subject.run(stop.signal);
    const end = async () => {
      stop.abort();
      await settle();
      const how = await done;
      assertEquals(clock.pending, 0, "timers are left");
      return how;
    };
    return { done, end };
  };
  return { begin, subject, clock, records, world, changes, agent, server, processes, files };
}

const sections = (advanced: JsonObject, network: JsonObject = {}) => ({
  checkInterval: toDuration(60_000),
  advancedSettings: advanced,
  networkConfiguration: network,
});

Deno.test("runs the installed version, reports it, and prepares the version that the cloud wants", async () => {
  const { begin, subject, clock, world, server, agent, processes } = scene();
  const info = { filename: "f", url: "http://x/f", version: "1.1.0", sha256: new Uint8Array(32) };
  world.answer = { checkInterval: toDuration(60_000), viamServerUpdateInfo: info };
  const { end } = begin();
  await clock.advance(6_000);
  assertEquals(processes.started.length, 1);
  assertEquals([server.targets, agent.targets], [["1.1.0"], []]);
  await clock.advance(60_000);
  assert(world.asked.length >= 2);
  const { versionInfo, hostInfo } = world.asked.at(-1)!;
  assertEquals([versionInfo?.viamServerRunning, versionInfo?.agentRunning], ["1.0.0", "0.1.0"]);
  assertEquals(hostInfo?.platform, "linux/amd64");
  assertEquals([subject.status.online, subject.status.runtime.phase], [true, "running"]);
  assertEquals(await end(), "stopped");
  assertEquals(processes.started[0].over, true);
});

Deno.test("a cloud is asked again within the hour, whatever interval it names", async () => {
  const { begin, clock, world } = scene();
  world.answer = { checkInterval: toDuration(10 * 366 * 24 * 3600_000) };
  const { end } = begin();
  await clock.advance(10_000);
  const { length } = world.asked;
  await clock.advance(3600_000);
  assert(world.asked.length > length);
  await end();
});

Deno.test("Agent: without a cloud runs the installed runtime, and a bad setting affects itself alone", async () => {
  const { begin, subject, clock, world, processes, records } = scene();
  world.answer = new SvcError("unavailable", "nobody there");
  const { end } = begin();
  await clock.advance(30_000);
  assertEquals([processes.started.length, subject.status.online], [1, false]);
  const logged = records.filter(({ message }) => message.includes("nobody there")).length;
  assertEquals(logged, 1, "told once");
  world.answer = sections({ disable_viam_server: "yes", viam_server_env: { A: "1" } });
  await clock.advance(30_000);
  assertEquals(subject.status.problems.length, 1);
  assertEquals(processes.started.at(-1)?.command.env?.A, "1");
  assertEquals(processes.started.length, 2, "restarted for its environment, not disabled");
  await end();
});

Deno.test("settings that a full disk did not take are kept when there is room", async () => {
  const { begin, clock, world, files, records } = scene();
  files.full = true;
  world.answer = sections({ disable_viam_server: true });
  const { end } = begin();
  await clock.advance(3 * 60_000);
  assertEquals(await files.findFile(`${BASE}/state/settings.json`), undefined);
  files.full = false;
  await clock.advance(2 * 60_000);
  const { cloud } = JSON.parse(await files.readTextFile(`${BASE}/state/settings.json`));
  assertEquals(cloud.advanced_settings, { disable_viam_server: true });
  const logged = records.filter(({ message }) => message.startsWith("cannot keep the settings"));
  assertEquals(logged.length, 1);
  await end();
});

Deno.test("Agent: a changed viam_server_env restarts the runtime only when maintenance allows it", async () => {
  const { begin, clock, world, processes } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = sections({ svc_server_env: { A: "2" } });
  // One that does not answer may be at work.
  for (const allowed of [false, undefined]) {
    world.restartAllowed = allowed;
    await clock.advance(120_000);
    assertEquals(processes.started.length, 1, `${allowed}`);
  }
  world.restartAllowed = true;
  await clock.advance(10_000);
  assertEquals(processes.started.map(({ command }) => command.env?.A), [undefined, "2"]);
  await end();
});

Deno.test("Agent: a restart ordered by the cloud does not wait for maintenance", async () => {
  const { begin, clock, world, processes } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  world.restartAllowed = false;
  world.mustRestart = true;
  await clock.advance(10_000);
  assertEquals(processes.started.length, 2);
  await end();
});

Deno.test("restarts the runtime for another version, and judges that version by its health", async () => {
  const { begin, clock, world, server, processes } = scene();
  const { end } = begin();
  await clock.advance(70_000);
  assertEquals(server.passes.at(-1)?.health, "healthy");
  assertEquals(server.passes.at(-1)?.running, BUILD.file);
  server.restart = true;
  server.state = { good: BUILD, trial: { build: BUILD, stage: "probation" } };
  world.url = undefined;
  await clock.advance(10_000);
  assertEquals([processes.started.length, server.passes.at(-1)?.health], [2, "starting"]);
  await clock.advance(15 * 60_000);
  assertEquals(server.passes.at(-1)?.health, "failed");
  await end();
});

Deno.test("a release stops a working runtime only in a maintenance window, or takes its next start", async () => {
  const { begin, clock, world, server, processes } = scene();
  const { end } = begin();
  await clock.advance(70_000);
  server.state = { good: BUILD, trial: { build: BUILD, stage: "verified" } };
  const may = async () => {
    await clock.advance(6_000);
    const { maySwitch, mayUpdate } = server.passes.at(-1)!;
    return [maySwitch, mayUpdate];
  };
  assertEquals(await may(), [true, false], "there is no window");
  Object.assign(world, { inWindow: true, restartAllowed: false });
  assertEquals(await may(), [false, false]);
  world.restartAllowed = undefined;
  assertEquals(await may(), [false, false], "it does not answer");
  world.restartAllowed = true;
  assertEquals(await may(), [true, true]);
  world.inWindow = false;
  processes.started[0].exit(1);
  await settle();
  const { running, mayUpdate } = server.passes.findLast(({ atStart }) => atStart)!;
  assertEquals([processes.started.length, running, mayUpdate], [2, undefined, true]);
  await end();
});

Deno.test("Agent: asks for restart orders as often as the cloud wants, and soon again after a failure", async () => {
  const { begin, clock, world } = scene();
  world.ordersEveryMs = 10 * 60_000;
  const { end } = begin();
  await clock.advance(60_000);
  const asked = world.ordersAsked;
  await clock.advance(8 * 60_000);
  assertEquals(world.ordersAsked, asked);
  world.orderFailure = new SvcError("unavailable", "nobody there");
  await clock.advance(3 * 60_000);
  assert(world.ordersAsked > asked + 3, `${world.ordersAsked - asked} times`);
  world.orderFailure = undefined;
  await clock.advance(60_000);
  const again = world.ordersAsked;
  await clock.advance(8 * 60_000);
  assertEquals(world.ordersAsked, again);
  await end();
});

Deno.test("a custom URL whose server does not answer delays no start of the runtime", async () => {
  const { begin, clock, server, processes } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  server.refresh = () => promise;
  await clock.advance(10_000);
  processes.started[0].exit(1);
  await settle();
  assertEquals(processes.started.length, 2);
  resolve();
  await end();
});

Deno.test("Agent: ends for its own update and leaves the runtime running", async () => {
  const { begin, clock, agent, processes } = scene();
  const { done } = begin();
  await clock.advance(10_000);
  agent.restart = true;
  await clock.advance(10_000);
  assertEquals(await done, "replaced");
  assertEquals([processes.started.length, processes.started[0].over], [1, false]);
});

Deno.test("Agent: a new agent version without contact to the cloud counts as failed", async () => {
  const { begin, clock, agent, world } = scene();
  world.answer = new SvcError("unavailable", "nobody there");
  const { end } = begin();
  await clock.advance(5 * 60_000);
  assertEquals(agent.passes.at(-1)?.health, "starting");
  await clock.advance(11 * 60_000);
  assertEquals(agent.passes.at(-1)?.health, "failed");
  world.answer = {};
  await clock.advance(30_000);
  assertEquals(agent.passes.at(-1)?.health, "healthy");
  await end();
});

Deno.test("reboots a device that is offline for long, less and less often", async () => {
  const { begin, clock, world } = scene();
  world.answer = sections({}, { device_reboot_after_offline_minutes: 10 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unavailable", "nobody there");
  await clock.advance(12 * 60_000);
  assertEquals([world.rebooted, world.reboots], [["offline for 10 minutes"], 1]);
  await clock.advance(7 * 60_000);
  assertEquals(world.rebooted.length, 1);
  await clock.advance(3 * 60_000);
  assertEquals(world.rebooted.length, 2);
  world.answer = {};
  await clock.advance(60_000);
  assertEquals(world.reboots, 0);
  await end();
});

Deno.test("an outage of the cloud reboots no device that its network connects", async () => {
  const { begin, clock, subject, world } = scene();
  world.answer = sections({}, { device_reboot_after_offline_minutes: 10 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unavailable", "nobody there");
  world.isConnected = true;
  await clock.advance(60 * 60_000);
  assertEquals([world.rebooted, subject.status.online], [[], false]);
  world.isConnected = false;
  await clock.advance(9 * 60_000);
  assertEquals(world.rebooted.length, 0);
  await clock.advance(2 * 60_000);
  assertEquals(world.rebooted.length, 1);
  await end();
});

Deno.test("an outage of the cloud reboots no device whose network answers, with or without a network service", async () => {
  const { begin, clock, world } = scene();
  world.answer = sections({}, { device_reboot_after_offline_minutes: 5 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unavailable", "cloud:443 answers 502");
  world.answers = "192.168.1.1";
  await clock.advance(2 * 60 * 60_000);
  assertEquals(world.rebooted, []);
  // The time counts from the last answer of the network, not from that of the cloud.
  world.answers = undefined;
  await clock.advance(4 * 60_000);
  assertEquals(world.rebooted, []);
  await clock.advance(2 * 60_000);
  assertEquals(world.rebooted, ["offline for 5 minutes"]);
  await end();
});

Deno.test("an offline device whose disk is full or that cannot reboot works on", async () => {
  const { begin, clock, subject, world, records } = scene();
  const logged = (text: string) => records.filter(({ message }) => message.includes(text)).length;
  world.answer = sections({}, { device_reboot_after_offline_minutes: 10 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unavailable", "nobody there");
  world.diskFull = true;
  await clock.advance(20 * 60_000);
  const { alive } = world;
  await clock.advance(60_000);
  assertEquals([world.rebooted, logged("a pass of the agent failed")], [[], 0]);
  assertEquals(logged("cannot count the reboots of an offline device"), 1, "told once");
  assert(world.alive > alive, "the watchdog gets its sign of life");
  Object.assign(world, { diskFull: false, rebootFails: true });
  await clock.advance(60_000);
  assertEquals([world.rebooted.length, world.reboots, logged("systemctl reboot failed")], [2, 2, 2]);
  // Online again, and the disk does not take it.
  world.diskFull = true;
  world.answer = sections({ viam_server_env: { A: "1" } });
  await clock.advance(60_000);
  assertEquals([subject.status.online, world.reboots], [true, 2]);
  assertEquals(world.applied.at(-1)?.advanced.runtimeEnv, { A: "1" }, "what the cloud wants is used");
  await end();
});

Deno.test("an outage and a bad setting that come back are logged again", async () => {
  const { begin, clock, world, records } = scene();
  const good = sections({});
  const bad = sections({ viam_server_start_timeout_minutes: "soon" });
  const logged = (text: string) => records.filter(({ message }) => message.includes(text)).length;
  const { end } = begin();
  for (let time = 1; time <= 2; time++) {
    world.answer = new SvcError("unavailable", "nobody there");
    await clock.advance(5 * 60_000);
    assertEquals(logged("the cloud does not answer: nobody there"), time);
    for (const answer of [bad, bad, good]) {
      world.answer = answer;
      await clock.advance(2 * 60_000);
    }
    assertEquals(logged("viam_server_start_timeout_minutes"), time);
  }
  await end();
});

Deno.test("a cloud that refuses the machine is no reason for a reboot", async () => {
  const { begin, clock, subject, world, records } = scene();
  world.answer = sections({}, { device_reboot_after_offline_minutes: 10 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unauthenticated", "the key is revoked");
  await clock.advance(30 * 60_000);
  world.answer = new SvcError("resource_exhausted", "too many wrong keys");
  await clock.advance(30 * 60_000);
  assertEquals([world.rebooted, subject.status.online, subject.status.refused], [[], false, true]);
  const logged = (text: string) => records.filter(({ message }) => message.includes(text)).length;
  assertEquals([logged("the cloud refuses this device: the key is revoked"), logged("does not answer")], [
    1,
    0,
  ]);
  world.answer = new SvcError("unavailable", "nobody there");
  await clock.advance(12 * 60_000);
  assertEquals(world.rebooted.length, 1);
  await end();
});

Deno.test("other credentials are used when the cloud refuses those in use, and the runtime allows it", async () => {
  const { begin, clock, processes, world } = scene();
  const { done } = begin();
  let end: string | undefined;
  void done.then((how) => end = how);
  world.hasOthers = true;
  await clock.advance(70_000);
  assertEquals(end, undefined, "those in use are good");
  world.answer = new SvcError("unauthenticated", "the key is revoked");
  world.restartAllowed = false;
  await clock.advance(70_000);
  assertEquals(end, undefined);
  world.restartAllowed = true;
  await clock.advance(10_000);
  assertEquals([end, processes.started.length, processes.started[0].over], ["renewed", 1, true]);
});

Deno.test("Agent: in dev mode does not reboot the device", async () => {
  const { begin, clock, world, records } = scene({ devMode: true });
  world.answer = sections({}, { device_reboot_after_offline_minutes: 3 });
  const { end } = begin();
  await clock.advance(10_000);
  world.answer = new SvcError("unavailable", "nobody there");
  await clock.advance(60 * 60_000);
  assertEquals([world.rebooted, world.reboots], [[], 0]);
  assertEquals(records.filter(({ message }) => message.includes("in dev mode")).length, 1);
  await end();
});

Deno.test("a device may be interrupted when the runtime says so, and when none runs", async () => {
  const { begin, subject, clock, world } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  const may = [];
  for (const allowed of [false, undefined, true]) {
    world.restartAllowed = allowed;
    may.push(await subject.mayInterrupt());
  }
  assertEquals(may, [false, false, true]);
  world.restartAllowed = undefined;
  world.answer = sections({ disable_viam_server: true });
  await clock.advance(60_000);
  assertEquals([subject.status.runtime.phase, await subject.mayInterrupt()], ["stopped", true]);
  await end();
});

Deno.test("Agent: the status lists problems of settings, versions and the system", async () => {
  const { begin, subject, clock, world, records } = scene();
  world.answer = {
    ...sections({ viam_server_start_timeout_minutes: "x" }),
    additionalNetworks: { home: { type: "wifi" }, lan: { type: "wired", priority: 1000 } },
    versionProblems: ['svc-server: there is no release "9.9.9"'],
  };
  world.unable = new SvcError("unimplemented", 'found "arch"');
  const { end } = begin();
  await clock.advance(10_000);
  const starts = [
    "error: cloud.advanced_settings.viam_server_start_timeout_minutes: ",
    "error: cloud.additional_networks.home.ssid: ",
    "error: cloud.additional_networks.lan.priority: ",
    'error: version_control: svc-server: there is no release "9.9.9"',
    'error: system: found "arch"',
  ];
  const { problems } = subject.status;
  assertEquals(
    problems.map((one, at) => one.startsWith(starts[at])),
    starts.map(() => true),
    problems.join("\n"),
  );
  const logged = () => records.filter(({ message }) => message.startsWith("svc-server: there is no release"));
  assertEquals(logged().map(({ level }) => level), ["warn"], "the device's own log has it, once");
  world.answer = sections({});
  world.unable = undefined;
  await clock.advance(6 * 60_000);
  assertEquals(subject.status.problems, []);
  await end();
});

Deno.test("Agent: with --wait starts nothing until the cloud answers or a minute passes", async () => {
  const waiting = scene({ waitForUpdate: true });
  waiting.world.answer = new SvcError("unavailable", "nobody there");
  const { end } = waiting.begin();
  await waiting.clock.advance(50_000);
  assertEquals(waiting.processes.started.length, 0);
  await waiting.clock.advance(12_000);
  assertEquals(waiting.processes.started.length, 1);
  await end();

  const behind = scene({ waitForUpdate: true });
  const downloads: string[] = [];
  behind.server.idle = () => {
    const stage = (["downloaded", "verified", "switched"] as const)[downloads.length];
    if (stage) behind.server.state = { trial: { build: BUILD, stage } };
    return Promise.resolve(void downloads.push(stage ?? "nothing"));
  };
  const begun = behind.begin();
  await behind.clock.advance(1_000);
  assertEquals([downloads.at(-1), behind.processes.started.length], ["nothing", 1]);
  await begun.end();

  const slow = scene({ waitForUpdate: true });
  slow.server.idle = () => new Promise(() => {});
  const waits = slow.begin();
  for (let minute = 0; minute < 9; minute++) {
    const { alive } = slow.world;
    await slow.clock.advance(60_000);
    assert(slow.world.alive > alive, "the watchdog leaves a slow download alone");
  }
  assertEquals(slow.processes.started.length, 0);
  await waits.end();

  const updating = scene({ waitForUpdate: true });
  updating.agent.restart = true;
  const { done } = updating.begin();
  await updating.clock.advance(1_000);
  assertEquals([await done, updating.processes.started.length], ["replaced", 0]);
});

Deno.test("Agent.rollback: asks the updater of svc-server to go back", async () => {
  const { begin, subject, clock, server } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  await subject.rollback("svc-server");
  assertEquals(server.backs.length, 1);
  await end();
});

Deno.test("Agent: polls rarely while the cloud announces changes, and hears of releases and orders at once", async () => {
  const { begin, clock, world, changes, processes } = scene();
  changes.open();
  const { end } = begin();
  await clock.advance(70_000);
  const { length } = world.asked;
  await clock.advance(20 * 60_000);
  assertEquals(world.asked.length, length);
  for (const news of ["config", "release"] as const) {
    changes.tell(news);
    await clock.advance(6_000);
  }
  assertEquals(world.asked.length, length + 2);
  world.mustRestart = true;
  changes.tell("restart");
  await clock.advance(1_000);
  assertEquals(processes.started.length, 2);
  changes.end();
  await clock.advance(5 * 60_000);
  assert(world.asked.length >= length + 6, "without announcements it polls at the cloud's interval");
  await end();
});

Deno.test("Agent: a cloud that hangs holds up neither the runtime nor the status", async () => {
  const { begin, subject, clock, world, processes } = scene();
  const { end } = begin();
  await clock.advance(10_000);
  world.hangs = true;
  await clock.advance(60_000);
  const { alive } = world;
  processes.started[0].exit(1);
  await clock.advance(10_000);
  assertEquals([processes.started.length, subject.status.runtime.phase], [2, "running"]);
  assert(world.alive >= alive + 2, "passes go on");
  await end();
});

Deno.test("a version of the agent that found no cloud is forgiven if the one before it finds none, either", async () => {
  for (const outage of [true, false]) {
    const { begin, clock, world, agent } = scene({ ownFile: BUILD.file });
    if (outage) world.answer = new SvcError("unavailable", "the control plane is away");
    const { end } = begin();
    await clock.advance(170_000);
    assertEquals(agent.forgiven, []);
    await clock.advance(60_000);
    const wanted = outage ? ["it did not reach the cloud within 15 minutes"] : [];
    assertEquals([...new Set(agent.forgiven)], wanted);
    await end();
  }

  // It is the refused one itself, about to be replaced.
  const { begin, clock, world, agent } = scene({ ownFile: "svc-agent-2.0.0-b" });
  world.answer = new SvcError("unavailable", "the control plane is away");
  const { end } = begin();
  await clock.advance(240_000);
  assertEquals(agent.forgiven, []);
  await end();
});
