/**
 * GPIO chips through the kernel's character device (uAPI version 2, Linux 5.10 and later).
 *
 * Numbers and layouts are those of <linux/gpio.h>. Owns the devices it opened; the kernel releases their lines when
 * they close or the process ends.
 */

import { SvcError } from "../base/error.ts";
import type { Device, Devices } from "../base/host.ts";
import { opened } from "./access.ts";
import { StructFields } from "./fields.ts";

const REQUEST = {
  chip: 0x8044b401,
  line: 0xc100b405,
  lines: 0xc250b407,
  settings: 0xc110b40d,
  values: 0xc010b40e,
  setValues: 0xc010b40f,
} as const;

const FLAG = {
  used: 1n << 0n,
  input: 1n << 2n,
  output: 1n << 3n,
  rising: 1n << 4n,
  falling: 1n << 5n,
  pullUp: 1n << 8n,
  pullDown: 1n << 9n,
  noBias: 1n << 10n,
} as const;

const BIAS = { up: FLAG.pullUp, down: FLAG.pullDown, none: FLAG.noBias } as const;

const OUTPUT_VALUES = 2;
const DEBOUNCE = 3;
const NAME_BYTES = 32;
/** Offsets of the settings in a request for lines, and in the message that changes them. */
const SETTINGS_IN_REQUEST = 288;
/** Offset of the attributes in settings, and the size of an attribute. */
const ATTRIBUTES = 32, ATTRIBUTE_BYTES = 24;

/** Limit of lines in a request, and of queued events per line. */
const LINES_MAX = 64;
const EVENTS_PER_LINE = 16;
const EVENT_BYTES = 48;
const RISING = 1;

/** A batch has the capacity of the kernel's buffer. */
export const EVENT_BATCH_BYTES = LINES_MAX * EVENTS_PER_LINE * EVENT_BYTES;

export type Bias = keyof typeof BIAS;

export const BIASES = Object.keys(BIAS) as Bias[];

export interface ChipInfo {
  /** `gpiochip0`, and the name of its hardware: `pinctrl-bcm2711`. */
  readonly name: string;
  readonly label: string;
  readonly lines: number;
}

export interface LineInfo {
  readonly offset: number;
  /** Empty if the line has none. */
  readonly name: string;
  /** The user of the line; undefined for a free line. */
  readonly user: string | undefined;
  readonly output: boolean;
}

/** The use of a line. */
export interface LineUse {
  /** The level of an output; undefined for an input. */
  readonly output?: boolean;
  readonly bias?: Bias;
  /** Whether edges of an input are reported. */
  readonly edges?: boolean;
  readonly debounceUs?: number;
}

/** One edge of a line. */
export interface Edge {
  readonly offset: number;
  readonly high: boolean;
  /** Nanoseconds of the system's monotonic clock, taken by the kernel in the interrupt. */
  readonly timeNs: bigint;
  /** Counts the edges of all lines of the request, and of this line, from 1; a gap counts lost edges. */
  readonly number: number;
  readonly lineNumber: number;
}

export class GpioChip {
  private constructor(private readonly device: Device, readonly info: ChipInfo) {}

  /** Throws for a file that is not a GPIO chip. */
  static open(host: Devices, path: string): GpioChip {
    const device = opened(host, path);
    try {
      const fields = new StructFields(REQUEST.chip).sendTo(device);
      const [name, label] = [fields.text(0, NAME_BYTES), fields.text(NAME_BYTES, NAME_BYTES)];
      return new GpioChip(device, { name, label, lines: fields.get(2 * NAME_BYTES) });
    } catch (cause) {
      device.close();
      throw cause;
    }
  }

  line(offset: number): LineInfo {
    const fields = new StructFields(REQUEST.line).set(64, offset).sendTo(this.device);
    const flags = fields.get64(72);
    return {
      offset,
      name: fields.text(0, NAME_BYTES),
      user: flags & FLAG.used ? fields.text(NAME_BYTES, NAME_BYTES) || "somebody" : undefined,
      output: (flags & FLAG.output) !== 0n,
    };
  }

