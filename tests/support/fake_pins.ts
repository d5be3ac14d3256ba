/**
 * The pins and buses of a computer without hardware, below the level of the kernel's control calls: it answers requests
 * with the kernel's bytes, and refuses what the kernel refuses.
 *
 * Give it as `devices` of a `FakeHost`.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Device, Follower, Lateness, Pointed, Pulse, PulseLine, Pulses } from "../../lib/base/host.ts";

const EVENT_BYTES = 48;
const SET_TIMEOUT = 0x0702;

export class FakeLine {
  /** The circuit pulls it up; an output drives it. */
  pulled = false;
  driven?: boolean;
  user = "";
  flags = 0n;
  debounceUs = 0;

  constructor(readonly name: string) {}

  get high(): boolean {
    return this.driven ?? this.pulled;
  }
}

interface Request {
  readonly chip: FakeChip;
  readonly offsets: readonly number[];
  follower?: Follower;
  events: number;
  readonly lineEvents: number[];
}

export class FakeChip {
  readonly lines: FakeLine[];
  readonly requests = new Set<Request>();
  /** Called when an output changes its level. */
  onDriven?: (offset: number, high: boolean) => void;
  /** It was unplugged: what is open on it fails for ever. */
  isGone = false;

  constructor(
    readonly name: string,
    readonly label: string,
    lines: number,
    names: Record<number, string> = {},
  ) {
    this.lines = Array.from({ length: lines }, (_, offset) => new FakeLine(names[offset] ?? ""));
  }

  /** The circuit pulls the line; watchers get the edge, unless `lost`. */
  pull(offset: number, up: boolean, timeNs = 0n, lost = false): void {
    const line = this.lines[offset];
    if (line.pulled === up) return;
    line.pulled = up;
    for (const request of this.requests) {
      const index = request.offsets.indexOf(offset);
      if (index < 0 || !request.follower) continue;
      const event = new DataView(new ArrayBuffer(EVENT_BYTES));
      event.setBigUint64(0, timeNs, true);
      event.setUint32(8, up ? 1 : 2, true);
      event.setUint32(12, offset, true);
      event.setUint32(16, ++request.events, true);
      event.setUint32(20, ++request.lineEvents[index], true);
      if (!lost) request.follower.heard(new Uint8Array(event.buffer));
    }
  }
}

/** The registers of a device on an I2C bus, as bytes or words. */
export class FakeI2c {
  readonly bytes = new Uint8Array(256);
  readonly words = new Map<number, number>();
  /** The device does not answer. */
  gone = false;
}

/** One wire's pulses, as the thread would make them. */
export interface FakePulse {
  readonly wire: PulseLine;
  periodNs: number;
  onNs: number;
  running: boolean;
}

export class FakePins {
  readonly chips = new Map<string, FakeChip>();
  /** By bus and address: `/dev/i2c-1 64`. */
  readonly i2c = new Map<string, FakeI2c>();
  /** By path of a bus: the limit of its waits, in milliseconds. */
  readonly waits = new Map<string, number>();
  /** By path: the answer of a device on SPI. */
  readonly spi = new Map<string, (sent: Uint8Array) => Uint8Array>();
  /** By path: a serial line's next data; empty for none. */
  readonly serial = new Map<string, () => string>();
  /** Paths of serial lines whose adapter was unplugged: readable for ever, without bytes. */
  readonly unplugged = new Set<string>();
  readonly forbidden = new Set<string>();
  readonly pulses: FakePulse[] = [];
  open = 0;
  readonly #requests: Request[] = [];
  /** By path: what a serial line has for its next reader. */
  readonly #printed = new Map<string, string>();
  /** Paths of devices that one opening has for itself. */
  readonly #locked = new Set<string>();

  chip(name: string, label: string, lines: number, names?: Record<number, string>): FakeChip {
    const chip = new FakeChip(name, label, lines, names);
    this.chips.set(name, chip);
    return chip;
  }

  /** Unplugs a chip; watchers learn of it. */
  unplug(chip: FakeChip): void {
    chip.isGone = true;
    this.chips.delete(chip.name);
    for (const { follower } of chip.requests) {
      follower?.failed(error("unavailable", "read", `/dev/${chip.name}`, "No such device"));
    }
  }

  /** Whether it has a device at this path. */
  has(path: string): boolean {
    const bus = [...this.i2c.keys()].some((key) => key.startsWith(`${path} `));
    return this.chips.has(path.slice("/dev/".length)) || bus || this.spi.has(path) || this.serial.has(path);
  }

