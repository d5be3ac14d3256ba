/**
 * Input devices of Linux: the axes and keys of a gamepad, and its events one after the other.
 *
 * Numbers and layouts are those of <linux/input.h> on 64-bit Linux. Owns the device it opened.
 */

import type { Device, Devices } from "../base/host.ts";
import { opened } from "./access.ts";
import { StructFields } from "./fields.ts";

const REQUEST = {
  name: 0x81004506,
  keys: 0x80604521,
  axes: 0x80084523,
  keyStates: 0x80604518,
  /** Plus the number of the axis. */
  axis: 0x80184540,
} as const;
const NAME_BYTES = 256;
const AXES = 64;
const EVENT_BYTES = 24;
const EVENTS_READ_MAX = 64;
const [EV_SYN, EV_KEY, EV_ABS] = [0, 1, 3];
const SYN_DROPPED = 3;

export interface Axis {
  readonly min: number;
  readonly max: number;
  /** Values so close to the middle count as it. */
  readonly flat: number;
  readonly value: number;
}

/** `dropped`: events were lost, so the state must be read anew. */
export type DeviceEvent =
  | { readonly kind: "key" | "axis"; readonly code: number; readonly value: number; readonly timeMs: number }
  | { readonly kind: "dropped" };

export class InputDevice {
  readonly name: string;
  readonly #keys: Uint8Array;
  readonly #axes: Uint8Array;

  private constructor(private readonly device: Device) {
    this.name = new StructFields(REQUEST.name).sendTo(device).text(0, NAME_BYTES);
    this.#keys = new StructFields(REQUEST.keys).sendTo(device).bytes;
    this.#axes = new StructFields(REQUEST.axes).sendTo(device).bytes;
  }

  static open(host: Devices, path: string): InputDevice {
    const device = opened(host, path);
    try {
      return new InputDevice(device);
    } catch (cause) {
      device.close();
      throw cause;
    }
  }

  hasKey(code: number): boolean {
    return bit(this.#keys, code);
  }

  hasAxis(code: number): boolean {
    return code < AXES && bit(this.#axes, code);
  }

  axis(code: number): Axis {
    const fields = new StructFields(REQUEST.axis + code).sendTo(this.device);
    const signed = (at: number) => fields.get(at) | 0;
    return { value: signed(0), min: signed(4), max: signed(8), flat: signed(16) };
  }

  isPressed(code: number): boolean {
    return bit(new StructFields(REQUEST.keyStates).sendTo(this.device).bytes, code);
  }

  /** The events that arrive within this time; none if nothing happens. Throws when the device is gone. */
  async events(withinMs: number): Promise<DeviceEvent[]> {
    if (!await this.device.readable(withinMs)) return [];
    const bytes = this.device.read(EVENT_BYTES * EVENTS_READ_MAX);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const events: DeviceEvent[] = [];
    for (let at = 0; at + EVENT_BYTES <= bytes.length; at += EVENT_BYTES) {
      const event = eventAt(view, at);
      if (event) events.push(event);
    }
    return events;
  }

  close(): void {
    this.device.close();
  }
}

function eventAt(view: DataView, at: number): DeviceEvent | undefined {
  const type = view.getUint16(at + 16, true), code = view.getUint16(at + 18, true);
  if (type === EV_SYN && code === SYN_DROPPED) return { kind: "dropped" };
  if (type !== EV_KEY && type !== EV_ABS) return undefined;
  const timeMs = Number(view.getBigInt64(at, true)) * 1000 + Number(view.getBigInt64(at + 8, true)) / 1000;
  return { kind: type === EV_KEY ? "key" : "axis", code, value: view.getInt32(at + 20, true), timeMs };
}

function bit(bytes: Uint8Array, number: number): boolean {
  return ((bytes[number >> 3] ?? 0) >> (number & 7) & 1) === 1;
}
