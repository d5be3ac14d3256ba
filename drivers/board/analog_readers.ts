/**
 * The analogs of a Linux board: channels of an MCP3008 on SPI, or of any converter that the kernel has a driver for
 * (industrial I/O).
 *
 * The MCP3008's protocol is that of its data sheet (Microchip DS21295): a start bit, four bits that choose a single
 * channel, then ten bits of value.
 */

import type { AnalogReading } from "../../lib/api/actuators/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Infer, integer, object, text } from "../../lib/base/schema/schema.ts";
import { IioChannel } from "../../lib/device/iio.ts";
import { SpiDevice } from "../../lib/device/spi.ts";
import type { ModelHost } from "../../lib/resource/registry.ts";

/** At 2.7 V the MCP3008 takes 1.35 MHz. */
const MCP3008_HZ = 1_000_000;
const MCP3008_CHANNELS = 8;
const MCP3008_BITS = 10;

export const analogField = object({
  name: text("name of the analog").required(),
  pin: text("channel of an MCP3008 on SPI, 0 to 7"),
  spiBus: text("bus of the MCP3008: 0 for /dev/spidev0.*").default("0"),
  chipSelect: text("chip select of the MCP3008: 0 for /dev/spidev*.0").default("0"),
  iio: text("instead of an MCP3008, a channel that the kernel reads: ads1015/voltage0"),
  bits: integer("with iio: bits of the converter, which give the largest value", { min: 1, max: 31 }).default(
    12,
  ),
  averageOverMs: integer("answer with the average over this time", { min: 0, max: 60_000 }).default(0),
  samplesPerSec: integer("with average_over_ms: how often the channel is read", { min: 1, max: 1000 })
    .zeroIsAbsent().default(10),
}).with((analog, at) => {
  if (analog.iio) return analog;
  const channel = Number(analog.pin ?? NaN);
  if (Number.isInteger(channel) && channel >= 0 && channel < MCP3008_CHANNELS) return analog;
  return at.at("pin").wanted("a channel of an MCP3008, 0 to 7, or a channel in `iio`", analog.pin);
});

export type AnalogSettings = NonNullable<Infer<typeof analogField>>;

interface Channel {
  readonly maxValue: number;
  read(): Promise<number>;
  write?(value: number): Promise<void>;
  close?(): void;
}

export class AnalogReader {
  #cancel?: () => void;
  #isClosed = false;
  /** The latest samples, as many as the time of the average has; the next one takes the place of the oldest. */
  readonly #samples: Float64Array;
  #next = 0;
  #count = 0;
  #failure: unknown;

  private constructor(
    private readonly channel: Channel,
    private readonly settings: AnalogSettings,
    private readonly clock: Clock,
  ) {
    const { averageOverMs, samplesPerSec } = settings;
    this.#samples = new Float64Array(Math.max(1, Math.floor(averageOverMs * samplesPerSec / 1000)));
  }

  static async open(settings: AnalogSettings, host: ModelHost, clock: Clock): Promise<AnalogReader> {
    const reader = new AnalogReader(await openChannel(settings, host), settings, clock);
    if (settings.averageOverMs > 0) reader.#sample();
    return reader;
  }

  async read(): Promise<AnalogReading> {
    const range = { minRange: 0, maxRange: this.channel.maxValue, stepSize: 1 };
    if (this.settings.averageOverMs === 0) return { value: await this.channel.read(), ...range };
    if (this.#count === 0) {
      if (this.#failure !== undefined) throw this.#failure;
      return { value: await this.channel.read(), ...range };
    }
    const sum = this.#samples.subarray(0, this.#count).reduce((total, one) => total + one, 0);
    return { value: Math.round(sum / this.#count), ...range };
  }

  async write(value: number): Promise<void> {
    const { name } = this.settings;
    if (!this.channel.write) throw new SvcError("unimplemented", `the analog "${name}" is an input`);
    await this.channel.write(value);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.channel.close?.();
  }

  #sample(): void {
    this.#cancel = this.clock.after(1000 / this.settings.samplesPerSec, () => {
      void this.channel.read().then((value) => this.#keep(value), (error) => {
        [this.#next, this.#count, this.#failure] = [0, 0, error];
      }).finally(() => {
        if (!this.#isClosed) this.#sample();
      });
    });
  }

  #keep(value: number): void {
    this.#samples[this.#next] = value;
    this.#next = (this.#next + 1) % this.#samples.length;
    this.#count = Math.min(this.#count + 1, this.#samples.length);
  }
}

async function openChannel(settings: AnalogSettings, host: ModelHost): Promise<Channel> {
  const { iio, bits, spiBus, chipSelect, pin } = settings;
  if (iio) {
    const channel = await IioChannel.open(host, iio);
    return {
      maxValue: 2 ** bits - 1,
      read: () => channel.read(),
      write: (value) => channel.write(value),
    };
  }

  const device = SpiDevice.open(host, spiBus, chipSelect, MCP3008_HZ);
  const path = `/dev/spidev${spiBus}.${chipSelect}`;
  const request = Uint8Array.of(0b1, 0b1000_0000 | Number(pin) << 4, 0);
  return {
    maxValue: 2 ** MCP3008_BITS - 1,
    read: () => Promise.try(() => mcp3008Value(device.transfer(request), path)),
    close: () => device.close(),
  };
}

/** The ten bits of value at the end of an answer. A chip sends a 0 before them; a line that nobody drives is often high. */
function mcp3008Value([, high = 0, low = 0]: Uint8Array, path: string): number {
  if ((high & 0b111) === 0b111 && low === 0xff) {
    const hint = "check its wires, its power and chip_select";
    throw new SvcError("unavailable", `no MCP3008 answers on ${path}: ${hint}`);
  }
  return (high & 0b11) << 8 | low;
}