  openDevice(path: string): Device {
    if (this.forbidden.has(path)) throw error("permission_denied", "open", path, "Permission denied");
    const chip = this.chips.get(path.slice("/dev/".length));
    const bus = path.startsWith("/dev/i2c-") &&
      [...this.i2c.keys()].some((key) => key.startsWith(`${path} `));
    const there = chip || bus || this.spi.has(path) || this.serial.has(path);
    if (!there) throw error("not_found", "open", path, "No such file or directory");
    let address = 0;
    return this.#device(path, {
      tell: (request, value) => {
        if (request === SET_TIMEOUT) this.waits.set(path, 10 * value);
        else address = value;
      },
      control: (request, data, pointed) => {
        if (chip) return this.#control(chip, request, data);
        if (bus) return this.#smbus(path, address, data, pointed[0].bytes);
        // The mode of a bus and the settings of a serial line are accepted as they are.
        if (pointed.length === 2) pointed[1].bytes.set(this.spi.get(path)!(pointed[0].bytes));
      },
    });
  }

  openPulses(): Pulses {
    return {
      attach: (wire): Pulse => {
        const pulse: FakePulse = { wire, periodNs: 0, onNs: 0, running: false };
        this.pulses.push(pulse);
        return {
          set: (periodNs, onNs) => void Object.assign(pulse, { periodNs, onNs, running: true }),
          end: () => Promise.resolve(void (pulse.running = false)),
        };
      },
      lateness: (): Lateness => ({ switches: 0, p50Us: 0, p99Us: 0, maxUs: 0 }),
      close: () => Promise.resolve(),
    };
  }

  readFolder(path: string): Promise<string[]> {
    const all = [...[...this.chips.keys()].map((name) => `/dev/${name}`), ...this.serial.keys()];
    return Promise.resolve(
      all.filter((one) => one.startsWith(`${path}/`)).map((one) => one.slice(path.length + 1)).sort(),
    );
  }

  realPath(path: string): Promise<string> {
    return Promise.resolve(path);
  }

  #device(
    path: string,
    { tell, control, follow, closed = () => {} }: {
      tell?: (request: number, value: number) => void;
      control: (request: number, data: Uint8Array<ArrayBuffer>, pointed: readonly Pointed[]) => void;
      follow?: (follower: Follower) => void;
      closed?: () => void;
    },
  ): Device {
    const refuse = (): never => {
      throw error("invalid_argument", "use", path, "Invalid argument");
    };
    let [open, isLocked] = [true, false];
    this.open++;
    return {
      path,
      file: this.open,
      tell: tell ?? refuse,
      control: (request, data, pointed = []) => control(request, data, pointed),
      read: () => this.#say(path),
      write: refuse,
      map: refuse,
      readable: () => Promise.resolve(this.#isReadable(path)),
      urgent: () => Promise.resolve(false),
      lock: () => {
        isLocked ||= !this.#locked.has(path);
        if (isLocked) this.#locked.add(path);
        return isLocked;
      },
      adopt: (file, adopted) => this.#lines(this.#requests[file], adopted),
      follow: (_batchBytes, follower) => {
        follow?.(follower);
        return () => Promise.resolve();
      },
      close: () => {
        if (!open) return;
        open = false;
        this.open--;
        if (isLocked) this.#locked.delete(path);
        closed();
      },
    };
  }

  /** A line that fails is readable, as the error is what there is to read. */
  #isReadable(path: string): boolean {
    if (this.unplugged.has(path)) return true;
    const printed = this.serial.get(path);
    if (!printed) return true;
    this.#printed.set(path, (this.#printed.get(path) ?? "") + printed());
    return this.#printed.get(path) !== "";
  }

  #say(path: string): Uint8Array<ArrayBuffer> {
    if (this.unplugged.has(path)) return new Uint8Array();
    if (!this.serial.has(path)) throw error("unavailable", "read", path, "Input/output error");
    const printed = this.#printed.get(path) ?? "";
    this.#printed.delete(path);
    return new TextEncoder().encode(printed);
  }

  #lines(request: Request, path: string): Device {
    const { chip, offsets } = request;
    return this.#device(path, {
      control: (number, data) => {
        if (chip.isGone) throw error("unavailable", "control", path, "No such device");
        const view = new DataView(data.buffer);
        if ((number & 0xff) === 0x0d) return apply(chip, offsets, view, 0);
        const mask = view.getBigUint64(8, true);
        let values = view.getBigUint64(0, true);
        for (const [index, offset] of offsets.entries()) {
          const bit = 1n << BigInt(index);
          if ((mask & bit) === 0n) continue;
          if ((number & 0xff) === 0x0f) drive(chip, offset, (values & bit) !== 0n);
          else values = chip.lines[offset].high ? values | bit : values & ~bit;
        }
        view.setBigUint64(0, values, true);
      },
      follow: (follower) => request.follower = follower,
      closed: () => {
        chip.requests.delete(request);
        for (const offset of offsets) {
          Object.assign(chip.lines[offset], { user: "", driven: undefined, flags: 0n });
        }
      },
    });
  }

  #control(chip: FakeChip, request: number, data: Uint8Array<ArrayBuffer>): void {
    const view = new DataView(data.buffer);
    const text = (at: number, value: string) => data.set(new TextEncoder().encode(value), at);
    const path = `/dev/${chip.name}`;
    if (chip.isGone) throw error("unavailable", "control", path, "No such device");
    switch (request & 0xff) {
      case 0x01:
        text(0, chip.name);
        text(32, chip.label);
        return view.setUint32(64, chip.lines.length, true);
      case 0x05: {
        const line = chip.lines[view.getUint32(64, true)];
        if (!line) throw error("invalid_argument", "control", path, "Invalid argument");
        text(0, line.name);
        text(32, line.user);
        return view.setBigUint64(72, line.flags | (line.user ? 1n : 0n), true);
      }
      case 0x07: {
        const count = view.getUint32(560, true);
        const offsets = Array.from({ length: count }, (_, index) => view.getUint32(4 * index, true));
        if (offsets.some((offset) => chip.lines[offset]?.user)) {
          throw error("resource_exhausted", "control", path, "Device or resource busy");
        }
        apply(chip, offsets, view, 288);
        const consumer = new TextDecoder().decode(data.subarray(256, 288)).replace(/\0.*$/, "");
        for (const offset of offsets) chip.lines[offset].user = consumer;
        const made: Request = { chip, offsets, events: 0, lineEvents: offsets.map(() => 0) };
        chip.requests.add(made);
        return view.setUint32(588, this.#requests.push(made) - 1, true);
      }
      default:
        throw error("unimplemented", "control", path, "Inappropriate ioctl for device");
    }
  }

  /** Bytes, words and blocks of registers. */
  #smbus(path: string, address: number, message: Uint8Array, data: Uint8Array): void {
    const device = this.i2c.get(`${path} ${address}`);
    if (!device || device.gone) throw error("unavailable", "control", path, "Remote I/O error");
    const [direction, register, , , kind] = message;
    const reads = direction === 1;
    if (kind === 2 && reads) data[0] = device.bytes[register];
    else if (kind === 2) device.bytes[register] = data[0];
    else if (kind === 3 && reads) {
      const word = device.words.get(register) ?? 0;
      data.set([word >> 8, word & 0xff]);
    } else if (kind === 3) device.words.set(register, data[0] << 8 | data[1]);
    else data.set(device.bytes.subarray(register, register + data[0]), 1);
  }
}

