/**
 * A motor without hardware: keeps the power it is given, takes as long for a movement as a real motor would,
 * and turns a fake encoder if it has one.
 */

import { BoardApi } from "../../lib/api/actuators/board.ts";
import { type DrivenEncoder, EncoderApi, isDriven } from "../../lib/api/sensors/encoder.ts";
import { type Motor, MotorApi, type MotorProperties } from "../../lib/api/actuators/motor.ts";
import { countsBy } from "../../lib/api/shared/zero_resets.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { bool, type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import {
  checkLimits,
  checkPosition,
  checkPower,
  checkRevolutions,
  checkRpm,
  FASTEST_RPM,
  limitedPower,
  POWER_LIMITS,
  timedMove,
} from "./move.ts";

const MAX_RPM = 100;
const PWM_FREQUENCY_HZ = 800;
const PWM_PIN = "1";
/** Powers below this count as off. */
const ON_POWER_PCT = 0.005;

const attributes = object({
  board: text("name of a board").names("board"),
  ...POWER_LIMITS,
  pwmFreq: integer("PWM frequency in Hz, written to the board's PWM pin", { min: 0 }).default(
    PWM_FREQUENCY_HZ,
  ),
  encoder: text("name of an attached fake encoder").names("encoder"),
  maxRpm: number("rotations a minute at full power; 0 means the default", { min: 0, max: FASTEST_RPM })
    .default(
      MAX_RPM,
    ),
  ticksPerRotation: integer("encoder ticks in one rotation; required with an encoder", { min: 0 }),
  dirFlip: bool("swap forwards and backwards: an attached encoder turns the other way").aka("direction_flip")
    .default(false),
  pins: object({
    a: text("no effect on this model"),
    b: text("no effect on this model"),
    dir: text("no effect on this model"),
    pwm: text("PWM pin").default(PWM_PIN),
  }, "board pin numbers"),
}).required().with((settings, at) => {
  if (settings.encoder && !settings.ticksPerRotation) {
    return at.at("ticks_per_rotation").error("need nonzero TicksPerRotation for encoded motor");
  }
  return checkLimits(settings, at);
});

type Settings = NonNullable<Infer<typeof attributes>>;

export const FakeMotor = model({
  api: MotorApi,
  name: "rdk:builtin:fake",
  doc:
    "A motor without hardware: turns at the power it is given, and reports its position if it has an encoder.",
  attributes: attributes.required(),
  construct: async ({ name, attributes, dependencies, clock, logger }) => {
    const encoder = attributes.encoder ? dependencies.get(EncoderApi, attributes.encoder) : undefined;
    if (encoder && !isDriven(encoder)) {
      throw new SvcError(
        "failed_precondition",
        `a fake motor turns its encoder, which ${encoder.name} does not let it do; wanted a fake encoder`,
      );
    }
    if (attributes.board) {
      const board = dependencies.get(BoardApi, attributes.board);
      await board.setPwmFrequency(attributes.pins?.pwm ?? PWM_PIN, attributes.pwmFreq || PWM_FREQUENCY_HZ);
    }
    return new Fake(name, encoder, attributes, clock, logger);
  },
});

class Fake extends BaseComponent implements Motor {
  readonly #operation = new Operation(() => Promise.resolve(this.#turn(0)));
  readonly #maxRpm: number;
  readonly #ticksPerRotation: number;
  #powerPct = 0;

  constructor(
    name: ResourceName,
    private readonly encoder: DrivenEncoder | undefined,
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
    if (encoder) countsBy(this, encoder);
    this.#maxRpm = settings.maxRpm || MAX_RPM;
    // The encoder of a flipped motor counts down while the motor turns forwards.
    this.#ticksPerRotation = (settings.ticksPerRotation ?? 0) * (settings.dirFlip ? -1 : 1);
  }

  async setPower(powerPct: number, call?: Call): Promise<void> {
    checkPower(powerPct);
    const power = Math.abs(powerPct) < ON_POWER_PCT ? powerPct : limitedPower(powerPct, this.settings);
    await this.#operation.run(() => Promise.resolve(this.#turn(power)), call?.signal);
  }

  async goFor(rpm: number, revolutions: number, call?: Call): Promise<void> {
    checkRpm(rpm, this.#maxRpm, this.logger, 0);
    checkRevolutions(revolutions);
    await this.#operation.run((signal) => this.#goFor(rpm, revolutions, signal), call?.signal);
  }

  async goTo(rpm: number, positionRevolutions: number, call?: Call): Promise<void> {
    if (!this.encoder) throw new SvcError("unimplemented", `encoder is not defined for ${this.name}`);
    checkRpm(rpm, this.#maxRpm, this.logger, 0);
    checkPosition(positionRevolutions);
    await this.#operation.run(async (signal) => {
      const revolutions = positionRevolutions - await this.getPosition();
      if (revolutions === 0) return this.#turn(0);
      await this.#goFor(Math.abs(rpm), revolutions, signal);
    }, call?.signal);
  }

  async setRpm(rpm: number, call?: Call): Promise<void> {
    await this.setPower(rpm / this.#maxRpm, call);
  }

  resetZeroPosition(offset: number): Promise<void> {
    return Promise.try(() => {
      if (!this.encoder) throw new SvcError("unimplemented", `encoder is not defined for ${this.name}`);
      checkPosition(offset);
      this.encoder.setPosition(-offset * this.#ticksPerRotation);
    });
  }

  async getPosition(): Promise<number> {
    if (!this.encoder) return 0;
    return (await this.encoder.getPosition("ticks")).value / this.#ticksPerRotation;
  }

  getProperties(): Promise<MotorProperties> {
    return Promise.resolve({ positionReporting: this.encoder !== undefined });
  }

  async isPowered(): Promise<{ isOn: boolean; powerPct: number }> {
    return { isOn: await this.isMoving(), powerPct: this.#powerPct };
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(Math.abs(this.#powerPct) >= ON_POWER_PCT);
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  override close(): Promise<void> {
    return this.stop();
  }

  async #goFor(rpm: number, revolutions: number, signal: AbortSignal): Promise<void> {
    const { powerPct, durationMs } = timedMove(this.#maxRpm, rpm, revolutions, this.settings);
    const goal = await this.getPosition() + Math.abs(revolutions) * Math.sign(powerPct);
    this.#turn(powerPct);
    await this.clock.sleep(durationMs, signal);
    this.#turn(0);
    this.encoder?.setPosition(goal * this.#ticksPerRotation);
  }

  #turn(powerPct: number): void {
    this.#powerPct = powerPct;
    this.encoder?.setSpeed(powerPct * this.#maxRpm * this.#ticksPerRotation);
  }
}
