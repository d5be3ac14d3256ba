/**
 * Pins by sysfs, for kernels without a character device of version 2, through the package `onoff`.
 *
 * `onoff` needs the native package `epoll`, which Deno cannot load; the class `Epoll` here replaces it. sysfs has no
 * names of lines, no bias and no times of edges, and loses edges that come faster than they are read. Exported lines
 * outlive the process, so a close unexports its line, and a line that is exported already is taken over.
 */

import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";
import type { ReadFiles } from "../base/files/files.ts";
import { permissionHint } from "./access.ts";
import { type Edge, type LineUse } from "./gpio.ts";
import type {
  ChipLines,
  EdgeListener,
  EdgeWatch,
  GpioBackEnd,
  HeldLine,
  LineAddress,
  WatchedLine,
} from "./gpio_back_end.ts";

const FOLDER = "/sys/class/gpio";
/** Longest wait for an edge before the next check for the end. */
const LOOK_MS = 100;
/** A digit and a line end. */
const LEVEL_BYTES = 2;
const NS_PER_MS = 1e6;

/** The parts of onoff's `Gpio` used here. `_poller` is not part of its public interface. */
export interface OnoffGpio {
  readonly _poller: Pick<Epoll, "follow">;
  readSync(): 0 | 1;
  writeSync(value: 0 | 1): void;
  setDirection(direction: "in" | "high" | "low"): void;
  watch(heard: (error: unknown, value: 0 | 1) => void): void;
  unexport(): void;
}

export type OnoffClass = new (line: number, direction: "in" | "high" | "low", edge?: "both") => OnoffGpio;

interface SysfsChip {
  readonly name: string;
  readonly label: string;
  readonly base: number;
  readonly lines: number;
}

export class SysfsGpio implements GpioBackEnd {
  readonly kind = "sysfs";
  readonly #watching = new Set<Promise<void>>();
  #chips?: Promise<SysfsChip[]>;

  /** `monotonicMs` gives the times of edges, which sysfs does not. */
  constructor(
    private readonly host: Devices & ReadFiles,
    private readonly monotonicMs: () => number,
    private readonly loadClass: () => Promise<OnoffClass> = loadOnoff,
  ) {}

  async chips(): Promise<ChipLines[]> {
    const exported = new Set(await this.host.readFolder(FOLDER).catch(() => []));
    return (await this.#all()).map(({ name, label, base, lines }) => ({
      name,
      label,
      lines,
      all: Array.from({ length: lines }, (_, offset) => ({
        offset,
        name: "",
        user: exported.has(`gpio${base + offset}`) ? "sysfs" : undefined,
        output: false,
      })),
    }));
  }

  async hold(line: LineAddress, use: LineUse): Promise<HeldLine> {
    refuseBias(use);
    const number = await this.#number(line);
    const gpio = await this.#open(number, directionOf(use));
    const device = this.host.openDevice(`${FOLDER}/gpio${number}/value`);
    return {
      get: () => gpio.readSync() === 1,
      set: (high) => gpio.writeSync(high ? 1 : 0),
      use: (next) => {
        refuseBias(next);
        gpio.setDirection(directionOf(next));
      },
      wire: { file: device.file, request: 0, on: Uint8Array.of(0x31), off: Uint8Array.of(0x30) },
      close: () => {
        device.close();
        gpio.unexport();
      },
    };
  }

  async watch(chip: string, lines: readonly WatchedLine[], listener: EdgeListener): Promise<EdgeWatch> {
    const open = new Map<number, OnoffGpio>();
    let total = 0;
    try {
      for (const { offset, bias, debounceUs } of lines) {
        refuseBias({ bias, debounceUs });
        const number = await this.#number({ chip, offset });
        const gpio = await this.#open(number, "in", "both");
        open.set(offset, gpio);

        let lineNumber = 0;
        const device = this.host.openDevice(`${FOLDER}/gpio${number}/value`);
        this.#follow(gpio._poller.follow(device, (error) => listener.failed(error)));
        gpio.watch((error, value) => {
          if (error) return listener.failed(SvcError.from(error));
          const timeNs = BigInt(Math.round(this.monotonicMs() * NS_PER_MS));
          const edge: Edge = {
            offset,
            high: value === 1,
            timeNs,
            number: ++total,
            lineNumber: ++lineNumber,
          };
          listener.heard([edge]);
        });
      }
    } catch (cause) {
      for (const gpio of open.values()) gpio.unexport();
      throw cause;
    }

    return {
      get: (offset) => open.get(offset)!.readSync() === 1,
      close: async () => {
        for (const gpio of open.values()) gpio.unexport();
        await Promise.all(this.#watching);
      },
    };
  }

  close(): void {}

  async #number({ chip: name, offset }: LineAddress): Promise<number> {
    const chip = (await this.#all()).find((one) => one.name === name);
    if (chip && offset < chip.lines) return chip.base + offset;
    throw new SvcError("not_found", `${FOLDER} has no line ${offset} of a chip ${name}`);
  }

  #all(): Promise<SysfsChip[]> {
    return this.#chips ??= this.#readChips();
  }

  async #readChips(): Promise<SysfsChip[]> {
    const folders = (await this.host.readFolder(FOLDER)).filter((name) => name.startsWith("gpiochip"));
    return await Promise.all(folders.map(async (folder) => {
      const path = `${FOLDER}/${folder}`;
      const read = async (name: string) => (await this.host.readTextFile(`${path}/${name}`)).trim();
      const base = Number(await read("base"));
      // In sysfs a chip has the number of its first line; its device has the usual number.
      const siblings = await this.host.readFolder(`${path}/device`).catch(() => []);
      const name = siblings.find((one) => /^gpiochip\d+$/.test(one)) ?? folder;
      return { name, label: await read("label"), base, lines: Number(await read("ngpio")) };
    }));
  }

  async #open(number: number, direction: "in" | "high" | "low", edge?: "both"): Promise<OnoffGpio> {
    const Gpio = await this.loadClass();
    try {
      return new Gpio(number, direction, edge);
    } catch (cause) {
      const code = codeOf(cause);
      const busy = code === "resource_exhausted" ? ": it is in use" : "";
      const failure = new SvcError(code, `cannot take line ${number} of ${FOLDER}${busy}`, { cause });
      throw new SvcError(code, failure.message + permissionHint(FOLDER, failure), { cause });
    }
  }

  #follow(loop: Promise<void>): void {
    this.#watching.add(loop);
    void loop.finally(() => this.#watching.delete(loop));
  }
}

