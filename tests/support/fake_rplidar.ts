/**
 * A lidar of the RPLIDAR A series behind a pseudo-terminal: it answers the protocol byte for byte and turns as long as
 * it should.
 */

import type { Clock } from "../../lib/base/clock.ts";
import type { Devices } from "../../lib/base/host.ts";
import { SerialTerminal } from "../../lib/device/terminal.ts";

const NODES = 120;
const TURN_MS = 20;

export class FakeRpLidar {
  /** Requests that came, by their numbers. */
  readonly requests: number[] = [];
  health = 0;
  /** Precedes each turn: bytes that a bad line adds. */
  noise: readonly number[] = [];
  /** Millimetres in a direction, clockwise from ahead. */
  rangeMm: (angleDeg: number) => number = () => 2000;
  isSilent = false;
  readonly #terminal: SerialTerminal;
  readonly #ended: Promise<void>;
  readonly #stop = new AbortController();
  #isScanning = false;
  #turning: Promise<void> = Promise.resolve();

  constructor(host: Devices, private readonly clock: Clock) {
    this.#terminal = SerialTerminal.open(host);
    this.#ended = this.#serve();
  }

  /** The serial device. */
  get path(): string {
    return this.#terminal.path;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#isScanning = false;
    await this.#turning;
    await this.#terminal.close();
    await this.#ended;
  }

  async #serve(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      // The terminal ends its output whenever no program has the device open.
      for await (const bytes of this.#terminal.output(() => false)) await this.#answer(bytes);
      await this.clock.sleep(10, this.#stop.signal).catch(() => {});
    }
  }

  async #answer(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at] !== 0xa5) continue;
      const request = bytes[++at];
      this.requests.push(request);
      if (request === 0x25) await this.#halt();
      if (request === 0xf0) at += 4;
      if (this.isSilent) continue;
      if (request === 0x50) {
        await this.#send([
          0xa5,
          0x5a,
          20,
          0,
          0,
          0,
          0x04,
          0x18,
          29,
          1,
          7,
          ...Array.from({ length: 16 }, (_, n) => n),
        ]);
      }
      if (request === 0x52) await this.#send([0xa5, 0x5a, 3, 0, 0, 0, 0x06, this.health, 5, 0]);
      if (request === 0x20) {
        await this.#send([0xa5, 0x5a, 5, 0, 0, 0x40, 0x81]);
        this.#isScanning = true;
        this.#turning = this.#turn();
      }
    }
  }

  async #halt(): Promise<void> {
    this.#isScanning = false;
    await this.#turning;
  }

  async #turn(): Promise<void> {
    while (this.#isScanning) {
      const nodes = Array.from({ length: NODES }, (_, n) => this.#node(n)).flat();
      await this.#send([...this.noise, ...nodes]);
      await this.clock.sleep(TURN_MS);
    }
  }

  #node(index: number): number[] {
    const angleDeg = index * 360 / NODES;
    const [angle, range] = [Math.round(angleDeg * 64), Math.round(this.rangeMm(angleDeg) * 4)];
    const first = index === 0 ? 1 : 2;
    return [15 << 2 | first, (angle & 0x7f) << 1 | 1, angle >> 7, range & 0xff, range >> 8];
  }

  async #send(bytes: readonly number[]): Promise<void> {
    await this.#terminal.write(Uint8Array.from(bytes), this.clock, this.#stop.signal).catch(() => {});
  }
}