/** Settings of lines, as they stand in a message. */
function apply(chip: FakeChip, offsets: readonly number[], view: DataView, at: number): void {
  const attributes = Array.from({ length: view.getUint32(at + 8, true) }, (_, index) => {
    const place = at + 32 + 24 * index;
    return {
      id: view.getUint32(place, true),
      value: view.getBigUint64(place + 8, true),
      mask: view.getBigUint64(place + 16, true),
    };
  });
  for (const [index, offset] of offsets.entries()) {
    const line = chip.lines[offset];
    const own = attributes.filter(({ mask }) => (mask >> BigInt(index) & 1n) === 1n);
    line.flags = own.find(({ id }) => id === 1)?.value ?? view.getBigUint64(at, true);
    line.debounceUs = Number(own.find(({ id }) => id === 3)?.value ?? 0n);
    const values = own.find(({ id }) => id === 2)?.value ?? 0n;
    drive(chip, offset, line.flags & 8n ? (values >> BigInt(index) & 1n) === 1n : undefined);
    if (line.flags & 0x100n) line.pulled = true;
    if (line.flags & 0x200n) line.pulled = false;
  }
}

function drive(chip: FakeChip, offset: number, high: boolean | undefined): void {
  const line = chip.lines[offset];
  const before = line.driven;
  line.driven = high;
  if (high !== undefined && high !== before) chip.onDriven?.(offset, high);
}

function error(code: SvcError["code"], verb: string, path: string, words: string): SvcError {
  return new SvcError(code, `cannot ${verb} the device "${path}": ${words}`);
}
