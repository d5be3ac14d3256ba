/**
 * `deno task soak [HOURS (8)] [HASTE (30)]`: hours of a machine's life in minutes, in which nothing may grow.
 *
 * The machine runs in a process of its own, on a clock that is HASTE times as fast. It captures data and diagnostics, and
 * is reconfigured all the while; for half of each hour it maps a building. Clients come and go over gRPC and WebRTC,
 * call, and take pictures and point clouds. At the end of each hour everything but the demo machine is taken away, and
 * what the process holds is measured after a garbage collection. The first hour warms it up. At the end the captures of
 * diagnostics are read.
 *
 * Exit code 0: nothing has grown; 1: something has, or a capture cannot be read; 2: wrong arguments.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { decodeCapture } from "../../lib/machine/diagnostics/ftdc_format.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { ArmService } from "../../proto/gen/arm_pb.ts";
import { BaseService } from "../../proto/gen/base_pb.ts";
import { BoardService } from "../../proto/gen/board_pb.ts";
import { CameraService } from "../../proto/gen/camera_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SLAMService } from "../../proto/gen/slam_pb.ts";
import { writeConfig } from "../support/server.ts";
import { until } from "../support/until.ts";
import type { SoakState } from "./machine.ts";

const ROOT = new URL("../../", import.meta.url);
const HOUR_MS = 3_600_000;
/** How much there may be, given what there was. */
const GROWTH = {
  heapBytes: (before: number) => 1.05 * before,
  residentBytes: (before: number) => 1.05 * before,
  // Some happen to be in use at rest; one lost at each change would make hundreds.
  handles: (before: number) => before + 5,
  timers: (before: number) => before + 5,
};
const GRPC_CALLERS = 4;
const WEBRTC_CALLERS = 2;
const CALLS_OF_A_CLIENT = 20;
const CHANGE_EVERY_MS = 500;
/** On the machine's clock, too, it is seconds. */
const CALL = { timeoutMs: 300_000 };
const BAR = 40;
const clock = new SystemClock();

interface Config {
  readonly components: readonly Record<string, unknown>[];
  readonly services: readonly Record<string, unknown>[];
}

interface Machine {
  readonly host: string;
  state(): Promise<SoakState>;
  stop(): Promise<void>;
}

async function readExample(name: string): Promise<Config> {
  const text = await Deno.readTextFile(new URL(`examples/${name}`, ROOT));
  return JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, ""));
}

/** The demo machine, which captures data. */
function capturing({ components, services }: Config, folder: string): Config {
  const capture = (method: string, hz: number) => ({
    type: "data_manager",
    attributes: { capture_methods: [{ method, capture_frequency_hz: hz }] },
  });
  const captures: Record<string, unknown> = {
    camera1: capture("GetImages", 0.02),
    encoder1: capture("TicksCount", 1),
    arm1: capture("JointPositions", 1),
  };
  return {
    components: components.map((one) => {
      const captured = captures[String(one.name)];
      return captured ? { ...one, service_configs: [captured] } : one;
    }),
    services: [...services, {
      name: "data",
      api: "rdk:service:data_manager",
      model: "builtin",
      attributes: { capture_dir: folder, sync_disabled: true, maximum_capture_dir_bytes: 2_000_000 },
    }],
  };
}

async function startMachine(configPath: string, home: string, haste: number): Promise<Machine> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", "--v8-flags=--expose-gc"],
      new URL("machine.ts", import.meta.url).pathname,
      configPath,
      String(haste),
    ],
    env: { SVC_HOME: home },
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = child.stdin.getWriter();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const line = async () => {
    let text = "";
    while (!text.endsWith("\n")) {
      const { value } = await reader.read();
      if (value === undefined) throw new Error("the machine has ended");
      text += value;
    }
    return text.trim();
  };
  // Whatever waits for it would only see lost connections.
  let stops = false;
  void child.status.then(({ code, signal }) => {
    if (stops) return;
    console.error(`soak: the machine ended by itself (${signal ?? `exit code ${code}`})`);
    Deno.exit(1);
  });
  const host = new URL(await line()).host;
  return {
    host,
    state: async () => {
      await writer.write(new TextEncoder().encode("\n"));
      return JSON.parse(await line());
    },
    stop: async () => {
      stops = true;
      await writer.close();
      await child.status;
      await reader.cancel();
    },
  };
}

/** Changes a machine's configuration, and calls it, until it is asked to rest. */
class Load {
  calls = 0;
  failed = 0;
  /** Clients that have connected, by their way. */
  readonly clients = { grpc: 0, webrtc: 0 };
  changes = 0;

