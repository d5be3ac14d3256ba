/**
 * `deno task soak [MINUTES]`: one machine and its clients in one process, reconfigured and called without a pause
 * for ten minutes (or as many as are given); then nothing may have grown.
 *
 * Measured at rest, after a garbage collection: the heap (which holds listeners, too), open file handles and
 * timers that are set. The first measurement follows a warm-up. Exit code 0: no growth, 1: growth, with the figures.
 */

import { MODELS } from "../drivers/mod.ts";
import { APIS } from "../lib/api/mod.ts";
import { type Clock, SystemClock } from "../lib/base/clock.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { Logs } from "../lib/base/log/log.ts";
import { startRuntime } from "../lib/machine/runtime.ts";
import { Registry } from "../lib/resource/registry.ts";
import { client } from "../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { ArmService } from "../proto/gen/arm_pb.ts";
import { BoardService } from "../proto/gen/board_pb.ts";
import { RobotService } from "../proto/gen/robot_pb.ts";
import { writeConfig } from "./support/server.ts";

/** Counts the timers that are set. */
class CountingClock implements Clock {
  pending = 0;
  readonly #clock = new SystemClock();

  nowMs(): number {
    return this.#clock.nowMs();
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.pending++;
    return this.#clock.sleep(ms, signal).finally(() => this.pending--);
  }

  after(ms: number, run: () => void): () => void {
    let set = true;
    const done = () => {
      if (set) this.pending--;
      set = false;
    };
    this.pending++;
    const cancel = this.#clock.after(ms, () => {
      done();
      run();
    });
    return () => {
      done();
      cancel();
    };
  }
}

interface Figures {
  readonly heapBytes: number;
  readonly handles: number;
  readonly timers: number;
}

const ROUNDS = 6;
const HEAP_GROWTH_MAX = 0.1;
/** Handles and timers that may happen to be in use at rest; one lost at each change would make hundreds. */
const COUNT_GROWTH_MAX = 5;
const CALLERS = 8;

const minutes = Number(Deno.args[0] ?? 10);
if (!(minutes > 0 && minutes <= 120)) {
  console.error(`soak: found "${Deno.args[0]}", wanted a number of minutes up to 120`);
  Deno.exit(2);
}

const host = new DenoHost();
const clock = new CountingClock();
const logs = new Logs(clock, []);
const demo = JSON.parse(await Deno.readTextFile(new URL("../examples/demo.json", import.meta.url)));
const configPath = await writeConfig({ ...demo, network: {} });
const runtime = await startRuntime(
  {
    configPath,
    debug: false,
    noTls: false,
    showConfigDiffs: false,
    diagnostics: { ftdc: false, webProfile: false, telemetry: false },
    stop: () => {},
  },
  { registry: new Registry(APIS, MODELS), host, clock, logs, version: "0.0.0" },
);
await runtime.ready;

const figures: Figures[] = [];
let calls = 0;
let changes = 0;
for (let round = 0; round <= ROUNDS; round++) {
  await load(minutes * 60_000 / (ROUNDS + 1));
  figures.push(await atRest());
  const { heapBytes, handles, timers } = figures[round];
  const label = round === 0 ? "warm-up" : `round ${round}`;
  console.log(
    `${label.padEnd(10)}${(heapBytes / 1e6).toFixed(2)} MB heap  ${handles} handles  ${timers} timers  ` +
      `(${changes} changes, ${calls} calls so far)`,
  );
}
await runtime.close();
await Deno.remove(configPath);

const [first, last] = [figures[0], figures[ROUNDS]];
const grown = [
  last.heapBytes > first.heapBytes * (1 + HEAP_GROWTH_MAX) ? "heap" : "",
  last.handles > first.handles + COUNT_GROWTH_MAX ? "handles" : "",
  last.timers > first.timers + COUNT_GROWTH_MAX ? "timers" : "",
].filter((name) => name !== "");
console.log(grown.length === 0 ? "no growth" : `grown: ${grown.join(", ")}`);
Deno.exit(grown.length === 0 ? 0 : 1);

/** Calls from several connections and changes the configuration all the while. */
async function load(durationMs: number): Promise<void> {
  const ending = new AbortController();
  const cancel = clock.after(durationMs, () => ending.abort());
  const callers = Array.from({ length: CALLERS }, () => callAway(ending.signal));
  while (!ending.signal.aborted) await change();
  await Promise.all(callers);
  cancel();
}

/** One client after another: connects, calls, streams a little, goes. */
async function callAway(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const channel = connectGrpc(new URL(runtime.url).host, { clock });
    const robot = client(RobotService, channel);
    const board = client(BoardService, channel);
    const arm = client(ArmService, channel);
    for (let turn = 0; turn < 50 && !signal.aborted; turn++) {
      // While a resource is rebuilt its calls fail; that is part of the exercise.
      await Promise.allSettled([
        robot.getMachineStatus({}),
        board.setPWM({ name: "board1", pin: "13", dutyCyclePct: 0.5 }),
        arm.moveToJointPositions({ name: "arm1", positions: { values: [0, turn, 0, 0, 0, 0] } }),
        tick(board.streamTicks({ name: "board1", pinNames: ["encoder-a"] }, { timeoutMs: 100 })),
      ]);
      calls += 4;
    }
    channel.close();
  }
}

async function tick(ticks: AsyncIterable<unknown>): Promise<void> {
  let seen = 0;
  for await (const _ of ticks) if (++seen > 2) return;
}

/** Rewrites the file with another set of resources and waits until the machine has it. */
async function change(): Promise<void> {
  const revision = `r${++changes}`;
  const extras = Array.from({ length: changes % 20 }, (_, index) => ({
    name: `extra${index}`,
    api: "rdk:component:generic",
    model: "fake",
    attributes: { changes },
    depends_on: index === 0 ? ["board1"] : [`extra${index - 1}`],
  }));
  const [board, ...others] = demo.components;
  const attributes = { ...board.attributes, analogs: [{ name: `analog${changes % 3}`, pin: "0" }] };
  const components = [{ ...board, attributes }, ...others, ...extras];
  const network = { bind_address: "localhost:0" };
  await Deno.writeTextFile(configPath, JSON.stringify({ ...demo, components, network, revision }));
  while (runtime.machine.config?.revision !== revision) await clock.sleep(5);
}

async function atRest(): Promise<Figures> {
  await clock.sleep(3_000);
  (globalThis as { gc?: () => void }).gc?.();
  const handles = [...Deno.readDirSync("/proc/self/fd")].length;
  return { heapBytes: Deno.memoryUsage().heapUsed, handles, timers: clock.pending };
}
