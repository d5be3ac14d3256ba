/**
 * What the programs need of the machine they run on beside files: narrow ports, of which each caller names those that
 * it uses. `host_deno.ts` has all of them; tests give what the test needs.
 */

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

/**
 * A character device. Errors are `unavailable` for one that is gone, `invalid_argument` for what it does not take,
 * `resource_exhausted` where somebody else uses it, `aborted` where there is nothing yet.
 */
export interface Device {
  readonly path: string;
  /** A control call by its number; `data` goes in, and comes out as the device has changed it. */
  control(request: number, data: Uint8Array<ArrayBuffer>): void;
  map(offset: number, bytes: number): DeviceMemory;
  /** What is there, up to so many bytes; none at the end. */
  read(bytes: number): Uint8Array<ArrayBuffer>;
  /** How many of the first bytes the device has taken. */
  write(bytes: Uint8Array<ArrayBuffer>): number;
  /** Whether there is something to fetch, or to fail at, within that time. Not to be closed meanwhile. */
  readable(withinMs: number): Promise<boolean>;
  /** Idempotent. */
  close(): void;
}

export interface Devices {
  /** Opens a character device. */
  openDevice(path: string): Device;
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
    ProcessHost,
    ProcessTable,
    PipeHost {}