  constructor(
    private readonly machine: Machine,
    private readonly configPath: string,
    private readonly base: Config,
    private readonly mapping: Config,
  ) {}

  async run(durationMs: number): Promise<void> {
    const over = new AbortController();
    const halfMs = clock.monotonicMs() + durationMs / 2;
    const cancel = clock.after(durationMs, () => over.abort());
    const callers = [
      ...Array.from(
        { length: GRPC_CALLERS },
        () => this.#callAway("grpc", over.signal, (grpc) => Promise.resolve(grpc)),
      ),
      ...Array.from(
        { length: WEBRTC_CALLERS },
        () =>
          this.#callAway(
            "webrtc",
            over.signal,
            (signaling) => dialWebRtc({ signaling, host: this.machine.host, clock }),
          ),
      ),
    ];
    while (!over.signal.aborted) {
      await this.#change(clock.monotonicMs() < halfMs);
      await clock.sleep(CHANGE_EVERY_MS, over.signal).catch(() => {});
    }
    await Promise.all(callers);
    cancel();
  }

  /** Takes away everything but the machine itself. */
  rest(): Promise<void> {
    return this.#apply(this.base);
  }

  async #change(maps: boolean): Promise<void> {
    const extras = Array.from({ length: this.changes % 20 }, (_, index) => ({
      name: `extra${index}`,
      api: "rdk:component:generic",
      model: "fake",
      attributes: { changes: this.changes },
      depends_on: index === 0 ? ["board1"] : [`extra${index - 1}`],
    }));
    const [board, ...others] = this.base.components;
    const analogs = [{ name: `analog${this.changes % 3}`, pin: "0" }];
    const changed = { ...board, attributes: { ...board.attributes as object, analogs } };
    const added = maps ? this.mapping : { components: [], services: [] };
    await this.#apply({
      components: [changed, ...others, ...extras, ...added.components],
      services: [...this.base.services, ...added.services],
    });
  }

  async #apply(config: Config): Promise<void> {
    const revision = `r${++this.changes}`;
    const network = { bind_address: "localhost:0" };
    await Deno.writeTextFile(this.configPath, JSON.stringify({ ...config, network, revision }));
    // On its clock the machine waits less than a second for the first bytes of a connection.
    const hasIt = async () => {
      const channel = connectGrpc(this.machine.host, { clock });
      try {
        const { config } = await client(RobotService, channel).getMachineStatus({}, CALL);
        return config?.revision === revision;
      } catch {
        return false;
      } finally {
        channel.close();
      }
    };
    await until(hasIt, { withinMs: 120_000 });
  }

  /** One client after another: connects, calls, streams a little, goes. */
  async #callAway(
    way: "grpc" | "webrtc",
    signal: AbortSignal,
    connect: (grpc: Channel) => Promise<Channel>,
  ): Promise<void> {
    while (!signal.aborted) {
      const grpc = connectGrpc(this.machine.host, { clock });
      let channel: Channel | undefined;
      try {
        channel = await connect(grpc);
        this.clients[way]++;
        for (let turn = 0; turn < CALLS_OF_A_CLIENT && !signal.aborted; turn++) {
          await this.#call(channel, turn);
        }
      } catch {
        this.failed++;
      } finally {
        channel?.close();
        grpc.close();
      }
    }
  }

  async #call(channel: Channel, turn: number): Promise<void> {
    const board = client(BoardService, channel);
    const camera = client(CameraService, channel);
    const all = [
      client(RobotService, channel).getMachineStatus({}, CALL),
      board.setPWM({ name: "board1", pin: "13", dutyCyclePct: 0.5 }, CALL),
      client(ArmService, channel).moveToJointPositions(
        { name: "arm1", positions: { values: [0, turn, 0, 0, 0, 0] } },
        CALL,
      ),
      takeSome(board.streamTicks({ name: "board1", pinNames: ["encoder-a"] }, CALL)),
      camera.getImages({ name: "camera1" }, CALL),
      camera.getPointCloud({ name: "camera1", mimeType: "pointcloud/pcd" }, CALL),
      // There for half of each hour.
      client(BaseService, channel).setVelocity({
        name: "rover",
        linear: { x: 0, y: 300, z: 0 },
        angular: { x: 0, y: 0, z: 60 * Math.random() - 30 },
      }, CALL),
      client(SLAMService, channel).getPosition({ name: "slam" }, CALL),
    ];
    // While a resource is built anew its calls fail; that is part of the exercise.
    for (const { status } of await Promise.allSettled(all)) {
      if (status === "fulfilled") this.calls++;
      else this.failed++;
    }
  }
}

async function takeSome(ticks: AsyncIterable<unknown>): Promise<void> {
  let seen = 0;
  for await (const _ of ticks) if (++seen > 2) return;
}

