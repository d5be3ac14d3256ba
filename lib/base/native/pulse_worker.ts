/**
 * The thread that makes pulses: switches wires at their times, and records how late it was.
 *
 * `pulses.ts` starts it and imports it too, so that an executable embeds it. The thread never yields: it takes its
 * orders from memory shared with the main thread, and sleeps there.
 */

import { C_LIBRARY } from "./reader_worker.ts";

/** The worker's name, by which the module detects that it runs as the thread rather than being imported. */
export const PULSE_WORKER = "svc-pulses";

/** Wires per thread. */
export const LINES_MAX = 32;
/** Longest message that switches a wire. */
export const MESSAGE_BYTES_MAX = 16;

/** Lateness is counted in steps of this size; the last step counts everything beyond. */
export const LATE_STEP_US = 5;
export const LATE_STEPS = 400;

/** Indexes in the shared numbers: the wake-up word, the end flag, then one block per wire. */
export const WAKE = 0, STOP = 1, FIRST_WIRE = 2;
/** In a wire's block: changes so far (odd during a change), changes taken, descriptor, request, running. */
export const CHANGES = 0, TAKEN = 1, FILE = 2, CALL = 3, RUNNING = 4, WIRE_NUMBERS = 5;

/** The memory that both threads share. */
export interface Shared {
  readonly numbers: Int32Array;
  /** Period and on-time of each wire, in nanoseconds. */
  readonly times: Float64Array;
  /** The messages that switch each wire on and off, and their length. */
  readonly messages: Uint8Array;
  readonly lengths: Int32Array;
  /** Counts of edges by their lateness in steps. */
  readonly late: Int32Array;
}

export function sharedMemory(): Shared {
  const shared = (bytes: number) => new SharedArrayBuffer(bytes);
  return {
    numbers: new Int32Array(shared(4 * (FIRST_WIRE + LINES_MAX * WIRE_NUMBERS))),
    times: new Float64Array(shared(8 * 2 * LINES_MAX)),
    messages: new Uint8Array(shared(2 * MESSAGE_BYTES_MAX * LINES_MAX)),
    lengths: new Int32Array(shared(4 * LINES_MAX)),
    late: new Int32Array(shared(4 * (LATE_STEPS + 1))),
  };
}

/** A wire and the last change that the thread has taken. */
export type PulseAnswer = { readonly wire: number } | { readonly ended: true };

const CLOCK_MONOTONIC = 1;
const ABSOLUTE = 1;
const TIMER_SLACK = 29;
const FIRST_IN_FIRST_OUT = 1;
/** A low priority among real-time threads: those of the kernel go first. */
const PRIORITY = 10;
/** The shared sleep wakes up about this late, so the system's clock sleeps the last part. */
const LAST_PART_NS = 200_000;
/** The last pulse has its length if its rest is at most so long, as a servo takes a shorter one for another angle. */
const LAST_PULSE_NS = 3_000_000;
const NS_PER_SECOND = 1e9;

const FUNCTIONS = {
  ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  clock_nanosleep: { parameters: ["i32", "i32", "buffer", "pointer"], result: "i32" },
  prctl: { parameters: ["i32", "u64"], result: "i32" },
  sched_setscheduler: { parameters: ["i32", "i32", "buffer"], result: "i32" },
} as const;

/** The parts of a worker's scope that this file uses. */
interface Scope {
  readonly name?: string;
  onmessage: ((event: { data: Shared }) => void) | null;
  postMessage(answer: PulseAnswer): void;
}

type Library = Deno.DynamicLibrary<typeof FUNCTIONS>;

/** The system's monotonic clock, in nanoseconds; it sleeps more exactly than shared memory does. */
class MonotonicClock {
  readonly #time = new DataView(new ArrayBuffer(16));
  readonly #timeBytes = new Uint8Array(this.#time.buffer);

  constructor(private readonly symbols: Library["symbols"]) {}