function directionOf({ output }: LineUse): "in" | "high" | "low" {
  if (output === undefined) return "in";
  return output ? "high" : "low";
}

function refuseBias({ bias, debounceUs }: Pick<LineUse, "bias" | "debounceUs">): void {
  if (!bias && !debounceUs) return;
  const wanted = bias ? "set a pull resistor" : "debounce a line";
  throw new SvcError("unimplemented", `GPIO in sysfs cannot ${wanted}`);
}

function codeOf(cause: unknown): "permission_denied" | "resource_exhausted" | "not_found" | "unknown" {
  const code = (cause as { code?: string }).code;
  if (code === "EACCES" || code === "EPERM") return "permission_denied";
  if (code === "EBUSY") return "resource_exhausted";
  return code === "EINVAL" || code === "ENOENT" ? "not_found" : "unknown";
}

/** Loads the package with our class in place of the native one. */
async function loadOnoff(): Promise<OnoffClass> {
  const { default: Module } = await import("node:module");
  const modules: object & { _load?(request: string, ...rest: unknown[]): unknown } = Module;
  const load = modules._load!;
  modules._load = (request, ...rest) =>
    request === "epoll" ? { Epoll } : load.call(modules, request, ...rest);
  try {
    const { Gpio }: { Gpio: object } = await import("onoff");
    return Gpio as OnoffClass;
  } finally {
    modules._load = load;
  }
}

/**
 * The class `Epoll` of the package `epoll`, as far as `onoff` uses it: one file, one kind of event. It waits on a
 * device of the host, because not every Deno exposes the system's file numbers.
 */
class Epoll {
  static readonly EPOLLPRI = 2;
  #file: number | undefined;
  #closed = false;

  constructor(private readonly heard: (error: unknown, file: number, events: number) => void) {}

  /** Reports each change of the file until it is removed, then closes the device. */
  async follow(device: Device, failed: (error: SvcError) => void): Promise<void> {
    try {
      // A change counts as new until the file is read.
      device.read(LEVEL_BYTES, 0);
      while (!this.#closed) {
        if (!await device.urgent(LOOK_MS) || this.#closed) continue;
        device.read(LEVEL_BYTES, 0);
        if (this.#file !== undefined) this.heard(null, this.#file, Epoll.EPOLLPRI);
      }
    } catch (error) {
      if (!this.#closed) failed(SvcError.from(error));
    } finally {
      device.close();
    }
  }

  add(file: number): this {
    this.#file = file;
    return this;
  }

  remove(): this {
    this.#file = undefined;
    this.#closed = true;
    return this;
  }

  modify(): this {
    return this;
  }

  close(): void {
    this.remove();
  }
}
