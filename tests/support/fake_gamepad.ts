/**
 * Input devices without hardware, below the level of Linux's control calls: gamepads, and others that are none. Give it
 * as `devices` of a `FakeHost`.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Device } from "../../lib/base/host.ts";

const EVENT_BYTES = 24;
const [NAME, KEYS, AXES, KEY_STATES, AXIS] = [0x06, 0x21, 0x23, 0x18, 0x40];

export class FakeGamepad {
  readonly values = new Map<number, number>();
  readonly pressed = new Set<number>();
  readonly events: [type: number, code: number, value: number][] = [];
  gone = false;

  constructor(
    readonly name: string,
    readonly keys: readonly number[],
    /** By number: smallest and largest value, and the values around the middle that count as it. */
    readonly axes: Readonly<Record<number, readonly [min: number, max: number, flat?: number]>>,
  ) {}

  move(axis: number, value: number): void {
    this.values.set(axis, value);
    this.events.push([3, axis, value], [0, 0, 0]);
  }

  /** 0 for a release, 1 for a press, 2 for a repeat. */
  press(key: number, value: number): void {
    if (value === 0) this.pressed.delete(key);
    else this.pressed.add(key);
    this.events.push([1, key, value], [0, 0, 0]);
  }

  /** The kernel's buffer overflows: what happened is lost. */
  overflow(): void {
    this.events.splice(0, Infinity, [0, 3, 0]);
  }
}

export class FakeGamepads {
  readonly gamepads = new Map<string, FakeGamepad>();
  open = 0;

  openDevice(path: string): Device {
    const gamepad = this.gamepads.get(path);
    if (!gamepad) {
      throw new SvcError("not_found", `cannot open the device "${path}": No such file or directory`);
    }
    this.open++;
    const refuse = (): never => {
      throw new SvcError("invalid_argument", `cannot use the device "${path}": Invalid argument`);
    };
    let open = true;
    return {
      path,
      file: 0,
      control: (request, data) => answer(gamepad, request & 0xff, data),
      read: () => readEvents(gamepad, path),
      readable: () => Promise.resolve(gamepad.gone || gamepad.events.length > 0),
      urgent: () => Promise.resolve(false),
      tell: refuse,
      write: refuse,
      map: refuse,
      adopt: refuse,
      lock: () => true,
      follow: refuse,
      close: () => {
        if (open) this.open--;
        open = false;
      },
    };
  }

  readFolder(path: string): Promise<string[]> {
    const below = [...this.gamepads.keys()].filter((one) => one.startsWith(`${path}/`));
    return Promise.resolve(below.map((one) => one.slice(path.length + 1)));
  }

  realPath(path: string): Promise<string> {
    return Promise.resolve(path);
  }
}

function answer(gamepad: FakeGamepad, number: number, data: Uint8Array): void {
  const setBits = (numbers: Iterable<number>) => {
    for (const one of numbers) data[one >> 3] |= 1 << (one & 7);
  };
  if (number === NAME) data.set(new TextEncoder().encode(gamepad.name));
  else if (number === KEYS) setBits(gamepad.keys);
  else if (number === AXES) setBits(Object.keys(gamepad.axes).map(Number));
  else if (number === KEY_STATES) setBits(gamepad.pressed);
  else if (number >= AXIS && number < AXIS + 64) {
    const [min, max, flat = 0] = gamepad.axes[number - AXIS];
    const view = new DataView(data.buffer, data.byteOffset);
    [gamepad.values.get(number - AXIS) ?? 0, min, max, 0, flat, 0].forEach((value, index) =>
      view.setInt32(4 * index, value, true)
    );
  } else throw new SvcError("invalid_argument", "Invalid argument");
}

function readEvents(gamepad: FakeGamepad, path: string): Uint8Array<ArrayBuffer> {
  if (gamepad.gone) throw new SvcError("unavailable", `cannot read the device "${path}": No such device`);
  const events = gamepad.events.splice(0);
  const view = new DataView(new ArrayBuffer(EVENT_BYTES * events.length));
  for (const [index, [type, code, value]] of events.entries()) {
    view.setBigInt64(EVENT_BYTES * index, 1_700_000_000n, true);
    view.setUint16(EVENT_BYTES * index + 16, type, true);
    view.setUint16(EVENT_BYTES * index + 18, code, true);
    view.setInt32(EVENT_BYTES * index + 20, value, true);
  }
  return new Uint8Array(view.buffer);
}
