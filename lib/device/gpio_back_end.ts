/**
 * The two ways to a computer's pins, and the choice between them: the GPIO character device or, on kernels without it,
 * the older files of sysfs.
 */

import { SvcError } from "../base/error.ts";
import type { Devices, PulseLine } from "../base/host.ts";
import type { ReadFiles } from "../base/files/files.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { type Bias, type ChipInfo, type Edge, GpioChip, type LineInfo, type LineUse } from "./gpio.ts";

export interface LineAddress {
  /** `gpiochip0` */
  readonly chip: string;
  readonly offset: number;
}

/** A chip with its lines and their users. */
export interface ChipLines extends ChipInfo {
  readonly all: readonly LineInfo[];
}

/** A line that this process owns until it closes it. */
export interface HeldLine {
  get(): boolean;
  set(high: boolean): void;
  /** Configures it as an input or an output. */
  use(use: LineUse): void;
  /** The wire by which a thread switches it. */
  readonly wire: PulseLine;
  close(): void;
}

export interface WatchedLine {
  readonly offset: number;
  readonly bias?: Bias;
  readonly debounceUs?: number;
}

export interface EdgeListener {
  heard(edges: readonly Edge[]): void;
  /** Called once, if no more edges can come. */
  failed(error: SvcError): void;
}

/** Reports the edges of one chip's inputs. */
export interface EdgeWatch {
  get(offset: number): boolean;
  close(): Promise<void>;
}

export interface GpioBackEnd {
  readonly kind: BackEndKind;
  chips(): Promise<ChipLines[]>;
  hold(line: LineAddress, use: LineUse): Promise<HeldLine>;
  watch(chip: string, lines: readonly WatchedLine[], listener: EdgeListener): Promise<EdgeWatch>;
  close(): void;
}

export const BACK_ENDS = ["character_device", "sysfs"] as const;

export type BackEndKind = typeof BACK_ENDS[number];

/** The facts about this computer's pins. */
export interface GpioFacts {
  readonly os: string;
  /** Names of the character devices. */
  readonly chips: readonly string[];
  /** Why the first of them is unusable, if it is. */
  readonly refusal?: SvcError;
  /** Whether the kernel has GPIO in sysfs. */
  readonly sysfs: boolean;
}

const CHIP = /^gpiochip(\d+)$/;
const EXPORT = "/sys/class/gpio/export";

/** The names of the character devices, by number. */
export async function chipNames(host: ReadFiles): Promise<string[]> {
  const names = await host.readFolder("/dev").catch(() => []);
  const numbers = names.flatMap((name) => CHIP.exec(name)?.[1] ?? []).map(Number);
  return numbers.sort((a, b) => a - b).map((number) => `gpiochip${number}`);
}

export async function probeGpio(host: ReadFiles & Devices, os: string): Promise<GpioFacts> {
  const chips = await chipNames(host);
  const sysfs = await host.stat(EXPORT) !== undefined;
  const [first] = chips;
  return { os, chips, sysfs, refusal: first === undefined ? undefined : refusalOf(host, first) };
}

function refusalOf(host: Devices, name: string): SvcError | undefined {
  try {
    const chip = GpioChip.open(host, `/dev/${name}`);
    try {
      // Older kernels have the device, but not version 2 of its calls.
      if (chip.info.lines > 0) chip.line(0);
    } finally {
      chip.close();
    }
    return undefined;
  } catch (cause) {
    return SvcError.from(cause);
  }
}

/**
 * The way to use on this computer; `wanted` is the configured one. A missing permission is an error even if sysfs would
 * work, because the machine's owner should learn of it.
 */
export function chooseBackEnd(facts: GpioFacts, wanted?: BackEndKind): BackEndKind {
  const { os, chips, refusal, sysfs } = facts;
  if (os !== "linux") throw new SvcError("unimplemented", `pins work on Linux only, this is ${os}`);
  const device = chips.length > 0 && !refusal;
  if (wanted === "sysfs" && !sysfs) {
    throw new SvcError("not_found", `${EXPORT} does not exist: this kernel has no GPIO in sysfs`);
  }
  if (wanted === "sysfs" || wanted === undefined && !device && sysfs && !isForbidden(refusal)) return "sysfs";
  if (device) return "character_device";
  if (refusal) throw refusal;
  const hint = "is its driver loaded, and is it enabled in the device tree?";
  throw new SvcError("not_found", `this computer has no GPIO chip (/dev/gpiochip*): ${hint}`);
}

/** Every line with its user, for the status. */
export function lineTable(chips: readonly ChipLines[]): JsonObject[] {
  return chips.map(({ name, label, all }) => ({
    name,
    label,
    free: all.filter(({ user }) => user === undefined).length,
    lines: all.map(({ offset, name: line, user, output }) => ({
      line: offset,
      name: line,
      used_by: user ?? "",
      output,
    })),
  }));
}

function isForbidden(refusal: SvcError | undefined): boolean {
  return refusal?.code === "permission_denied";
}