  now(): number {
    this.symbols.clock_gettime(CLOCK_MONOTONIC, this.#timeBytes);
    // A time since the start of the system: its seconds fit into the lower half.
    return this.#time.getUint32(0, true) * NS_PER_SECOND + this.#time.getUint32(8, true);
  }

  sleepUntil(ns: number): void {
    const seconds = Math.floor(ns / NS_PER_SECOND);
    this.#time.setUint32(0, seconds, true);
    this.#time.setUint32(4, 0, true);
    this.#time.setUint32(8, ns - seconds * NS_PER_SECOND, true);
    this.#time.setUint32(12, 0, true);
    this.symbols.clock_nanosleep(CLOCK_MONOTONIC, ABSOLUTE, this.#timeBytes, null);
  }
}

/** How a wire is switched: by a control call or by a write, with a message for each level. */
class WireSwitch {
  #call = 0n;
  #length = 0n;
  /** Of a change that may be incomplete. */
  readonly #low = new Uint8Array(MESSAGE_BYTES_MAX);
  readonly #high = new Uint8Array(MESSAGE_BYTES_MAX);
  /** Where the wire's numbers begin. */
  readonly #at: number;

  constructor(
    private readonly symbols: Library["symbols"],
    private readonly shared: Shared,
    private readonly wire: number,
  ) {
    this.#at = FIRST_WIRE + wire * WIRE_NUMBERS;
  }

  /** Copies the wire's messages. */
  copyMessages(): void {
    const { messages, lengths } = this.shared;
    const length = Atomics.load(lengths, this.wire);
    for (const [level, message] of [this.#low, this.#high].entries()) {
      const from = (2 * this.wire + level) * MESSAGE_BYTES_MAX;
      message.set(messages.subarray(from, from + length));
    }
  }

  /** Uses the copied messages from now on. */
  adopt(): void {
    const { numbers, lengths } = this.shared;
    // Unsigned: numbers of control calls have their highest bit set.
    this.#call = BigInt(Atomics.load(numbers, this.#at + CALL) >>> 0);
    this.#length = BigInt(Atomics.load(lengths, this.wire));
  }

  set(isHigh: boolean): void {
    const file = Atomics.load(this.shared.numbers, this.#at + FILE);
    const message = isHigh ? this.#high : this.#low;
    if (this.#call !== 0n) this.symbols.ioctl(file, this.#call, message);
    else this.symbols.write(file, message, this.#length);
  }
}

/** A wire and its pulses, with times in nanoseconds. */
interface Wire {
  readonly number: number;
  readonly switch: WireSwitch;
  due: number;
  period: number;
  on: number;
  isHigh: boolean;
  isRunning: boolean;
  /** The last change that was taken. */
  taken: number;
}

class PulseLoop {
  readonly #library: Library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
  readonly #clock = new MonotonicClock(this.#library.symbols);
  readonly #wires: readonly Wire[];

  constructor(private readonly scope: Scope, private readonly shared: Shared) {
    this.#wires = Array.from({ length: LINES_MAX }, (_, number) => ({
      number,
      switch: new WireSwitch(this.#library.symbols, shared, number),
      due: 0,
      period: 0,
      on: 0,
      isHigh: false,
      isRunning: false,
      taken: 0,
    }));
  }

  run(): void {
    this.#goFirst();
    const { numbers } = this.shared;
    while (Atomics.load(numbers, STOP) === 0) {
      const wake = Atomics.load(numbers, WAKE);
      let next = Infinity;
      for (const wire of this.#wires) {
        this.#take(wire);
        if (wire.isRunning) next = Math.min(next, this.#serve(wire));
      }
      this.#sleep(next, wake);
    }
    this.#library.close();
    this.scope.postMessage({ ended: true });
  }

  /** Raises the thread's priority, if the system allows it, so that only the kernel delays it. */
  #goFirst(): void {
    const { symbols } = this.#library;
    symbols.prctl(TIMER_SLACK, 1n);
    const priority = new Uint8Array(4);
    priority[0] = PRIORITY;
    symbols.sched_setscheduler(0, FIRST_IN_FIRST_OUT, priority);
  }

  /** Takes a complete change of the wire, if there is one. */
  #take(wire: Wire): void {
    const { numbers, times } = this.shared;
    const at = FIRST_WIRE + wire.number * WIRE_NUMBERS;
    const changes = Atomics.load(numbers, at + CHANGES);
    if (changes === wire.taken || changes % 2 !== 0) return;

    const [period = 0, on = 0] = times.subarray(2 * wire.number, 2 * wire.number + 2);
    const isRunning = Atomics.load(numbers, at + RUNNING) === 1;
    if (!isRunning && this.#isNearlyLow(wire)) return;

    wire.switch.copyMessages();
    if (Atomics.load(numbers, at + CHANGES) !== changes) return;
    wire.taken = changes;
    wire.switch.adopt();
    wire.period = period;
    wire.on = on;

    if (isRunning && !wire.isRunning) {
      wire.due = this.#clock.now();
      wire.isHigh = false;
    }

    wire.isRunning = isRunning;
    Atomics.store(numbers, at + TAKEN, changes);
    this.scope.postMessage({ wire: wire.number });
  }

  #isNearlyLow({ isRunning, isHigh, due }: Wire): boolean {
    return isRunning && isHigh && due - this.#clock.now() <= LAST_PULSE_NS;
  }

  /** Switches the wire if it is due, and returns the time of its next edge. */
  #serve(wire: Wire): number {
    const now = this.#clock.now();
    const { due, period, on } = wire;
    if (due > now) return due;
    wire.isHigh = !wire.isHigh;
    wire.switch.set(wire.isHigh);
    const step = Math.min(LATE_STEPS, Math.floor((now - due) / (LATE_STEP_US * 1000)));
    Atomics.add(this.shared.late, step, 1);
    const next = due + (wire.isHigh ? on : period - on);
    // After a delay of a whole period the thread skips the missed edges.
    wire.due = next < now - period ? now : next;
    return wire.due;
  }

  #sleep(until: number, wake: number): void {
    const { numbers } = this.shared;
    if (until === Infinity) return void Atomics.wait(numbers, WAKE, wake);
    const gap = until - this.#clock.now();
    if (gap <= 0) return;
    if (gap > 1.5 * LAST_PART_NS) {
      return void Atomics.wait(numbers, WAKE, wake, (gap - LAST_PART_NS) / 1e6);
    }
    this.#clock.sleepUntil(until);
  }
}

const scope = globalThis as unknown as Scope;
if (scope.name === PULSE_WORKER) {
  scope.onmessage = ({ data }) => new PulseLoop(scope, data).run();
}
