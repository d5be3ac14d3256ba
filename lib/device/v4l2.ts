/**
 * Video4Linux: a camera device's modes, and its pictures one after the other.
 *
 * Numbers and layouts are those of <linux/videodev2.h> on 64-bit Linux. Owns the device it opened. A stream holds the
 * newest picture and copies only requested ones.
 */

import type { Device, DeviceMemory, Devices } from "../base/host.ts";
import type { ReadFolders } from "../base/files/files.ts";
import { SvcError } from "../base/error.ts";
import { opened } from "./access.ts";
import { StructFields } from "./fields.ts";

const REQUEST = {
  capability: 0x80685600,
  format: 0xc0405602,
  setFormat: 0xc0d05605,
  buffers: 0xc0145608,
  buffer: 0xc0585609,
  enqueue: 0xc058560f,
  dequeue: 0xc0585611,
  start: 0x40045612,
  stop: 0x40045613,
  setRate: 0xc0cc5616,
  frameSize: 0xc02c564a,
  frameInterval: 0xc034564b,
} as const;

const VIDEO_CAPTURE = 1;
const MEMORY_MAP = 1;
const DISCRETE = 1;
const CAN_CAPTURE = 0x1;
const CAN_STREAM = 0x4000000;
const TELLS_OWN = 0x80000000;
const CAN_SET_RATE = 0x1000;
const BUFFER_BROKEN = 0x40;

/** Buffers for pictures; one of them holds the newest. */
const BUFFERS = 4;

/** Limit of listed modes, above any device's. */
const LISTED_MAX = 64;

/** Limit of the modes in an error. */
const LOGGED_MAX = 12;

/** The readable formats by their Video4Linux names, the cheapest first. */
const CAMERA_FORMATS = ["MJPG", "YUYV", "UYVY", "NV12", "NV21", "YU12"] as const;

export type CameraFormat = typeof CAMERA_FORMATS[number];

/** The size if the caller gives none. */
const WIDTH_PX = 640, HEIGHT_PX = 480;

/** The identity that a device reports. */
export interface Identity {
  readonly card: string;
  readonly bus: string;
  /** Whether it delivers pictures, rather than metadata or radio. */
  readonly captures: boolean;
}

/** One format and size of a device's pictures. */
export interface Mode {
  /** Four letters: `MJPG`, `YUYV`. */
  readonly format: string;
  readonly width: number;
  readonly height: number;
  /** Pictures per second, the most first; empty if the device reports none. */
  readonly rates: readonly number[];
}

export interface Streaming {
  readonly format: string;
  readonly width: number;
  readonly height: number;
  /** Bytes from the beginning of one row to the next; 0 for compressed pictures. */
  readonly rowBytes: number;
  /** `undefined` if the device reports none. */
  readonly framesPerSecond: number | undefined;
}

export class VideoDevice {
  readonly #memory: DeviceMemory[] = [];
  #held: { index: number; bytes: number } | undefined;
  #streaming: Streaming | undefined;

  private constructor(private readonly device: Device) {}

  /** Throws for a file that is not a Video4Linux device. */
  static open(host: Devices, path: string): VideoDevice {
    const device = opened(host, path);
    try {
      new StructFields(REQUEST.capability).sendTo(device);
      return new VideoDevice(device);
    } catch (cause) {
      device.close();
      throw cause;
    }
  }

  identity(): Identity {
    const fields = new StructFields(REQUEST.capability).sendTo(this.device);
    const [all, own] = [fields.get(84), fields.get(88)];
    const can = all & TELLS_OWN ? own : all;
    const captures = (can & CAN_CAPTURE) !== 0 && (can & CAN_STREAM) !== 0;
    return { card: fields.text(16, 32), bus: fields.text(48, 32), captures };
  }

