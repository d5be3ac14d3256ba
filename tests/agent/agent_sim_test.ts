/**
 * The agent and its runtime on a computer under load: every disk access, request and download takes time, while
 * releases appear, processes die and agents restart.
 *
 * In every history a process stops for another version only if that version starts then, and a working runtime stops
 * only for a version that somebody asked for, or in a maintenance window; in the end the wanted version runs.
 * `SVC_SIM_SEEDS=2000` runs more, `SVC_SIM_SEED=17` repeats one.
 */

import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { DeviceAgentConfigResponseSchema } from "../../proto/gen/agent_pb.ts";
import { Agent } from "../../lib/agent/agent.ts";
import { computeSha256 } from "../../lib/base/download/http_download.ts";
import { fileNameOf } from "../../lib/agent/update/release.ts";
import { OfflineReboots } from "../../lib/agent/supervise/offline.ts";
import { RuntimeProcess } from "../../lib/agent/supervise/runtime.ts";
import { UpdateRecord } from "../../lib/agent/update/record.ts";
import { Updater } from "../../lib/agent/update/updater.ts";
import { toDuration } from "../../lib/api/shared/time.ts";
import { FakeClock } from "../support/fake_clock.ts";
import type { Files } from "../../lib/base/files/files.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type FakeProcess, FakeProcesses } from "../support/fake_processes.ts";
import { type LogRecord, Logs } from "../../lib/base/log/log.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { FakeFiles } from "../support/fake_files.ts";
import type { Fetcher } from "../../lib/agent/update/fetcher.ts";

const SEEDS = Number(Deno.env.get("SVC_SIM_SEEDS") ?? 25);
const ONE = Deno.env.get("SVC_SIM_SEED");
const BASE = "/opt/svc";
const EVENTS = 8;
const FOR_A_VERSION = "svc-server is stopped: another version is to run";
/** A process that has run for this long, and answers, works. */
const PROVED_MS = 120_000;
/** Of 10 ms. */
const PATIENCE_TURNS = 1_000;
const ON_ITS_WAY_MS = 60_000;

Deno.test("on a slow computer svc-agent starts no version twice and stops no working version for a release", async () => {
  const seeds = ONE === undefined ? Array.from({ length: SEEDS }, (_, seed) => seed) : [Number(ONE)];
  let [starts, updates] = [0, 0];
  for (const seed of seeds) {
    const run = new Run(seed);
    try {
      await run.run();
    } catch (cause) {
      const logged = run.history.slice(-60).join("\n");
      throw new Error(`seed ${seed} fails; again with SVC_SIM_SEED=${seed}. Its last steps:\n${logged}`, {
        cause,
      });
    }
    if (ONE !== undefined) console.log(run.history.join("\n"));
    starts += run.processes.started.length;
    updates += run.updates;
  }
  console.log(
    `${seeds.length} histories, ${starts} starts of svc-server, ${updates} of them for another version`,
  );
});

interface Began {
  readonly agent: Agent;
  readonly stop: AbortController;
  readonly done: Promise<unknown>;
}

class Run {
  readonly history: string[] = [];
  readonly processes: FakeProcesses;
  updates = 0;
  readonly #random: () => number;
  readonly #clock = new FakeClock();
  readonly #files: FakeFiles;
  readonly #wrong: string[] = [];
  #latest = 1;
  #pinned = false;
  #window = false;
  #environment = 0;
  /** Until then, earlier requests may still be under way. */
  #askedUntilMs = 0;
  /** The process that was stopped for another version, until the next one is started. */
  #stopped?: FakeProcess;
  readonly #startedMs = new Map<number, number>();

  constructor(seed: number) {
    this.#random = randomFrom(seed);
    this.#files = new FakeFiles(undefined, this.#random);
    this.processes = new FakeProcesses((process) => this.#started(process));
  }

  async run(): Promise<void> {
    this.#put("1.0.0");
    let began = await this.#begin();
    for (let event = 0; event < EVENTS; event++) {
      await this.#pass(this.#random() < 0.3 ? 2_000 * this.#random() : 200_000 * this.#random());
      const dice = this.#random();
      if (dice < 0.4) this.#release(this.#random() < 0.3);
      else if (dice < 0.5) this.#turn();
      else if (dice < 0.65) this.#crash();
      else if (dice < 0.75) this.#tell(`environment: ${++this.#environment}`);
      else began = await this.#again(began, this.#random() < 0.5);
    }
    this.#tell("the last start");
    await this.#pass(900_000);
    began = await this.#again(began, true);
    await this.#pass(300_000);
    const running = this.#running.map(({ command }) => command.command);
    assertEquals(running, [pathOf(`${this.#latest}.0.0`)]);
    await this.#end(began, true);
  }

  get #running(): FakeProcess[] {
    return this.processes.started.filter(({ over }) => !over);
  }

