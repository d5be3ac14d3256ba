/**
 * The main thread's side of the thread that makes pulses.
 *
 * Owns that thread. After a pulse has ended, its wire is switched no more and keeps its last level. A pulse as short as
 * a servo's ends at its own end.
 */

import { SvcError } from "../error.ts";
import type { Lateness, Pulse, PulseLine, Pulses } from "../host.ts";
import {
  CALL,
  CHANGES,
  FILE,
  FIRST_WIRE,
  LATE_STEP_US,
  LATE_STEPS,
  LINES_MAX,
  MESSAGE_BYTES_MAX,
  PULSE_WORKER,
  type PulseAnswer,
  RUNNING,
  sharedMemory,
  STOP,
  TAKEN,
  WAKE,
  WIRE_NUMBERS,
} from "./pulse_worker.ts";

export class PulseThread implements Pulses {
  readonly #shared = sharedMemory();
  readonly #thread: Worker;
  readonly #used = new Set<number>();
  readonly #ended = Promise.withResolvers<void>();
  #taken = Promise.withResolvers<void>();
  #failure: string | undefined;

  constructor() {
    this.#thread = new Worker(new URL("./pulse_worker.ts", import.meta.url), {
      type: "module",
      name: PULSE_WORKER,
    });
    this.#thread.onmessage = ({ data }: MessageEvent<PulseAnswer>) => {
      if ("ended" in data) this.#ended.resolve();
      this.#tell();
    };
    this.#thread.onerror = (event) => {
      event.preventDefault();
      this.#failure = event.message;
      this.#ended.resolve();
      this.#tell();
    };
    this.#thread.postMessage(this.#shared);
  }

  attach({ file, request, on, off }: PulseLine): Pulse {
    const wire = Array.from({ length: LINES_MAX }, (_, index) => index).find((one) => !this.#used.has(one));
    if (wire === undefined) {
      throw new SvcError("resource_exhausted", `cannot make pulses on more than ${LINES_MAX} wires`);
    }

    this.#used.add(wire);
    this.#change(wire, (at) => {
      const { numbers, messages, lengths } = this.#shared;
      numbers[at + FILE] = file;
      numbers[at + CALL] = request | 0;
      lengths[wire] = on.length;
      messages.set(off, 2 * wire * MESSAGE_BYTES_MAX);
      messages.set(on, (2 * wire + 1) * MESSAGE_BYTES_MAX);
    });
    return {
      set: (periodNs, onNs) => {
        if (this.#failure !== undefined) {
          throw new SvcError("internal", `the thread that makes pulses failed: ${this.#failure}`);
        }
        this.#change(wire, (at) => {
          const { numbers, times } = this.#shared;
          times[2 * wire] = periodNs;
          times[2 * wire + 1] = onNs;
          numbers[at + RUNNING] = 1;
        });
      },
      end: async () => {
        if (!this.#used.has(wire)) return;
        const changes = this.#change(wire, (at) => this.#shared.numbers[at + RUNNING] = 0);
        await this.#untilTaken(wire, changes);
        this.#used.delete(wire);
      },
    };
  }

  lateness(): Lateness {
    const counts = Array.from(this.#shared.late);
    const switches = counts.reduce((sum, count) => sum + count, 0);
    /** The upper edge of the step that contains this quantile. */
    const at = (share: number) => {
      let left = Math.ceil(switches * share);
      for (const [step, count] of counts.entries()) {
        left -= count;
        if (left <= 0) return switches === 0 ? 0 : (step + 1) * LATE_STEP_US;
      }
      return (LATE_STEPS + 1) * LATE_STEP_US;
    };
    return { switches, p50Us: at(0.5), p99Us: at(0.99), maxUs: at(1) };
  }

  async close(): Promise<void> {
    Atomics.store(this.#shared.numbers, STOP, 1);
    this.#wake();
    await this.#ended.promise;
    this.#thread.terminate();
  }

  /** Changes a wire's block so that the thread never sees half of the change; returns the change's number. */
  #change(wire: number, write: (at: number) => void): number {
    const { numbers } = this.#shared;
    const at = FIRST_WIRE + wire * WIRE_NUMBERS;
    Atomics.add(numbers, at + CHANGES, 1);
    write(at);
    const changes = Atomics.add(numbers, at + CHANGES, 1) + 1;
    this.#wake();
    return changes;
  }

  async #untilTaken(wire: number, changes: number): Promise<void> {
    const at = FIRST_WIRE + wire * WIRE_NUMBERS + TAKEN;
    while (this.#failure === undefined && Atomics.load(this.#shared.numbers, at) !== changes) {
      await this.#taken.promise;
    }
  }

  #tell(): void {
    this.#taken.resolve();
    this.#taken = Promise.withResolvers();
  }

  #wake(): void {
    Atomics.add(this.#shared.numbers, WAKE, 1);
    Atomics.notify(this.#shared.numbers, WAKE);
  }
}
