/**
 * A lidar of the RPLIDAR A series at a serial device. The driver keeps the newest turn and gives it on request; when
 * the lidar is unplugged or falls silent, it looks for it until it is back.
 */

import { CameraApi } from "../../../lib/api/sensors/camera.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import { RpLidarPort as RpLidarDevice, type Turn } from "../../../lib/device/rplidar.ts";
import { type Infer, integer, number, object, text } from "../../../lib/base/schema/schema.ts";
import { type Construction, model } from "../../../lib/resource/registry.ts";
import type { Call } from "../../../lib/resource/resource.ts";
import { Lidar, type LidarTurn } from "./lidar.ts";

const BAUD = 115_200;
const RECONNECT_MS = 1_000;
/** A lidar without a new turn for this long counts as gone. */
const STALLED_MS = 5_000;
/** How long a request waits for the first turn. */
const FIRST_TURN_MS = 5_000;
const M_PER_MM = 1e-3;
/** A turn takes from a twentieth of a second to half a second; the time follows the latest turns. */
const TURN_MS = { least: 50, most: 500, first: 180, share: 0.1 } as const;

const attributes = object({
  devicePath: text("the serial device").default("/dev/ttyUSB0"),
  baudRate: integer("bits per second: 115200 (A1, A2), or 256000 (A3 and late A2)", {
    min: 9600,
    max: 1_000_000,
  })
    .default(BAUD),
  minRangeMm: number("shorter ranges are left out, in millimetres", { min: 0 }).default(150),
}).required();

type Attributes = Infer<typeof attributes>;

export const RpLidar = model({
  api: CameraApi,
  name: "svc:lidar:rplidar",
  doc: "A 2D lidar of the RPLIDAR A series, at a serial device.",
  attributes,
  construct: async (from) => {
    const lidar = new RpLidarCamera(from);
    await lidar.connect();
    return lidar;
  },
});

class RpLidarCamera extends Lidar {
  readonly #closing = new AbortController();
  #device?: RpLidarDevice;
  #newest?: MeasuredTurn;
  #turnMs: number = TURN_MS.first;
  #arrived = Promise.withResolvers<void>();
  /** The reason for a missing turn. */
  #lost = "it has measured no turn yet";
  #work: Promise<void> = Promise.resolve();

  constructor(private readonly from: Construction<Attributes>) {
    super(from.name, from.clock);
  }

  /** Opens the lidar for the first time and keeps it open from then on. */
  async connect(): Promise<void> {
    this.#device = await this.#open();
    this.#work = this.#keepUp();
  }

  protected override async scan(call?: Call): Promise<LidarTurn> {
    if (this.#device && !this.#newest) await this.#first(call?.signal);
    if (this.#newest) {
      const { points, shares, endMs } = this.#newest;
      const ageMs = Math.min(STALLED_MS, this.clock.monotonicMs() - endMs);
      return { points, offsetsS: shares.map((share) => ((share - 1) * this.#turnMs - ageMs) / 1000) };
    }
    throw new SvcError("unavailable", `${this.name} has no scan: ${this.#lost}`);
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    await this.#work;
    this.#disconnect("it is closed");
  }

  /** Waits for the first turn, for at most `FIRST_TURN_MS`. */
  async #first(signal?: AbortSignal): Promise<void> {
    const waited = new AbortController();
    const ends = [waited.signal, this.#closing.signal, ...signal ? [signal] : []];
    const late = this.clock.sleep(FIRST_TURN_MS, AbortSignal.any(ends));
    late.catch(() => {});
    try {
      await Promise.race([this.#arrived.promise, late]);
    } finally {
      waited.abort();
    }
  }

  async #open(): Promise<RpLidarDevice> {
    const { host, attributes: { devicePath, baudRate }, clock, logger } = this.from;
    let device: RpLidarDevice | undefined;
    try {
      device = RpLidarDevice.open(host, devicePath, baudRate, clock);
      const { model, firmware, serialNumber, health, healthCode } = await device.identify();
      if (health === "error") {
        throw new SvcError("unavailable", `the lidar says that it is broken (${healthCode})`);
      }
      logger.info(`lidar of model ${model}, firmware ${firmware}, health ${health}`, {
        serial: serialNumber,
      });
      await device.start();
      return device;
    } catch (cause) {
      device?.close();
      const { code } = SvcError.from(cause);
      throw new SvcError(code, `${this.name} cannot use ${devicePath}: ${chainOf(cause)}`, { cause });
    }
  }

  /** Takes every turn until the lidar is closed. If the device is gone, looks for it again. */
  async #keepUp(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        if (this.#device) await this.#take(this.#device);
        else await this.#reconnect();
      } catch (cause) {
        if (this.#closing.signal.aborted) return;
        if (this.#device) this.from.logger.warn(`the lidar is gone; looking for it: ${chainOf(cause)}`);
        this.#disconnect(`${chainOf(cause)}; looking for it every ${RECONNECT_MS / 1000} s`);
      }
    }
  }

  async #take(device: RpLidarDevice): Promise<void> {
    let lastMs = this.clock.monotonicMs();
    while (!this.#closing.signal.aborted) {
      const turns = await device.turns(), turn = turns.at(-1);
      if (turn) {
        const endMs = this.clock.monotonicMs();
        this.#learnTurn((endMs - lastMs) / turns.length);
        this.#newest = { ...pointsOf(turn, this.from.attributes.minRangeMm), endMs };
        this.#arrived.resolve();
        lastMs = endMs;
      } else if (this.clock.monotonicMs() - lastMs > STALLED_MS) {
        throw new SvcError("unavailable", `no turn for ${STALLED_MS / 1000} s`);
      }
    }
  }

  /** Follows the time between the ends of two turns. */
  #learnTurn(ms: number): void {
    if (ms < TURN_MS.least || ms > TURN_MS.most) return;
    this.#turnMs += TURN_MS.share * (ms - this.#turnMs);
  }

  async #reconnect(): Promise<void> {
    await this.clock.sleep(RECONNECT_MS, this.#closing.signal);
    this.#device = await this.#open();
    this.from.logger.info("the lidar is back");
  }

  #disconnect(why: string): void {
    this.#device?.close();
    this.#device = undefined;
    this.#newest = undefined;
    this.#lost = why;
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
  }
}

interface TurnPoints {
  /** x, y, … in metres. */
  readonly points: Float32Array;
  /** For each point, the share of the turn that had passed. */
  readonly shares: Float32Array;
}

interface MeasuredTurn extends TurnPoints {
  /** When its last measurement came. */
  readonly endMs: number;
}

/** Angles of the lidar go clockwise; a range of 0 is no return. */
function pointsOf({ angleDeg, rangeMm }: Turn, minRangeMm: number): TurnPoints {
  const points = new Float32Array(2 * angleDeg.length), shares = new Float32Array(angleDeg.length);
  let to = 0;
  for (let n = 0; n < angleDeg.length; n++) {
    const range = rangeMm[n] ?? 0;
    if (range === 0 || range < minRangeMm) continue;
    const angle = -(angleDeg[n] ?? 0) * Math.PI / 180;
    shares[to >> 1] = (n + 1) / angleDeg.length;
    points[to++] = range * M_PER_MM * Math.cos(angle);
    points[to++] = range * M_PER_MM * Math.sin(angle);
  }
  return { points: points.slice(0, to), shares: shares.slice(0, to >> 1) };
}