/** What has grown from the former half of the hours to the latter, without the first one, in which it warms up. */
function grown(states: readonly SoakState[]): string[] {
  const warm = states.length > 2 ? states.slice(1) : states;
  const half = Math.floor(warm.length / 2);
  const grows = (name: keyof typeof GROWTH) => {
    const mean = (some: readonly SoakState[]) => some.reduce((sum, one) => sum + one[name], 0) / some.length;
    return mean(warm.slice(half)) > GROWTH[name](mean(warm.slice(0, half)));
  };
  return (Object.keys(GROWTH) as (keyof typeof GROWTH)[]).filter(grows);
}

/** How much of the machine's time its captures of diagnostics hold. */
async function readCaptures(
  home: string,
): Promise<{ readonly samples: number; readonly hours: number; readonly damaged: number }> {
  const folder = `${home}/diagnostics.data/local-config`;
  let [samples, damaged] = [0, 0];
  let [firstMs, lastMs] = [Infinity, -Infinity];
  for (const { name } of Deno.readDirSync(folder)) {
    if (!name.endsWith(".jsonl.gz")) continue;
    const capture = decodeCapture(await Deno.readFile(`${folder}/${name}`));
    samples += capture.timesMs.length;
    damaged += capture.damaged;
    firstMs = Math.min(firstMs, capture.timesMs[0] ?? Infinity);
    lastMs = Math.max(lastMs, capture.timesMs.at(-1) ?? -Infinity);
  }
  return { samples, hours: (lastMs - firstMs) / HOUR_MS, damaged };
}

function plot(states: readonly SoakState[]): void {
  for (const name of ["heapBytes", "residentBytes"] as const) {
    const most = Math.max(...states.map((state) => state[name]));
    console.log(`\n${name === "heapBytes" ? "heap" : "resident memory"}, hour by hour`);
    for (const [at, state] of states.entries()) {
      const bar = "#".repeat(Math.round(BAR * state[name] / most));
      console.log(`${String(at + 1).padStart(3)}  ${bar.padEnd(BAR)}  ${(state[name] / 1e6).toFixed(1)} MB`);
    }
  }
}

async function soak(hours: number, haste: number): Promise<boolean> {
  const folder = await Deno.makeTempDir({ prefix: "svc-soak-" });
  const base = capturing(await readExample("demo.json"), `${folder}/capture`);
  const configPath = await writeConfig({ ...base });
  const machine = await startMachine(configPath, folder, haste);
  const states: SoakState[] = [];
  const load = new Load(machine, configPath, base, await readExample("mapping.json"));
  try {
    for (let hour = 1; hour <= hours; hour++) {
      await load.run(HOUR_MS / haste);
      await load.rest();
      await clock.sleep(3_000);
      const state = await machine.state();
      states.push(state);
      const { heapBytes, residentBytes, handles, timers } = state;
      console.log(
        `hour ${hour}: ${(heapBytes / 1e6).toFixed(1)} MB heap, ${
          (residentBytes / 1e6).toFixed(0)
        } MB resident, ` +
          `${handles} handles, ${timers} timers (so far ${load.changes} changes, ${load.clients.grpc} clients over gRPC and ` +
          `${load.clients.webrtc} over WebRTC, ` +
          `${load.calls} calls, ${load.failed} failed)`,
      );
    }
  } catch (error) {
    // Lost connections may be all that shows its end so far.
    await clock.sleep(1_000);
    throw error;
  } finally {
    await machine.stop();
    await Deno.remove(configPath);
  }

  plot(states);
  const captures = await readCaptures(folder);
  await Deno.remove(folder, { recursive: true });
  console.log(
    `\ncaptures of diagnostics: ${captures.samples} samples over ${captures.hours.toFixed(1)} hours, ` +
      `${captures.damaged} damaged parts`,
  );
  const missing = Object.entries(load.clients).filter(([, count]) => count === 0).map(([way]) => way);
  if (missing.length > 0) console.log(`no client connected over ${missing.join(" and ")}`);
  const more = grown(states);
  console.log(more.length === 0 ? "nothing has grown" : `grown: ${more.join(", ")}`);
  return more.length + missing.length === 0 && captures.damaged === 0 && captures.samples > 0;
}

const [hours, haste] = [8, 30].map((usual, at) => Number(Deno.args[at] ?? usual));
if (!(Number.isInteger(hours) && hours >= 2 && haste >= 1 && haste <= 100)) {
  console.error(`soak: found "${Deno.args.join(" ")}", wanted hours (2 or more) and a haste (1 to 100)`);
  Deno.exit(2);
}
Deno.exit(await soak(hours, haste) ? 0 : 1);
