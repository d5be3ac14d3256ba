/**
 * The machine that the programs run on, apart from its files: narrow ports, from which each caller declares those that
 * it uses. `host_deno.ts` implements all of them; a test implements the ones that it needs.
 */

import { SvcError } from "./error.ts";
import type { Files } from "./files/files.ts";
import type { PipeHost, ProcessHost, ProcessTable } from "./process.ts";

export interface Environment {
  /** The value of an environment variable. */
  env(name: string): string | undefined;
}

export interface WholeEnvironment {
  /** All environment variables. */
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

/** A TCP connection on the loopback interface, over IPv4. */
export interface LoopbackEnds {
  readonly own: { readonly address: string; readonly port: number };
  readonly other: { readonly address: string; readonly port: number };
  /** Of this program: whether it accepted the connection or made it. */
  readonly role: "server" | "client";
}

/** Every user of the computer reaches the loopback interface. */
export interface LoopbackPeers {
  /**
   * Throws `permission_denied` unless the program at the other end runs as our own user or as the administrator, or is
   * a descendant of this process (Linux). Passes everybody on systems that tell neither (macOS).
   */
  checkLoopback(ends: LoopbackEnds): Promise<void>;
}

/** A proxy on this computer makes others look like programs of this computer. */
export interface LoopbackProxies {
  /** Whether the other end is probably a reverse proxy. False on systems that do not tell (all but Linux). */
  isLoopbackProxy(ends: Omit<LoopbackEnds, "role">): Promise<boolean>;
}

/** The output of a command line. */
export interface Output {
  /**
   * Writes data, as opposed to log lines, to standard output or standard error. Escapes control characters
   * (`escape.ts`), because much of it comes from elsewhere; escaped JSON keeps its value. Throws `OutputError` if
   * standard output does not take the text.
   */
  write(text: string): void;
  /** Never throws: a program does not fail because its remarks are lost. */
  writeError(text: string): void;
}

/** Standard output does not take the text of a program. */
export class OutputError extends SvcError {
  /** `unread`: the reader has gone, as that of `svc-ml list | head -1`. */
  constructor(readonly unread: boolean, cause: unknown) {
    super("unavailable", "cannot write to standard output", { cause });
  }
}

export interface Screen {
  /** Writes to standard error unescaped: cursor movements and colours. Never text that comes from elsewhere. */
  draw(text: string): void;
  /** Writes to standard output unescaped, for tables with colours. Text that comes from elsewhere is escaped before. */
  show(text: string): void;
  /** The width of the terminal that shows standard output; `undefined` without one, unless COLUMNS gives it. */
  columns(): number | undefined;
  /** The width of the terminal that shows standard error, if a line can be redrawn there. */
  drawnColumns(): number | undefined;
  /** Whether standard output is a terminal with colours and `NO_COLOR` is not set. */
  coloured(): boolean;
}

export interface Termination {
  /** Calls `run` when the system asks the process to end; the returned function stops listening. */
  onTermination(run: (signal: string) => void): () => void;
}

export interface ProcessUsage {
  /** Memory of this process, and the CPU time it has used since its start. */
  usage(): { readonly residentBytes: number; readonly heapUsedBytes: number; readonly cpuUs: number };
  /** The CPU time of the thread that runs this program's code, or of the whole process where that is unknown. */
  mainThreadCpuUs(): number;
}

/** Memory shared with a device. */
export interface DeviceMemory {
  /** A copy of its first bytes. */
  read(bytes: number): Uint8Array<ArrayBuffer>;
}

/** Memory beside the message of a control call; the message holds its address at byte `at`. */
export interface Pointed {
  readonly at: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Receives what a device delivers. */
export interface Follower {
  heard(bytes: Uint8Array<ArrayBuffer>): void;
  /** Called once, when nothing more can be read. */
  failed(error: SvcError): void;
}

/**
 * A character device. Errors are `unavailable` for a device that is gone, `invalid_argument` for a request that it
 * does not accept, `resource_exhausted` for a device in use by another program, `aborted` if there is nothing to read
 * yet.
 */
export interface Device {
  readonly path: string;
  /** A control call (ioctl) by its number. The device reads and overwrites `data`. */
  control(request: number, data: Uint8Array<ArrayBuffer>, pointed?: readonly Pointed[]): void;
  /** A control call whose argument is a number instead of a message. */
  tell(request: number, value: number): void;
  /**
   * Reads in a thread of its own, in batches of at most `batchBytes`, so that nothing is lost while this thread is
   * busy. The returned function ends the thread; close the device only after it.
   */
  follow(batchBytes: number, follower: Follower): () => Promise<void>;
  /** The descriptor, for other threads of this process. */
  readonly file: number;
  /** Takes over a descriptor that a control call has opened. */
  adopt(file: number, path: string): Device;
  /**
   * Takes the device for this opening alone, until it is closed. False if another opening has it, here or in another
   * program that asks for that (flock), under any name of the device.
   */
  lock(): boolean;
  map(offset: number, bytes: number): DeviceMemory;
  /** The bytes at `at`, up to the given count; none at the end of the file. */
  read(bytes: number, at?: number): Uint8Array<ArrayBuffer>;
  /** Writes; returns how many of the first bytes the device has accepted. */
  write(bytes: Uint8Array<ArrayBuffer>): number;
  /** Waits for data or an error within that time. Do not close the device meanwhile. */
  readable(withinMs: number): Promise<boolean>;
  /** The same for urgent data, by which a sysfs file reports a change. */
  urgent(withinMs: number): Promise<boolean>;
  /** Idempotent. */
  close(): void;
}

export interface Devices {
  /** Opens a character device. */
  openDevice(path: string): Device;
}

/** How a thread switches a wire: by a control call, or by a write if `request` is 0. */
export interface PulseLine {
  /** The descriptor. */
  readonly file: number;
  readonly request: number;
  readonly on: Uint8Array;
  readonly off: Uint8Array;
}

/** How late the edges of the pulses were. */
export interface Lateness {
  readonly switches: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly maxUs: number;
}

/** One wire that is switched on and off. */
export interface Pulse {
  /** Makes pulses of `onNs` every `periodNs`, from the next edge on. */
  set(periodNs: number, onNs: number): void;
  /** Resolves when no thread switches the wire any more. Idempotent. */
  end(): Promise<void>;
}

/** A thread that makes pulses. */
export interface Pulses {
  attach(wire: PulseLine): Pulse;
  lateness(): Lateness;
  close(): Promise<void>;
}

export interface PulseHost {
  openPulses(): Pulses;
}

/** All ports of a machine, for the entry points of the programs. No other code asks for it. */
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
    LoopbackPeers,
    LoopbackProxies,
    PipeHost {}
