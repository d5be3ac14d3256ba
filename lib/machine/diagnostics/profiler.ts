/**
 * Profiles of the program's time and memory, from V8's own profiler: documents for Chrome's developer tools
 * (`.cpuprofile` under Performance, `.heapprofile` and `.heapsnapshot` under Memory).
 *
 * The only file that uses the engine's inspector. Each recording has a session of its own, which ends with it.
 */

import { Session } from "node:inspector";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";

/** A recording under way. */
export interface Recording {
  /** Ends it and resolves with the document. */
  stop(): Promise<string>;
}

/** Sampling rate of a profile that may last for hours: a hundred per second, as in the published runtime. */
const SAMPLE_US = 10_000;
/** A snapshot of gigabytes takes long. */
const ANSWER_MS = 120_000;

/** Records where the program spends its time. */
export async function recordCpu(clock: Clock, sampleUs = SAMPLE_US): Promise<Recording> {
  const inspector = new Inspector(clock);
  await inspector.begin(async () => {
    await inspector.ask("Profiler.enable");
    await inspector.ask("Profiler.setSamplingInterval", { interval: sampleUs });
    await inspector.ask("Profiler.start");
  });
  return { stop: () => inspector.end(() => inspector.profile("Profiler.stop")) };
}

/** Records the allocations that are still in use at the end. */
export async function recordAllocations(clock: Clock): Promise<Recording> {
  const inspector = new Inspector(clock);
  await inspector.begin(async () => {
    await inspector.ask("HeapProfiler.enable");
    await inspector.ask("HeapProfiler.startSampling");
  });
  return { stop: () => inspector.end(() => inspector.profile("HeapProfiler.stopSampling")) };
}

/** Everything in memory now. The program stands still while it is taken. */
export async function heapSnapshot(clock: Clock): Promise<string> {
  const inspector = new Inspector(clock);
  const parts: string[] = [];
  inspector.session.on("HeapProfiler.addHeapSnapshotChunk", ({ params }) => parts.push(params.chunk));
  await inspector.begin(() => inspector.ask("HeapProfiler.enable"));
  return await inspector.end(async () => {
    await inspector.ask("HeapProfiler.takeHeapSnapshot");
    return parts.join("");
  });
}

class Inspector {
  readonly session = new Session();

  constructor(private readonly clock: Clock) {}

  async begin(run: () => Promise<unknown>): Promise<void> {
    try {
      this.session.connect();
      await run();
    } catch (cause) {
      this.session.disconnect();
      throw new SvcError("unavailable", `cannot profile the program: ${messageOf(cause)}`, { cause });
    }
  }

  async end(run: () => Promise<string>): Promise<string> {
    try {
      return await run();
    } finally {
      this.session.disconnect();
    }
  }

  async profile(method: string): Promise<string> {
    const { profile } = await this.ask(method) as { profile: unknown };
    return JSON.stringify(profile);
  }

  async ask(method: string, params: object = {}): Promise<unknown> {
    const late = () =>
      new SvcError("deadline_exceeded", `${method} was not done within ${ANSWER_MS / 1000} s`);
    const { signal, done } = deadline(this.clock, ANSWER_MS, late);
    const answer = new Promise((resolve, reject) => {
      this.session.post(method, params, (error, result) => error ? reject(error) : resolve(result));
    });
    try {
      return await race(answer, signal);
    } finally {
      done();
    }
  }
}
