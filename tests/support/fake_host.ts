/**
 * A machine in memory: files that fail on demand, and further parts from the test.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Device, Devices, Host, ProcessUsage, PulseHost, Pulses } from "../../lib/base/host.ts";
import type {
  FoundProcess,
  PipedProcess,
  ProcessCommand,
  ProcessHost,
  RunningProcess,
} from "../../lib/base/process.ts";
import { FakeFiles, type Fault } from "./fake_files.ts";
import type { ReadFolders } from "../../lib/base/files/files.ts";

export interface FakeHostOptions {
  /** The environment. */
  readonly env?: { readonly [name: string]: string };
  readonly hostname?: string;
  readonly os?: string;
  readonly arch?: string;
  /** Cameras, pins and other files below `/dev`. */
  readonly devices?: Devices & ReadFolders & Partial<PulseHost>;
  readonly processes?: ProcessHost;
  readonly files?: { readonly [path: string]: string | Uint8Array };
  readonly usage?: ReturnType<ProcessUsage["usage"]>;
  readonly fault?: (operation: number) => Fault | undefined;
}

export class FakeHost extends FakeFiles implements Host {
  /** The output on standard output, and on standard error. */
  printed = "";
  errors = "";
  /** Whether the programs on the loopback interface are those of other users. */
  strangers = false;

  constructor(private readonly options: FakeHostOptions = {}) {
    super(options.fault);
    for (const [path, content] of Object.entries(options.files ?? {})) this.put(path, content);
  }

  env(name: string): string | undefined {
    return this.options.env?.[name];
  }

  environment(): Record<string, string> {
    return { ...this.options.env };
  }

  hostname(): string {
    return this.options.hostname ?? "fake";
  }

  platform(): { os: string; arch: string } {
    return { os: this.options.os ?? "linux", arch: this.options.arch ?? "x64" };
  }

  cwd(): string {
    return "/";
  }

  write(text: string): void {
    this.printed += text;
  }

  writeError(text: string): void {
    this.errors += text;
  }

  draw(text: string): void {
    this.errors += text;
  }

  show(text: string): void {
    this.write(text);
  }

  columns(): number | undefined {
    return undefined;
  }

  drawnColumns(): number | undefined {
    return undefined;
  }

  coloured(): boolean {
    return false;
  }

  onTermination(): () => void {
    return () => {};
  }

  usage(): { residentBytes: number; heapUsedBytes: number; cpuUs: number } {
    return this.options.usage ?? { residentBytes: 1000, heapUsedBytes: 500, cpuUs: 70 };
  }

  mainThreadCpuUs(): number {
    return this.usage().cpuUs;
  }

  override readFolder(path: string): Promise<string[]> {
    return (path.startsWith("/dev") && this.options.devices?.readFolder(path)) || super.readFolder(path);
  }

  override realPath(path: string): Promise<string> {
    return (path.startsWith("/dev") && this.options.devices?.realPath(path)) || super.realPath(path);
  }

  openDevice(path: string): Device {
    if (!this.options.devices) throw new SvcError("not_found", `cannot open the device "${path}"`);
    return this.options.devices.openDevice(path);
  }

  openPulses(): Pulses {
    const pulses = this.options.devices?.openPulses?.();
    if (!pulses) throw new SvcError("unavailable", "the test has no thread for pulses");
    return pulses;
  }

  spawn(command: ProcessCommand): RunningProcess {
    return this.#processes.spawn(command);
  }

  figuresOf(): undefined {}

  checkLoopback(): Promise<void> {
    return this.strangers
      ? Promise.reject(new SvcError("permission_denied", "a stranger"))
      : Promise.resolve();
  }

  isLoopbackProxy(): Promise<boolean> {
    return Promise.resolve(false);
  }

  listensMarked(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  pipe(command: ProcessCommand): PipedProcess {
    throw new SvcError("not_found", `cannot run "${command.command}": it does not exist`);
  }

  findMarked(name: string, value: string, clock: Clock, until: AbortSignal): Promise<FoundProcess[]> {
    return this.#processes.findMarked(name, value, clock, until);
  }

  get #processes(): ProcessHost {
    if (!this.options.processes) throw new SvcError("unavailable", "the test has no processes");
    return this.options.processes;
  }
}