  /** Requests lines for this process alone, each with its own use; `consumer` is the user that other programs see. */
  request(offsets: readonly number[], uses: readonly LineUse[], consumer: string): GpioLines {
    if (offsets.length > LINES_MAX) {
      throw new SvcError("invalid_argument", `found ${offsets.length} lines, wanted ${LINES_MAX} at most`);
    }
    const fields = new StructFields(REQUEST.lines);
    offsets.forEach((offset, index) => fields.set(4 * index, offset));
    fields.setText(256, NAME_BYTES, consumer);
    writeUses(fields, SETTINGS_IN_REQUEST, uses);
    fields.set(560, offsets.length).set(564, LINES_MAX * EVENTS_PER_LINE).sendTo(this.device);
    const path = `${this.device.path} (${offsets.map((one) => `line ${one}`).join(", ")})`;
    return new GpioLines(this.device.adopt(fields.get(588), path), offsets.length);
  }

  close(): void {
    this.device.close();
  }
}

/** The lines that this process holds until it closes them. */
export class GpioLines {
  constructor(readonly device: Device, private readonly count: number) {}

  get(index: number): boolean {
    const mask = 1n << BigInt(index);
    return (new StructFields(REQUEST.values).set64(8, mask).sendTo(this.device).get64(0) & mask) !== 0n;
  }

  set(index: number, high: boolean): void {
    valuesMessage(index, high).sendTo(this.device);
  }

  change(uses: readonly LineUse[]): void {
    const fields = new StructFields(REQUEST.settings);
    writeUses(fields, 0, uses.slice(0, this.count));
    fields.sendTo(this.device);
  }

  close(): void {
    this.device.close();
  }
}

/** The control call by which a thread switches a line, and its message for each level. */
export function switchOf(index: number): { request: number; on: Uint8Array; off: Uint8Array } {
  const message = (high: boolean) => valuesMessage(index, high).bytes;
  return { request: REQUEST.setValues, on: message(true), off: message(false) };
}

function valuesMessage(index: number, high: boolean): StructFields {
  const mask = 1n << BigInt(index);
  return new StructFields(REQUEST.setValues).set64(0, high ? mask : 0n).set64(8, mask);
}

/** The edges in the bytes of a request's file. */
export function decodeEdges(bytes: Uint8Array<ArrayBuffer>): Edge[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const edges: Edge[] = [];
  for (let at = 0; at + EVENT_BYTES <= bytes.length; at += EVENT_BYTES) {
    edges.push({
      timeNs: view.getBigUint64(at, true),
      high: view.getUint32(at + 8, true) === RISING,
      offset: view.getUint32(at + 12, true),
      number: view.getUint32(at + 16, true),
      lineNumber: view.getUint32(at + 20, true),
    });
  }
  return edges;
}

/**
 * The first line's flags apply to all lines; other flags need an attribute. There is room for ten, so equal flags share
 * one.
 */
function writeUses(fields: StructFields, at: number, uses: readonly LineUse[]): void {
  const attributes = new Map<string, { id: number; value: bigint; mask: bigint }>();
  const add = (id: number, value: bigint, index: number) => {
    const key = `${id} ${value}`;
    const found = attributes.get(key) ?? { id, value, mask: 0n };
    attributes.set(key, { ...found, mask: found.mask | 1n << BigInt(index) });
  };
  const [common = 0n] = uses.map(flagsOf);
  let high = 0n, outputs = 0n;
  for (const [index, use] of uses.entries()) {
    const flags = flagsOf(use);
    if (flags !== common) add(1, flags, index);
    if (use.debounceUs) add(DEBOUNCE, BigInt(use.debounceUs), index);
    if (use.output !== undefined) outputs |= 1n << BigInt(index);
    if (use.output) high |= 1n << BigInt(index);
  }

  if (outputs !== 0n) attributes.set("outputs", { id: OUTPUT_VALUES, value: high, mask: outputs });
  if (attributes.size > 10) {
    const wanted = "wanted at most 10 different settings of bias and debounce on one chip";
    throw new SvcError("invalid_argument", `found ${attributes.size}, ${wanted}`);
  }

  fields.set64(at, common).set(at + 8, attributes.size);
  [...attributes.values()].forEach(({ id, value, mask }, index) => {
    const place = at + ATTRIBUTES + index * ATTRIBUTE_BYTES;
    fields.set(place, id).set64(place + 8, value).set64(place + 16, mask);
  });
}

function flagsOf({ output, bias, edges }: LineUse): bigint {
  const direction = output === undefined ? FLAG.input : FLAG.output;
  const reported = edges ? FLAG.rising | FLAG.falling : 0n;
  return direction | reported | (bias ? BIAS[bias] : 0n);
}