  async #pass(ms: number): Promise<void> {
    await this.#clock.advance(ms);
    assertEquals(this.#wrong, []);
  }

  #turn(): void {
    this.#askedUntilMs = this.#clock.monotonicMs() + ON_ITS_WAY_MS;
    this.#window = !this.#window;
    this.#tell(`window: ${this.#window}`);
  }

  #release(pinned: boolean): void {
    if (this.#pinned) this.#askedUntilMs = this.#clock.monotonicMs() + ON_ITS_WAY_MS;
    this.#latest++;
    this.#pinned = pinned;
    this.#tell(`${pinned ? "pinned" : "released"}: ${this.#latest}.0.0`);
  }

  /** A version dies once: one that dies again and again is rightly given up. */
  #crash(): void {
    const [process] = this.#running;
    if (!process || this.#died.has(process.command.command)) return;
    this.#died.add(process.command.command);
    this.#tell(`it dies: ${process.pid}`);
    process.exit(139);
  }
  readonly #died = new Set<string>();

  #put(version: string): void {
    this.#files.put(pathOf(version), bytesOf(version));
  }

  async #again(began: Began, together: boolean): Promise<Began> {
    this.#tell(together ? "the service is started again" : "the agent is started again");
    await this.#end(began, together);
    return await this.#begin();
  }

  async #end({ agent, stop, done }: Began, together: boolean): Promise<void> {
    if (!together) this.#leave(agent);
    stop.abort(new SvcError("canceled", "the test stops it"));
    await this.#inTime(done);
  }

  /** Like a kill: its processes keep running. */
  #leave(agent: Agent): void {
    this.#runtimes.get(agent)!.leave();
  }
  readonly #runtimes = new Map<Agent, RuntimeProcess>();

  async #begin(): Promise<Began> {
    const records = (record: LogRecord) => this.#heard(record);
    const logger = new Logs(this.#clock, [records]).logger("svc-agent");
    const files = this.#files;
    files.late = () => this.#late(30);
    const updaters = { agent: this.#updater("svc-agent", files), server: this.#updater("svc-server", files) };
    if (this.#startedMs.size === 0) {
      await this.#inTime(updaters.server.open());
      await this.#inTime(updaters.server.install(fileOf("1.0.0"), "1.0.0"));
    }
    const probe = {
      serving: async () => {
        await this.#late(50);
        return this.#running.length > 0 ? "http://localhost:8080" : undefined;
      },
      restartStatus: async () => {
        await this.#late(200);
        return { restartAllowed: true, inWindow: this.#window, handledByAgent: true };
      },
    };
    const host = new FakeFiles();
    host.late = () => this.#late(20);
    let runtime!: RuntimeProcess;
    const agent = new Agent({
      rareMs: 30 * 60_000,
      options: { base: BASE, defaultsPath: "/d.json", version: "1.0.0", debug: false, leavesRuntime: true },
      device: { platform: "linux/amd64", distro: "", tags: [], problems: [] },
      cloud: {
        deviceAgentConfig: async () => {
          await this.#late(1000);
          return this.#answer();
        },
        needsRestart: () => Promise.resolve({ mustRestart: false, intervalMs: 3600_000 }),
      },
      hasOthers: () => Promise.resolve(false),
      ...{ updaters, probe, host, logger, subsystems: [], clock: this.#clock },
      runtime: (settings, boots, changed) => {
        const folders = { base: BASE, run: "/run/svc" };
        const parts = { ...folders, args: [], boots, probe, host, logger, errors: logger, changed };
        const { processes } = this;
        return runtime = new RuntimeProcess({ ...parts, processes, clock: this.#clock }, settings);
      },
      offline: new OfflineReboots({
        ...{ clock: this.#clock, logger, evidence: () => Promise.resolve(undefined) },
        reboot: () => Promise.resolve(),
        reboots: { get: () => Promise.resolve(0), set: () => Promise.resolve() },
      }),
      alive: () => {},
      configureLogs: () => {},
      random: this.#random,
    });
    const stop = new AbortController();
    const done = agent.run(stop.signal);
    await this.#pass(20 * this.#random());
    while (!runtime) await this.#pass(10);
    this.#runtimes.set(agent, runtime);
    return { agent, stop, done };
  }

  #updater(name: "svc-agent" | "svc-server", files: Files): Updater {
    const fetcher: Fetcher = {
      withheld: () => Promise.resolve(undefined),
      fetch: async ({ version, key }, _, signal) => {
        await this.#late(20_000, signal);
        this.#put(version);
        const bytes = bytesOf(version);
        return { version, key, file: fileOf(version), sha256: sumOf(bytes), sizeBytes: bytes.length };
      },
      stamp: () => Promise.resolve(undefined),
      clean: () => Promise.resolve([]),
    };
    const sumsOf = (path: string) => computeSha256(files, path);
    return new Updater({
      ...{ name, files, fetcher, clock: this.#clock, manages: true, random: this.#random },
      record: new UpdateRecord({ name, base: BASE, run: "/run/svc", files, sumOf: sumsOf }),
      checker: { check: (_path, _build, signal) => this.#late(5_000, signal) },
      logger: new Logs(this.#clock, [(record) => this.#tell(`  ${record.message}`)]).logger("updates"),
    });
  }

  #answer() {
    const version = `${this.#latest}.0.0`;
    const sha256 = createHash("sha256").update(bytesOf(version)).digest();
    return create(DeviceAgentConfigResponseSchema, {
      checkInterval: toDuration(10_000),
      viamServerUpdateInfo: { version, url: `http://cloud/${version}`, sha256, pinned: this.#pinned },
      advancedSettings: { viam_server_env: { TIMES: String(this.#environment) } },
    });
  }

  /** Takes a random time up to `ms`. */
  async #late(ms: number, signal?: AbortSignal): Promise<void> {
    await this.#clock.sleep(ms * this.#random() ** 3, signal);
  }

  async #inTime(work: Promise<unknown>): Promise<void> {
    let over = false;
    const done = work.finally(() => over = true);
    for (let turns = 0; !over && turns < PATIENCE_TURNS; turns++) await this.#clock.advance(10);
    assert(over, "it takes longer than everything in it");
    await done;
  }

  #started(process: FakeProcess): void {
    if (this.#running.length > 1) this.#wrong.push("two run at once");
    this.#startedMs.set(process.pid, this.#clock.monotonicMs());
    this.#tell(`starts ${process.command.command.split("/").at(-1)}`);
    if (this.#stopped) {
      this.updates++;
      const same = this.#stopped.command.command === process.command.command;
      if (same) this.#wrong.push("it was stopped for another version, and started again with the same");
    }
    this.#stopped = undefined;
  }

  #heard({ message, fields }: LogRecord): void {
    this.#tell(`  ${message}`);
    if (message !== FOR_A_VERSION) return;
    const pid = Number(fields?.pid);
    this.#stopped = this.processes.started.find((process) => process.pid === pid);
    const ageMs = this.#clock.monotonicMs() - this.#startedMs.get(pid)!;
    if (ageMs < 1000) this.#wrong.push(`${pid} was stopped ${Math.round(ageMs)} ms after its start`);
    const asked = this.#window || this.#pinned || this.#clock.monotonicMs() < this.#askedUntilMs;
    if (asked || ageMs < PROVED_MS) return;
    this.#wrong.push(`${pid} worked, and was stopped for a version that nobody asked for`);
  }

  #tell(what: string): void {
    this.history.push(`${((this.#clock.monotonicMs() - 1.7e12) / 1000).toFixed(3)} ${what}`);
  }
}

const bytesOf = (version: string) => new TextEncoder().encode(`svc-server ${version}`);
const sumOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const fileOf = (version: string) => fileNameOf("svc-server", version, sumOf(bytesOf(version)));
const pathOf = (version: string) => `${BASE}/cache/${fileOf(version)}`;
