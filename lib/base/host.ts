/**
 * What the programs need of the machine they run on beside files: narrow ports, of which each caller names those that
 * it uses. `host_deno.ts` has all of them; tests give what the test needs.
 */

import type { SvcError } from "./error.ts";
import type { Files } from "./files/files.ts";
import type { PipeHost, ProcessHost, ProcessTable } from "./process.ts";

export interface Environment {
  /** The value of an environment variable. */
  env(name: string): string | undefined;
}

export interface WholeEnvironment {
  /** Everything in the environment. */
  environment(): Record<string, string>;
}

export interface Platform {
  /** `linux`, `windows`, `darwin` and `x64`, `arm64`. */
  platform(): { os: string; arch: string };
}

export interface MachineName {
  hostname(): string;
}

export interface WorkingFolder {
  cwd(): string;
}

/** Where a command line says something. */
export interface Output {
  /**
   * Writes to standard output / standard error, for what is data rather than log. Control characters are written out
   * (`escape.ts`), as much of it comes from elsewhere; JSON stays the same value.
   */
  write(text: string): void;
  writeError(text: string): void;
}

export interface Screen {
  /** Writes to standard error as it is: what moves the cursor or has a colour. Nothing that comes from elsewhere. */
  draw(text: string): void;
  /** Whether standard output is a terminal that shows colours, and nobody asked for none (`NO_COLOR`). */
  coloured(): boolean;
}

export interface Termination {
  /** Calls `run` when the process is asked to end; the returned function stops listening. */
  onTermination(run: (signal: string) => void): () => void;
}

export interface ProcessUsage {
  /** Memory of this process, and the CPU time it has used since its start. */
  usage(): { readonly residentBytes: number; readonly heapUsedBytes: number; readonly cpuUs: number };
}

/** Memory that a device shares. */
export interface DeviceMemory {
  /** A copy of its first bytes. */
  read(bytes: number): Uint8Array<ArrayBuffer>;
}

/** Memory beside a control call's message, whose address stands in the message at byte `at`. */
export interface Pointed {
  readonly at: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Who hears what a device gives. */
export interface Follower {
  heard(bytes: Uint8Array<ArrayBuffer>): void;
  /** Called once, if nothing more can be read. */
  failed(error: SvcError): void;
}

/**
 * A character device. Errors are `unavailable` for one that is gone, `invalid_argument` for what it does not take,
 * `resource_exhausted` where somebody else uses it, `aborted` where there is nothing yet.
 */
export interface Device {
  readonly path: string;
  /** A control call by its number; `data` goes in, and comes out as the device has changed it. */
  control(request: number, data: Uint8Array<ArrayBuffer>, pointed?: readonly Pointed[]): void;
  /** A control call whose argument is a number instead of a message. */
  tell(request: number, value: number): void;
  /**
   * Reads in a thread of its own, in batches of at most `batchBytes`, so that nothing is lost while this thread is
   * busy. The returned function ends it; only then may the device be closed.
   */
  follow(batchBytes: number, follower: Follower): () => Promise<void>;
  /** The number by which this process knows the open file, for its own threads. */
  readonly file: number;
  /** Takes over a file that a control call has opened. */
  adopt(file: number, path: string): Device;
  map(offset: number, bytes: number): DeviceMemory;
  /** What is there, up to so many bytes, in a file from byte `at` on; none at the end. */
  read(bytes: number, at?: number): Uint8Array<ArrayBuffer>;
  /** How many of the first bytes the device has taken. */
  write(bytes: Uint8Array<ArrayBuffer>): number;
  /** Whether there is something to fetch, or to fail at, within that time. Not to be closed meanwhile. */
  readable(withinMs: number): Promise<boolean>;
  /** The same for urgent data, by which files of sysfs tell a change. */
  urgent(withinMs: number): Promise<boolean>;
  /** Idempotent. */
  close(): void;
}

export interface Devices {
  /** Opens a character device. */
  openDevice(path: string): Device;
}

/** How a thread switches a wire: by a control call, or by writing where `request` is 0. */
export interface Wire {
  /** The number of the open file. */
  readonly file: number;
  readonly request: number;
  readonly on: Uint8Array;
  readonly off: Uint8Array;
}

/** How late the switches of pulses were. */
export interface Lateness {
  readonly switches: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly maxUs: number;
}

/** One wire that is switched on and off. */
export interface Pulse {
  /** Pulses of `onNs` every `periodNs` from the next switch on. */
  set(periodNs: number, onNs: number): void;
  /** Resolves when nothing switches the wire any more. Idempotent. */
  end(): Promise<void>;
}

/** A thread that makes pulses. */
export interface Pulses {
  attach(wire: Wire): Pulse;
  lateness(): Lateness;
  close(): Promise<void>;
}

export interface PulseHost {
  openPulses(): Pulses;
}

/** All ports of a machine: what the programs start from. Nobody else asks for it. */
export interface Host
  extends
    Files,
    Environment,
    WholeEnvironment,
    Platform,
    MachineName,
    WorkingFolder,
    Output,
    Screen,
    Termination,
    ProcessUsage,
    Devices,
    PulseHost,
    ProcessHost,
    ProcessTable,
    PipeHost {}
