/**
 * Cameras without hardware, below the level of Video4Linux's control calls: it answers `v4l2.ts` with a real device's
 * bytes, and refuses what a real one refuses.
 *
 * Give `openDevice`, `readFolder` and `realPath` to a user of a `Host` with cameras.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Device, DeviceMemory } from "../../lib/base/host.ts";

export interface FakeVideoOptions {
  readonly card?: string;
  /** The place that it is plugged in at. */
  readonly bus?: string;
  /** Each with its sizes, and the pictures a second of all of them. */
  readonly formats?: { readonly [format: string]: readonly (readonly [width: number, height: number])[] };
  readonly rates?: readonly number[];
  /** It gives metadata rather than pictures. */
  readonly metadata?: boolean;
  /** Called for each picture; without it a picture is grey, raw and whole. */
  readonly picture?: (format: string, width: number, height: number) => Uint8Array;
  /** A link to it that does not change. */
  readonly stablePath?: string;
}

const ROOM_BYTES = 1 << 22;
const BUFFER_BYTES = 88;

/** The cameras of a machine, by path; taking one away unplugs it. */
export class FakeVideos {
  readonly cameras = new Map<string, FakeVideo>();
  /** Devices that are open now. */
  open = 0;

  plug(path: string, camera: FakeVideo): FakeVideo {
    this.cameras.set(path, camera);
    return camera;
  }

  unplug(path: string): void {
    this.cameras.get(path)?.vanish();
    this.cameras.delete(path);
  }

  openDevice(path: string): Device {
    const camera = this.cameras.get(path) ??
      [...this.cameras.values()].find(({ options }) => options.stablePath === path);
    if (!camera) {
      throw new SvcError("not_found", `cannot open the device "${path}": No such file or directory`);
    }
    this.open++;
    return camera.opened(path, () => this.open--);
  }

  readFolder(path: string): Promise<string[]> {
    const stable = [...this.cameras.values()].flatMap(({ options }) => options.stablePath ?? []);
    const below = [...this.cameras.keys(), ...stable].filter((one) => one.startsWith(`${path}/`));
    return Promise.resolve(
      below.map((one) => one.slice(path.length + 1)).filter((one) => !one.includes("/")).sort(),
    );
  }

  realPath(path: string): Promise<string> {
    const found = [...this.cameras].find(([, { options }]) => options.stablePath === path);
    return Promise.resolve(found ? found[0] : path);
  }
}

function unsupported(path: string): never {
  throw new SvcError("invalid_argument", `cannot read or write the device "${path}": Invalid argument`);
}

export class FakeVideo {
  #streaming: { format: string; width: number; height: number } | undefined;
  #queued: number[] = [];
  #ready = 0;
  #gone = false;
  #memory = new Uint8Array(0);
  #wake = Promise.withResolvers<void>();
  #chosen = { format: "", width: 0, height: 0 };

  constructor(private readonly clock: Clock, readonly options: FakeVideoOptions = {}) {}

  /** The device has taken pictures, which are ready to fetch. */
  take(pictures = 1): void {
    this.#ready += pictures;
    this.#stir();
  }

  vanish(): void {
    this.#gone = true;
    this.#stir();
  }

  #stir(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  opened(path: string, closed: () => void): Device {
    let open = true;
    return {
      path,
      file: -1,
      tell: () => unsupported(path),
      adopt: () => unsupported(path),
      lock: () => true,
      follow: () => unsupported(path),
      urgent: () => Promise.resolve(false),
      control: (request, data) => this.#control(path, request, data),
      map: (offset, bytes): DeviceMemory => ({
        read: (wanted) => this.#memory.slice(offset, offset + Math.min(wanted, bytes)),
      }),
      read: () => unsupported(path),
      write: () => unsupported(path),
      readable: async (withinMs) => {
        if (!this.#some) await this.#orAwake(withinMs);
        return this.#some;
      },
      close: () => {
        if (open) closed();
        open = false;
      },
    };
  }