  /** In the device's order. Of freely choosable sizes, only the smallest and the largest appear. */
  modes(): Mode[] {
    const formats = this.#list(REQUEST.format, (fields, index) => fields.set(0, index).set(4, VIDEO_CAPTURE))
      .map((fields) => fields.text(44, 4));
    return formats.flatMap((format) =>
      this.#sizes(format).map(([width, height]) => ({
        format,
        width,
        height,
        rates: this.#rates(format, width, height),
      }))
    );
  }

  /** Starts the stream as close to `mode` as the device can; returns the actual mode. */
  start(mode: Mode, framesPerSecond: number | undefined): Streaming {
    const asked = new StructFields(REQUEST.setFormat).set(0, VIDEO_CAPTURE).set(8, mode.width).set(
      12,
      mode.height,
    );
    const chosen = asked.set(16, codeOf(mode.format)).sendTo(this.device);
    this.#streaming = {
      width: chosen.get(8),
      height: chosen.get(12),
      format: chosen.text(16, 4),
      rowBytes: chosen.get(24),
      framesPerSecond: this.#setRate(framesPerSecond ?? mode.rates[0]),
    };

    const buffers = new StructFields(REQUEST.buffers).set(0, BUFFERS).set(4, VIDEO_CAPTURE).set(
      8,
      MEMORY_MAP,
    );
    const count = Math.min(buffers.sendTo(this.device).get(0), BUFFERS);
    if (count < 2) {
      throw new SvcError("resource_exhausted", `the device "${this.device.path}" has no memory for pictures`);
    }

    for (let index = 0; index < count; index++) {
      const buffer = bufferOf(REQUEST.buffer).set(0, index).sendTo(this.device);
      this.#memory.push(this.device.map(buffer.get(64), buffer.get(72)));
      this.#enqueue(index);
    }

    new StructFields(REQUEST.start).set(0, VIDEO_CAPTURE).sendTo(this.device);
    return this.#streaming;
  }

  /** Waits this long for a newer picture; returns whether there is one. Throws when the device is gone. */
  async next(withinMs: number): Promise<boolean> {
    if (!await this.device.readable(withinMs)) return false;
    let buffer;
    try {
      buffer = bufferOf(REQUEST.dequeue).sendTo(this.device);
    } catch (cause) {
      if (SvcError.from(cause).code === "aborted") return false;
      throw cause;
    }

    const [index, bytes, flags] = [buffer.get(0), buffer.get(8), buffer.get(12)];
    if (flags & BUFFER_BROKEN || bytes === 0) {
      this.#enqueue(index);
      return false;
    }

    const held = this.#held;
    this.#held = { index, bytes };
    if (held) this.#enqueue(held.index);

    return true;
  }

  /** A copy of the newest picture, in the device's format. */
  newest(): Uint8Array {
    const memory = this.#held && this.#memory[this.#held.index];
    if (!this.#held || !memory) {
      throw new SvcError("unavailable", `the device "${this.device.path}" has given no picture yet`);
    }
    return memory.read(this.#held.bytes);
  }

  close(): void {
    try {
      if (this.#streaming) new StructFields(REQUEST.stop).set(0, VIDEO_CAPTURE).sendTo(this.device);
    } catch {
      // The device is gone; only its resources remain to release.
    }
    this.#streaming = undefined;
    this.#held = undefined;
    this.device.close();
  }

  #enqueue(index: number): void {
    bufferOf(REQUEST.enqueue).set(0, index).sendTo(this.device);
  }

  /** Sets the rate and returns the device's choice; many devices have only one. */
  #setRate(framesPerSecond: number | undefined): number | undefined {
    if (framesPerSecond === undefined) return undefined;
    const fields = new StructFields(REQUEST.setRate).set(0, VIDEO_CAPTURE);
    // As a fraction, for rates such as 7.5.
    fields.set(12, 1000).set(16, Math.round(framesPerSecond * 1000));
    try {
      fields.sendTo(this.device);
    } catch (cause) {
      if (SvcError.from(cause).code === "unavailable") throw cause;
      return undefined;
    }
    const [numerator, denominator] = [fields.get(12), fields.get(16)];
    return (fields.get(4) & CAN_SET_RATE) !== 0 && numerator > 0 ? denominator / numerator : undefined;
  }

  #sizes(format: string): [width: number, height: number][] {
    const ask = (fields: StructFields, index: number) => fields.set(0, index).set(4, codeOf(format));
    return this.#list(REQUEST.frameSize, ask).flatMap((fields): [number, number][] =>
      fields.get(8) === DISCRETE
        ? [[fields.get(12), fields.get(16)]]
        : [[fields.get(12), fields.get(24)], [fields.get(16), fields.get(28)]]
    );
  }

  #rates(format: string, width: number, height: number): number[] {
    const ask = (fields: StructFields, index: number) =>
      fields.set(0, index).set(4, codeOf(format)).set(8, width).set(12, height);
    return this.#list(REQUEST.frameInterval, ask).filter((fields) => fields.get(20) > 0)
      .map((fields) => fields.get(24) / fields.get(20)).sort((a, b) => b - a);
  }

  /** All entries of a list: the device refuses the index after the last. */
  #list(request: number, ask: (fields: StructFields, index: number) => StructFields): StructFields[] {
    const listed: StructFields[] = [];
    while (listed.length < LISTED_MAX) {
      try {
        listed.push(ask(new StructFields(request), listed.length).sendTo(this.device));
      } catch (cause) {
        if (SvcError.from(cause).code === "unavailable") throw cause;
        break;
      }
      const [first] = listed;
      if (request !== REQUEST.format && first?.get(request === REQUEST.frameSize ? 8 : 16) !== DISCRETE) {
        break;
      }
    }
    return listed;
  }
}

