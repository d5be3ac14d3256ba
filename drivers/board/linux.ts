/**
 * The pins of the computer that the program runs on, if it is a Linux board: a Raspberry Pi, a Jetson, or any other
 * with a GPIO chip.
 *
 * Owns the lines that it uses, until it closes. If the process is killed, the kernel releases its lines, and software
 * PWM ends with its thread; the chip decides the level of a released line. Hardware PWM continues until the board is
 * opened again.
 */

import {
  type AnalogReading,
  type Board,
  BoardApi,
  type PowerMode,
  type Tick,
} from "../../lib/api/actuators/board.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Pulses } from "../../lib/base/host.ts";
import {
  choice,
  type Infer,
  integer,
  type JsonObject,
  list,
  mapOf,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import { CharacterGpio } from "../../lib/device/character_gpio.ts";
import { type Bias, BIASES } from "../../lib/device/gpio.ts";
import {
  BACK_ENDS,
  chooseBackEnd,
  type GpioBackEnd,
  type LineAddress,
  lineTable,
  probeGpio,
} from "../../lib/device/gpio_back_end.ts";
import { findPwmChip, PwmChannel } from "../../lib/device/pwm.ts";
import { type Construction, model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { analogField, AnalogReader } from "./analog_readers.ts";
import { headerOf } from "./headers.ts";
import { Interrupts } from "./interrupts.ts";
import { LinuxPin } from "./linux_pin.ts";
import { lineOf, type PinNames } from "./pin_names.ts";

/** Pins that one board keeps. */
const PINS_MAX = 256;
const COMPATIBLE = "/proc/device-tree/compatible";
const PWM_CHANNEL = /^(pwmchip\d+)\/(\d+)$/;

const bias = choice("pull resistor of the line", BIASES);

const attributes = object({
  pins: mapOf(text(), 'names of your own for lines: { "lamp": "gpiochip0/17" }').default({}),
  digitalInterrupts: list(
    object({
      name: text("name of the interrupt").required(),
      pin: text("pin whose edges count").required(),
      pull: bias,
      debounceUs: integer("edges that follow within this time do not count", { min: 0, max: 1_000_000 }),
    }),
    "inputs whose edges the board counts and reports",
  ).default([]),
  analogs: list(analogField, "analog readers").default([]),
  pull: mapOf(bias, 'pull resistors of inputs: { "11": "up" }').default({}),
  hardwarePwm: mapOf(
    text(),
    'pins with hardware PWM: "auto" where the board is known, or a channel: { "32": "auto", "lamp": "pwmchip0/1" }',
  ).default({}),
  gpio: choice("access to the pins; by default the best available", BACK_ENDS),
}).required().with((settings, at) => {
  const pins = settings.digitalInterrupts.map(({ pin }) => pin);
  for (const [index, { name, pin }] of settings.digitalInterrupts.entries()) {
    const place = at.at("digital_interrupts").at(index);
    if (pins.indexOf(pin) < index) place.at("pin").error(`pin ${pin} has an interrupt already`);
    if (settings.digitalInterrupts.findIndex((one) => one.name === name) < index) {
      place.at("name").error(`the name "${name}" is taken`);
    }
  }

  for (const [index, { name }] of settings.analogs.entries()) {
    if (settings.analogs.findIndex((one) => one.name === name) === index) continue;
    at.at("analogs").at(index).at("name").error(`the name "${name}" is taken`);
  }

  for (const [pin, channel] of Object.entries(settings.hardwarePwm)) {
    if (channel === "auto" || PWM_CHANNEL.test(channel)) continue;
    at.at("hardware_pwm").at(pin).wanted('"auto", or a channel such as "pwmchip0/1"', channel);
  }

  return settings;
});

type Settings = NonNullable<Infer<typeof attributes>>;

export const LinuxBoard = model({
  api: BoardApi,
  name: "rdk:builtin:linux",
  doc: "The pins of this computer: Raspberry Pi, Jetson Orin, and every other Linux board with GPIO.",
  attributes,
  construct: async (from) => {
    const { host, attributes } = from;
    const kind = chooseBackEnd(await probeGpio(host, host.platform().os), attributes.gpio);
    const backEnd = kind === "sysfs" ? await sysfs(from) : new CharacterGpio(host, `svc ${from.name.short}`);
    const board = new Linux(from, backEnd);
    try {
      await board.open();
    } catch (cause) {
      await board.close();
      throw cause;
    }
    return board;
  },
});

/** Few kernels need it, and its package is loaded only here. */
async function sysfs({ host, clock }: Construction<Settings>): Promise<GpioBackEnd> {
  const { SysfsGpio } = await import("../../lib/device/sysfs_gpio.ts");
  return new SysfsGpio(host, () => clock.monotonicMs());
}

class Linux extends BaseComponent implements Board {
  readonly #pins = new Map<string, LinuxPin>();
  readonly #analogs = new Map<string, AnalogReader>();
  #names: PinNames = { chips: [], given: {} };
  #interrupts?: Interrupts;
  #pulses?: Pulses;

  constructor(private readonly from: Construction<Settings>, private readonly backEnd: GpioBackEnd) {
    super(from.name);
  }

  async open(): Promise<void> {
    const { attributes: settings, host, clock, logger } = this.from;
    const chips = await this.backEnd.chips();
    const compatible = (await host.readTextFile(COMPATIBLE).catch(() => "")).split("\0");
    this.#names = { chips, given: settings.pins, header: headerOf(compatible) };
    for (const pin of Object.keys(settings.pull)) lineOf(pin, this.#names);
    const interrupts = settings.digitalInterrupts.map(({ name, pin, pull, debounceUs }) => {
      return { name, line: lineOf(pin, this.#names), bias: pull, debounceUs };
    });
    this.#interrupts = await Interrupts.open(interrupts, this.backEnd, clock, logger);

    for (const analog of settings.analogs) {
      this.#analogs.set(analog.name, await AnalogReader.open(analog, host, clock));
    }
    for (const [pin, wanted] of Object.entries(settings.hardwarePwm)) {
      // A channel that a process left running when it was killed is turned off.
      const channel = await this.#hardware(pin, wanted);
      await channel.close();
    }

    const lines = chips.reduce((sum, one) => sum + one.lines, 0);
    const board = this.#names.header?.board ?? "a board whose header is not known";
    logger.info(`${lines} lines of ${board}`, { way: this.backEnd.kind });
  }

  async setGpio(pin: string, high: boolean): Promise<void> {
    await this.#pin(pin).set(high);
  }

  async getGpio(pin: string): Promise<boolean> {
    const name = this.#interrupts?.nameOf(lineOf(pin, this.#names));
    if (name === undefined) return await this.#pin(pin).get();
    await this.#interrupts!.revive([name]);
    return this.#interrupts!.level(name);
  }

  getPwm(pin: string): Promise<number> {
    return Promise.try(() => this.#pin(pin).duty);
  }

  async setPwm(pin: string, dutyCyclePct: number): Promise<void> {
    await this.#pin(pin).setPwm(dutyCyclePct);
  }

  getPwmFrequency(pin: string): Promise<number> {
    return Promise.try(() => this.#pin(pin).frequencyHz);
  }

  async setPwmFrequency(pin: string, frequencyHz: number): Promise<void> {
    await this.#pin(pin).setFrequency(frequencyHz);
  }

  async readAnalog(name: string): Promise<AnalogReading> {
    return await this.#analog(name).read();
  }

  async writeAnalog(name: string, value: number): Promise<void> {
    await this.#analog(name).write(value);
  }

  async getDigitalInterruptValue(name: string): Promise<number> {
    await this.#watch([name]);
    return this.#interrupts!.count(name);
  }

  async streamTicks(names: readonly string[], call?: Call): Promise<AsyncIterable<Tick>> {
    await this.#watch(names);
    return this.#interrupts!.listen(names, call?.signal);
  }

  setPowerMode(_mode: PowerMode): Promise<void> {
    return Promise.reject(unsupported(this.name, "SetPowerMode"));
  }

  /** Every line with its user, and how late the pulses of the thread were. */
  override async getStatus(): Promise<JsonObject> {
    const chips = await this.backEnd.chips();
    const lateness = this.#pulses?.lateness();
    return {
      gpio: this.backEnd.kind,
      board: this.#names.header?.board ?? "",
      chips: lineTable(chips),
      ...(lateness && {
        software_pwm: {
          switches: lateness.switches,
          late_us_p50: lateness.p50Us,
          late_us_p99: lateness.p99Us,
          late_us_max: lateness.maxUs,
        },
      }),
    };
  }

  override async close(): Promise<void> {
    const { logger } = this.from;
    const pins = [...this.#pins.values()];
    this.#pins.clear();
    for (const pin of pins) {
      await pin.close().catch((error) => logger.warn(`pin ${pin.name} did not close: ${chainOf(error)}`));
    }
    await this.#pulses?.close();
    this.#pulses = undefined;
    await this.#interrupts?.close();
    for (const analog of this.#analogs.values()) analog.close();
    this.#analogs.clear();
    this.backEnd.close();
  }

  /**
   * The pin by any of its names; throws `failed_precondition` for the pin of an interrupt, which always is an input.
   */
  #pin(name: string): LinuxPin {
    const line = lineOf(name, this.#names);
    const key = `${line.chip}/${line.offset}`;
    const found = this.#pins.get(key);
    if (found) return found;
    if (this.#interrupts?.nameOf(line) !== undefined) {
      throw new SvcError("failed_precondition", `pin ${name} has a digital interrupt: it is an input`);
    }
    if (this.#pins.size >= PINS_MAX) {
      throw new SvcError("resource_exhausted", `cannot use pin ${name}: ${PINS_MAX} pins are in use`);
    }

    const { pull, hardwarePwm } = this.from.attributes;
    const hardware = this.#givenFor(key, hardwarePwm);
    const pin = new LinuxPin(name, {
      backEnd: this.backEnd,
      line,
      bias: this.#givenFor(key, pull)?.[1] as Bias | undefined,
      hardware: hardware && (() => this.#hardware(...hardware)),
      pulses: () => this.#pulses ??= this.from.host.openPulses(),
    });
    this.#pins.set(key, pin);

    return pin;
  }

  /** As published, a pin that has no interrupt gets one, under its own name, unless it is an output. */
  async #watch(names: readonly string[]): Promise<void> {
    const interrupts = this.#interrupts!;
    await interrupts.revive(names);
    const added = [...new Set(names)].filter((name) => !interrupts.has(name)).map((name) => {
      const { line, key } = this.#interruptLine(name);
      const other = interrupts.nameOf(line);
      if (other !== undefined) {
        throw new SvcError(
          "failed_precondition",
          `pin ${name} has the digital interrupt "${other}": use its name`,
        );
      }
      return {
        name,
        key,
        line,
        bias: this.#givenFor(key, this.from.attributes.pull)?.[1] as Bias | undefined,
      };
    });
    if (added.length === 0) return;

    for (const { name, key } of added) {
      const pin = this.#pins.get(key);
      if (pin?.isOutput) {
        throw new SvcError("failed_precondition", `pin ${name} is used as an output, wanted an input`);
      }
      this.#pins.delete(key);
      await pin?.close();
    }
    await interrupts.add(added);
  }

  #interruptLine(name: string): { line: LineAddress; key: string } {
    try {
      const line = lineOf(name, this.#names);
      return { line, key: `${line.chip}/${line.offset}` };
    } catch (cause) {
      throw new SvcError("unknown", `cant find DigitalInterrupt (${name}): ${chainOf(cause)}`, { cause });
    }
  }

  /** The configured value for a line, under any of its names. */
  #givenFor<T>(key: string, given: { readonly [pin: string]: T }): [pin: string, value: T] | undefined {
    return Object.entries(given).find(([pin]) => {
      const { chip, offset } = lineOf(pin, this.#names);
      return `${chip}/${offset}` === key;
    });
  }

  async #hardware(pin: string, channel: string): Promise<PwmChannel> {
    const { host, clock } = this.from;
    const [, chip, number] = PWM_CHANNEL.exec(channel) ?? [];
    if (chip) return await PwmChannel.open(host, clock, chip, Number(number));
    const pwm = this.#names.header?.pins.get(pin)?.pwm;
    if (!pwm) {
      const hint = "name its channel instead of auto: pwmchip0/1";
      throw new SvcError("not_found", `pin ${pin} is not known to have hardware PWM; ${hint}`);
    }
    return await PwmChannel.open(host, clock, await findPwmChip(host, pwm.device), pwm.channel);
  }

  #analog(name: string): AnalogReader {
    const analog = this.#analogs.get(name);
    if (!analog) throw new SvcError("unknown", `can't find AnalogReader (${name})`);
    return analog;
  }
}