  get #some(): boolean {
    return this.#gone || this.#ready > 0 && this.#queued.length > 0;
  }

  async #orAwake(withinMs: number): Promise<void> {
    const over = new AbortController();
    const late = this.clock.sleep(withinMs, over.signal).catch(() => {});
    await Promise.race([this.#wake.promise, late]);
    over.abort();
  }

  #control(path: string, request: number, data: Uint8Array<ArrayBuffer>): void {
    const refuse = (code: "unavailable" | "invalid_argument" | "aborted", words: string): never => {
      throw new SvcError(code, `cannot control (0x${request.toString(16)}) the device "${path}": ${words}`);
    };
    if (this.#gone) refuse("unavailable", "No such device");
    if (data.length !== (request >>> 16 & 0x3fff)) refuse("invalid_argument", "Bad address");
    const answer = this.#answer(request & 0xff, new DataView(data.buffer), data);
    if (answer === "invalid") refuse("invalid_argument", "Invalid argument");
    if (answer === "nothing") refuse("aborted", "Resource temporarily unavailable");
  }

  /** By the number of the request. */
  #answer(number: number, view: DataView, data: Uint8Array): "invalid" | "nothing" | undefined {
    const get = (at: number) => view.getUint32(at, true);
    const set = (at: number, value: number) => view.setUint32(at, value, true);
    switch (number) {
      case 0:
        data.set(new TextEncoder().encode(this.options.card ?? "Fake Camera"), 16);
        data.set(new TextEncoder().encode(this.options.bus ?? ""), 48);
        set(84, 0x84a00001);
        set(88, this.options.metadata ? 0x4800000 : 0x4200001);
        return;
      case 2: {
        const format = this.#formats[get(0)];
        if (!format || get(4) !== 1) return "invalid";
        data.set(new TextEncoder().encode(format), 44);
        return;
      }
      case 5:
        return this.#setFormat(view, data);
      case 8:
        if (get(4) !== 1 || get(8) !== 1) return "invalid";
        this.#memory = new Uint8Array(get(0) * ROOM_BYTES);
        return;
      case 9:
        set(64, get(0) * ROOM_BYTES);
        set(72, ROOM_BYTES);
        return;
      case 15:
        if (this.#queued.includes(get(0))) return "invalid";
        this.#queued.push(get(0));
        this.#stir();
        return;
      case 17:
        return data.length === BUFFER_BYTES ? this.#dequeue(set) : "invalid";
      case 18:
        this.#streaming = this.#chosen;
        return;
      case 19:
        this.#streaming = undefined;
        this.#queued = [];
        return;
      case 22:
        return this.#setRate(view);
      case 74: {
        const size = this.#sizes(data.subarray(4, 8))?.[get(0)];
        if (!size) return "invalid";
        [1, size[0], size[1]].forEach((value, index) => set(8 + index * 4, value));
        return;
      }
      case 75: {
        const rate = this.#rates[get(0)];
        if (rate === undefined) return "invalid";
        [1, 10, rate * 10].forEach((value, index) => set(16 + index * 4, value));
        return;
      }
      default:
        return "invalid";
    }
  }

  get #formats(): string[] {
    return Object.keys(this.options.formats ?? { YUYV: [] });
  }

  get #rates(): readonly number[] {
    return this.options.rates ?? [30];
  }

  #sizes(format: Uint8Array): readonly (readonly [number, number])[] {
    return this.options.formats?.[new TextDecoder().decode(format)] ?? [[640, 480]];
  }

  /** Takes the nearest format, as drivers do. */
  #setFormat(view: DataView, data: Uint8Array): undefined {
    const asked = new TextDecoder().decode(data.subarray(16, 20));
    const format = this.#formats.includes(asked) ? asked : this.#formats[0];
    const distance = (size: readonly [number, number]) => Math.abs(size[0] - view.getUint32(8, true));
    const sizes = this.#sizes(new TextEncoder().encode(format));
    const [width, height] = sizes.toSorted((a, b) => distance(a) - distance(b))[0];
    this.#chosen = { format, width, height };
    data.set(new TextEncoder().encode(format), 16);
    const bytesPerPixel = { MJPG: 0, YUYV: 2, UYVY: 2 }[format] ?? 1;
    const rowBytes = width * bytesPerPixel;
    [[8, width], [12, height], [24, rowBytes]].forEach(([at, value]) => view.setUint32(at, value, true));
  }

  #setRate(view: DataView): undefined {
    const asked = view.getUint32(16, true) / view.getUint32(12, true);
    const [rate] = this.#rates.toSorted((a, b) => Math.abs(a - asked) - Math.abs(b - asked));
    [[4, 0x1000], [12, 10], [16, rate * 10]].forEach(([at, value]) => view.setUint32(at, value, true));
  }

  #dequeue(set: (at: number, value: number) => void): "invalid" | "nothing" | undefined {
    if (!this.#streaming) return "invalid";
    if (this.#ready === 0) return "nothing";
    const index = this.#queued.shift();
    if (index === undefined) return "nothing";
    this.#ready--;
    const { format, width, height } = this.#streaming;
    const bytes = this.options.picture?.(format, width, height) ??
      new Uint8Array(width * height * 2).fill(128);
    this.#memory.set(bytes, index * ROOM_BYTES);
    set(0, index);
    set(8, bytes.length);
  }
}