/** Paths of the devices that may be cameras, by number. */
export async function videoPaths(host: ReadFolders): Promise<string[]> {
  const names = await host.readFolder("/dev").catch(() => []);
  const numbers = names.flatMap((name) => name.match(/^video(\d+)$/)?.[1] ?? []).map(Number);
  return numbers.sort((a, b) => a - b).map((number) => `/dev/video${number}`);
}

export interface FormatRequest {
  /** 0 for any. */
  readonly width: number;
  readonly height: number;
  readonly format: CameraFormat | undefined;
}

/**
 * The mode closest to the wish: the fitting size closest to 640 x 480, and its cheapest format. Throws
 * `invalid_argument` with the available modes.
 */
export function bestMode(modes: readonly Mode[], { width, height, format }: FormatRequest): Mode {
  const rank = (mode: Mode) => (CAMERA_FORMATS as readonly string[]).indexOf(mode.format);
  const distance = (mode: Mode) =>
    Math.abs(mode.width - (width || WIDTH_PX)) + Math.abs(mode.height - (height || HEIGHT_PX));
  const fitting = modes.filter((mode) =>
    rank(mode) >= 0 && (!width || mode.width === width) && (!height || mode.height === height) &&
    (!format || mode.format === format)
  );
  const [best] = fitting.toSorted((a, b) => distance(a) - distance(b) || rank(a) - rank(b));
  if (best) return best;

  const listed = modes.slice(0, LOGGED_MAX).map((mode) => `${mode.format} ${mode.width}x${mode.height}`);
  const there = [...listed, ...modes.length > LOGGED_MAX ? [`and ${modes.length - LOGGED_MAX} more`] : []]
    .join(
      ", ",
    );
  const size = width || height ? `${width || "any width"} x ${height || "any height"}` : "any size";
  const wanted = `${format ?? CAMERA_FORMATS.join(" or ")} of ${size}`;
  throw new SvcError("invalid_argument", `the camera offers ${there || "nothing"}, wanted ${wanted}`);
}

function bufferOf(request: number): StructFields {
  return new StructFields(request).set(4, VIDEO_CAPTURE).set(60, MEMORY_MAP);
}

function codeOf(format: string): number {
  return [...format].reduce((code, letter, index) => code + letter.charCodeAt(0) * 2 ** (8 * index), 0);
}
