/**
 * The machine as Deno gives it: files, processes, devices, the terminal and the environment.
 */

import type { Clock } from "./clock.ts";
import { DenoDevice } from "./native/device.ts";
import { accountHome } from "./native/environment.ts";
import { escaped } from "./escape.ts";
import { SystemFiles } from "./files/system_files.ts";
import { type Device, type Host, type LoopbackEnds, OutputError, type Pulses } from "./host.ts";
import { checkLoopback, isLoopbackProxy } from "./native/loopback.ts";
import { keepOnly, type Right } from "./native/permissions.ts";
import { PulseThread } from "./native/pulses.ts";
import type {
  FoundProcess,
  PipedProcess,
  ProcessCommand,
  ProcessFigures,
  RunningProcess,
} from "./process.ts";
import { figuresOf, findMarked, listensMarked, pipe, spawn } from "./process_deno.ts";

export class DenoHost extends SystemFiles implements Host {
  /** Found before the first listener, with which Deno itself begins to listen. */
  #outlivesTerminal?: boolean;

  /** `isProgram`: this process runs nothing but one program, which may give up rights of the process. */
  constructor(private readonly isProgram = false) {
    super();
  }

  giveUpRights(kept: readonly Right[]): void {
    if (this.isProgram) keepOnly(kept);
  }

  env(name: string): string | undefined {
    const value = Deno.env.get(name);
    return value || name !== "HOME" ? value : accountHome();
  }

  environment(): Record<string, string> {
    return Deno.env.toObject();
  }

  hostname(): string {
    return Deno.hostname();
  }

  platform(): { os: string; arch: string } {
    return { os: Deno.build.os, arch: Deno.build.arch === "x86_64" ? "x64" : "arm64" };
  }

  cwd(): string {
    return Deno.cwd();
  }

  figuresOf(pid: number): ProcessFigures | undefined {
    return figuresOf(pid);
  }

  checkLoopback(ends: LoopbackEnds): Promise<void> {
    return checkLoopback(ends);
  }

  isLoopbackProxy(ends: Omit<LoopbackEnds, "role">): Promise<boolean> {
    return isLoopbackProxy(ends);
  }

  openDevice(path: string): Device {
    return new DenoDevice(path);
  }

  openPulses(): Pulses {
    return new PulseThread();
  }

  write(text: string): void {
    this.show(escaped(text));
  }

  show(text: string): void {
    try {
      writeAll(Deno.stdout, new TextEncoder().encode(text));
    } catch (error) {
      throw new OutputError(error instanceof Deno.errors.BrokenPipe, error);
    }
  }

  writeError(text: string): void {
    writeErrors(escaped(text));
  }

  draw(text: string): void {
    writeErrors(text);
  }

  columns(): number | undefined {
    const given = Number(Deno.env.get("COLUMNS"));
    if (given > 0) return given;
    return Deno.stdout.isTerminal() ? Deno.consoleSize().columns || undefined : undefined;
  }

  drawnColumns(): number | undefined {
    if (!Deno.stderr.isTerminal() || Deno.env.get("TERM") === "dumb") return undefined;
    return Number(Deno.env.get("COLUMNS")) || Deno.consoleSize().columns || undefined;
  }

  coloured(): boolean {
    return Deno.stdout.isTerminal() && !Deno.env.get("NO_COLOR") && Deno.env.get("TERM") !== "dumb";
  }

  onTermination(run: (signal: string) => void): () => void {
    const signals: Deno.Signal[] = Deno.build.os === "windows"
      ? ["SIGINT", "SIGBREAK"]
      : ["SIGINT", "SIGTERM", "SIGHUP"];
    this.#outlivesTerminal ??= ignoresHangup();
    const listeners = signals.map((signal) => ({
      signal,
      // Without a listener, Deno ends the process on SIGHUP, also after `nohup`.
      listener: signal === "SIGHUP" && this.#outlivesTerminal ? () => {} : () => run(signal),
    }));
    for (const { signal, listener } of listeners) Deno.addSignalListener(signal, listener);
    return () => {
      for (const { signal, listener } of listeners) Deno.removeSignalListener(signal, listener);
    };
  }

  usage(): { residentBytes: number; heapUsedBytes: number; cpuUs: number } {
    const { rss: residentBytes, heapUsed: heapUsedBytes } = Deno.memoryUsage();
    // Not imported: Node's `process` takes as long to load as an empty program runs, and only a machine needs it.
    // deno-lint-ignore no-process-global
    const { user, system } = process.cpuUsage();
    return { residentBytes, heapUsedBytes, cpuUs: user + system };
  }

  mainThreadCpuUs(): number {
    // The first number is the time, in nanoseconds, that the process's first thread was on a processor.
    const text = Deno.build.os === "linux" ? readIfThere("/proc/self/schedstat") : undefined;
    return text === undefined ? this.usage().cpuUs : Number(text.split(" ")[0]) / 1000;
  }

  spawn(command: ProcessCommand): RunningProcess {
    return spawn(command);
  }

  pipe(command: ProcessCommand): PipedProcess {
    return pipe(command);
  }

  findMarked(name: string, value: string, clock: Clock, until: AbortSignal): Promise<FoundProcess[]> {
    return findMarked(name, value, clock, until);
  }

  listensMarked(name: string, value: string, port: number): Promise<boolean | undefined> {
    return listensMarked(name, value, port);
  }
}

/** Whether this process was started to outlive its terminal, as `nohup` does: with SIGHUP ignored. */
function ignoresHangup(): boolean {
  try {
    const [, ignored = "0"] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(Deno.readTextFileSync("/proc/self/status")) ??
      [];
    // Bit 0 is signal 1, SIGHUP.
    return (BigInt(`0x${ignored}`) & 1n) === 1n;
  } catch {
    return false;
  }
}

function writeErrors(text: string): void {
  try {
    writeAll(Deno.stderr, new TextEncoder().encode(text));
  } catch {
    // Nowhere is left to say so.
  }
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += stream.writeSync(bytes.subarray(at));
}

function readIfThere(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return undefined;
  }
}
