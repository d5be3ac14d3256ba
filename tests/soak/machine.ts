/**
 * The machine of `deno task soak`: `machine.ts CONFIG HASTE`, one svc-server in a process of its own, whose time passes
 * HASTE times as fast.
 *
 * It prints its address. For each line of its input it prints, at rest and after a garbage collection, what it holds, as
 * JSON. It ends with its input.
 */

import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { startRuntime } from "../../lib/machine/runtime.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { FastClock } from "../support/fast_clock.ts";

/** What the machine holds at rest. */
export interface SoakState {
  /** The revision of its configuration. */
  readonly revision: string;
  readonly heapBytes: number;
  readonly residentBytes: number;
  /** Open files and sockets. */
  readonly handles: number;
  /** Timers that are set. */
  readonly timers: number;
}

/** Counts the timers that are set, on a clock with a time of day that passes as fast as the rest. */
class SoakClock extends FastClock {
  timers = 0;
  readonly #beganMs = Date.now();
  readonly #beganMonotonicMs = this.monotonicMs();

  override nowMs(): number {
    return Math.round(this.#beganMs + this.monotonicMs() - this.#beganMonotonicMs);
  }

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.timers++;
    return super.sleep(ms, signal).finally(() => this.timers--);
  }

  override after(ms: number, run: () => void): () => void {
    let isSet = true;
    const done = () => {
      if (isSet) this.timers--;
      isSet = false;
    };

    this.timers++;
    const cancel = super.after(ms, () => {
      done();
      run();
    });
    return () => {
      done();
      cancel();
    };
  }
}

const [configPath, haste] = Deno.args;
const clock = new SoakClock(new SystemClock(), Number(haste));
const runtime = await startRuntime(
  {
    configPath,
    debug: false,
    noTls: false,
    showConfigDiffs: false,
    diagnostics: { ftdc: true, webProfile: false, telemetry: false },
    stop: () => {},
  },
  {
    registry: new Registry(APIS, MODELS),
    host: new DenoHost(),
    clock,
    logs: new Logs(clock, []),
    version: "0.0.0",
  },
);
await runtime.ready;
console.log(runtime.url);

const collect = (globalThis as { gc?: () => void }).gc;
for await (const _ of Deno.stdin.readable) {
  // The first pass frees what finalizers of the second one refer to.
  collect?.();
  await new SystemClock().sleep(100);
  collect?.();
  const { heapUsed, rss } = Deno.memoryUsage();
  const state: SoakState = {
    revision: runtime.machine.config?.revision ?? "",
    heapBytes: heapUsed,
    residentBytes: rss,
    handles: [...Deno.readDirSync("/proc/self/fd")].length,
    timers: clock.timers,
  };
  console.log(JSON.stringify(state));
}
await runtime.close();
Deno.exit(0);
