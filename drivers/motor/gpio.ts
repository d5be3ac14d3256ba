/**
 * A brushed or brushless DC motor behind a driver chip on the pins of any board, with or without an encoder.
 *
 * Without an encoder, the driver assumes that speed is proportional to power and distance to time. With an
 * encoder, it measures and corrects speed and distance. Stopping takes effect at once.
 */

import { BoardApi } from "../../lib/api/actuators/board.ts";
import { type Encoder, EncoderApi, isDriven } from "../../lib/api/sensors/encoder.ts";
import { type Motor, MotorApi, type MotorProperties } from "../../lib/api/actuators/motor.ts";
import { countsBy } from "../../lib/api/shared/zero_resets.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { bool, type Infer, integer, number, object, text } from "../../lib/base/schema/schema.ts";
import { feedback } from "../../lib/resource/feedback.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import { DriverPins } from "./driver_pins.ts";
import {
  checkLimits,
  checkPosition,
  checkPower,
  checkRevolutions,
  checkRpm,
  FASTEST_RPM,
  isStandstill,
  POWER_LIMITS,
  timedMove,
} from "./move.ts";
import {
  type MovementGoal,
  Pid,
  Ramp,
  RunawayWatch,
  StandstillWatch,
  type Steering,
  tunedGains,
} from "./steering.ts";

const MAX_RPM = 100;
const PWM_FREQUENCY_HZ = 800;
const RAMP_RATE = 0.05;
/** Powers up to this count as off. */
const OFF_POWER_PCT = 0.01;
/** The interval at which a movement reads the encoder. */
const LOOK_MS = 10;
/** Within this distance of its goal, the motor counts as being there already. */
const NEAR_REVOLUTIONS = 0.1;

const pinsField = object({
  a: text("pin of the driver's input A (IN1)"),
  b: text("pin of the driver's input B (IN2)"),
  dir: text("direction pin; high is forwards"),
  pwm: text("PWM pin"),
  enHigh: text("pin that enables the driver when high"),
  enLow: text("pin that enables the driver when low"),
}, "board pin numbers, in one of three patterns: pwm + dir, a + b, or a + b + pwm").with((pins, at) => {
  const { a, b, dir, pwm } = pins;
  if (a && !b) return at.error("motor pin config has specified pin A but not pin B");
  if (b && !a) return at.error("motor pin config has specified pin B but not pin A");
  if (a && b) return pins;
  if (dir && !pwm) return at.error("motor pin config has direction pin but needs PWM pin");
  if (pwm && !dir) {
    return at.error("motor pin config has PWM pin but needs either a direction pin, or A and B pins");
  }
  if (dir) return pins;
  const found = "motor pin config devoid of pin definitions (A, B, Direction, PWM are all missing)";
  return at.error(`${found}, wanted a and b, or dir and pwm`);
});

/** The attributes of a motor whose pulses come at this frequency where none is configured. */
function attributesAt(frequencyHz: number) {
  return object({
    board: text("name of the board that the driver chip is wired to").required().names("board"),
    pins: pinsField.required(),
    ...POWER_LIMITS,
    pwmFreq: integer("PWM frequency in Hz; 0 means the default", { min: 0 }).default(frequencyHz)
      .with((configuredHz) => configuredHz || frequencyHz),
    dirFlip: bool("swap forwards and backwards").aka("direction_flip").default(false),
    encoder: text("name of an attached encoder").names("encoder"),
    ticksPerRotation: integer(
      "encoder ticks in one rotation; with an encoder but without this, or with 0, one tick counts as a rotation",
    ).zeroIsAbsent().with((ticks, at) =>
      ticks > 0 ? ticks : at.error(`found ${ticks}, ticks_per_rotation should be positive`)
    ),
    maxRpm: number(
      `rotations a minute at full power without load; without an encoder speeds follow from it, so measure it. It is ` +
        `not a documented attribute, so a motor without it works too: it is taken to be ${MAX_RPM}, as for a fake motor`,
      { min: 0, max: FASTEST_RPM },
    ),
    rampRate: number(
      "with an encoder: size of the power correction every 50 ms, up to 0.5; a larger value means the default",
      { min: 0 },
    ).default(RAMP_RATE).with((rate) => rate === 0 || rate > 0.5 ? RAMP_RATE : rate),
    controlParameters: object(
      {
        p: number("power per tick of error").default(0),
        i: number("power per tick of error and second").default(0),
        d: number("power per tick of error a second").default(0),
      },
      "with an encoder: control position and speed by a PID loop; if all are 0, the gains follow from max_rpm",
    ),
  }).required().with(checkLimits);
}

type Settings = NonNullable<Infer<ReturnType<typeof attributesAt>>>;

export const GpioMotor = gpioMotor(PWM_FREQUENCY_HZ);

/** The model, with the frequency of its pulses where none is configured. */
export function gpioMotor(frequencyHz: number) {
  return model({
    api: MotorApi,
    name: "rdk:builtin:gpio",
    doc: "A DC motor behind a driver chip on the pins of a board, with or without an encoder.",
    attributes: attributesAt(frequencyHz),
    pwm: ({ pins: { a, b, pwm }, pwmFreq }) => {
      // Without a PWM pin the pulses are on the input that the direction leaves free.
      const pins = pwm ? [pwm] : [a, b];
      return pins.flatMap((pin) => pin ? [{ pin, frequencyHz: pwmFreq }] : []);
    },
    construct: async ({ name, attributes, dependencies, clock, logger }) => {
      const { a, pwm } = attributes.pins;
      if (a && !pwm) {
        logger.warn(
          `motor ${name.short} has been configured with A and B pins, but no PWM. Make sure this is intentional`,
        );
      }

      if (!attributes.maxRpm && !attributes.encoder) {
        logger.warn(
          `motor ${name.short} has no max_rpm, so speeds are worked out for ${MAX_RPM} rpm at full power`,
        );
      }

      const pins = new DriverPins(dependencies.get(BoardApi, attributes.board), attributes.pins, {
        ...attributes,
        pwmFrequencyHz: attributes.pwmFreq,
      });
      const encoder = attributes.encoder ? dependencies.get(EncoderApi, attributes.encoder) : undefined;
      if (encoder) await checkEncoder(encoder);
      if (encoder && !attributes.ticksPerRotation) {
        logger.warn(`motor ${name.short} has no ticks_per_rotation, so each tick counts as a rotation`);
      }
      const motor = new Gpio(name, pins, encoder, attributes, clock, logger);
      await motor.stop();

      return motor;
    },
  });
}

class Gpio extends BaseComponent implements Motor {
  readonly #operation = new Operation(() => this.#off());
  readonly #maxRpm: number;
  readonly #ticksPerRotation: number;
  /** Position of the encoder's zero, in ticks from the motor's zero. */
  #offsetTicks = 0;
  #powerPct = 0;
  /** The loop that keeps a speed, once it has begun. */
  #keeping?: SpeedLoop;

  constructor(
    name: ResourceName,
    private readonly pins: DriverPins,
    private readonly encoder: Encoder | undefined,
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
    if (encoder) countsBy(this, encoder);
    this.#maxRpm = settings.maxRpm || MAX_RPM;
    this.#ticksPerRotation = settings.ticksPerRotation ?? 1;
  }

  async setPower(powerPct: number, call?: Call): Promise<void> {
    checkPower(powerPct);
    await this.#operation.run((signal) => this.#drive(powerPct, { ...call, signal }), call?.signal);
  }

  async goFor(rpm: number, revolutions: number, call?: Call): Promise<void> {
    this.#checkRpm(rpm);
    checkRevolutions(revolutions);
    await this.#operation.run(async (signal) => {
      if (this.encoder) {
        const rotations = Math.abs(revolutions) * Math.sign(rpm * revolutions);
        const steering = { ...call, signal };
        return await this.#turnBy(Math.abs(rpm), rotations, await this.#feedback(steering), steering);
      }
      const { powerPct, durationMs } = timedMove(this.#maxRpm, rpm, revolutions, this.settings);
      await this.#drive(powerPct, { ...call, signal });
      await this.clock.sleep(durationMs, signal);
      await this.#off();
    }, call?.signal);
  }

  async goTo(rpm: number, positionRevolutions: number, call?: Call): Promise<void> {
    if (!this.encoder) throw this.#needsEncoder("GoTo");
    this.#checkRpm(rpm);
    checkPosition(positionRevolutions);
    await this.#operation.run(async (signal) => {
      const steering = { ...call, signal };
      const ticks = await this.#feedback(steering);
      const rotations = positionRevolutions - ticks / this.#ticksPerRotation;
      if (Math.abs(rotations) < NEAR_REVOLUTIONS) return await this.#off();
      await this.#turnBy(Math.abs(rpm), rotations, ticks, steering);
    }, call?.signal);
  }

  async setRpm(rpm: number, call?: Call): Promise<void> {
    if (isStandstill(rpm)) return await this.stop();
    this.#checkRpm(rpm);
    if (!this.encoder) return await this.setPower(rpm / this.#maxRpm, call);

    const ticksPerMs = this.#ticksPerMs(rpm);
    // Programs repeat the speed many times a second: a loop that began anew each time would never get to it.
    const keeping = this.#keeping;
    if (keeping && !keeping.signal.aborted && keeping.direction === Math.sign(rpm)) {
      return keeping.changeSpeed(ticksPerMs);
    }
    await this.#keepSpeed(rpm, ticksPerMs, call);
  }

  async resetZeroPosition(offset: number, call?: Call): Promise<void> {
    if (!this.encoder) throw this.#needsEncoder("ResetZeroPosition");
    checkPosition(offset);
    await this.stop();
    await this.encoder.resetPosition(call);
    this.#offsetTicks = -offset * this.#ticksPerRotation;
  }

  async getPosition(call?: Call): Promise<number> {
    return this.encoder ? await this.#ticks(call) / this.#ticksPerRotation : 0;
  }

  getProperties(): Promise<MotorProperties> {
    return Promise.resolve({ positionReporting: this.encoder !== undefined });
  }

  isPowered(): Promise<{ isOn: boolean; powerPct: number }> {
    return Promise.resolve({ isOn: this.#powerPct !== 0, powerPct: this.#powerPct });
  }

  /** Also true while a control loop runs whose present power is 0. */
  isMoving(): Promise<boolean> {
    return Promise.resolve(this.#operation.running || this.#powerPct !== 0);
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  override close(): Promise<void> {
    return this.stop();
  }

  async #drive(powerPct: number, call?: Call): Promise<void> {
    if (Math.abs(powerPct) <= OFF_POWER_PCT) return await this.#off();
    this.#powers(await this.pins.drive(powerPct, call));
  }

  async #off(): Promise<void> {
    await this.pins.off();
    this.#powers(0);
  }

  #powers(powerPct: number): void {
    this.#powerPct = powerPct;
    if (this.encoder && isDriven(this.encoder)) {
      this.encoder.setSpeed(powerPct * this.#maxRpm * this.#ticksPerRotation);
    }
  }

  async #ticks(call?: Call): Promise<number> {
    return (await this.encoder!.getPosition("ticks", call)).value + this.#offsetTicks;
  }

  /** The position for a movement, which ends if the encoder hangs. */
  #feedback(call: SteeringCall): Promise<number> {
    const read = (signal: AbortSignal) => this.#ticks({ ...call, signal });
    return feedback(this.encoder!.name, this.clock, call.signal, read);
  }

  #ticksPerMs(rpm: number): number {
    return Math.sign(rpm) * Math.min(Math.abs(rpm), FASTEST_RPM) * this.#ticksPerRotation / 60_000;
  }

  async #keepSpeed(rpm: number, ticksPerMs: number, call?: Call): Promise<void> {
    const direction = Math.sign(rpm);
    const begun = Promise.withResolvers<void>();
    // The motor keeps the speed after this call has ended, until the next call; the caller's signal must not
    // end it.
    this.#operation.run(async (signal) => {
      const steering = { extra: call?.extra, signal };
      const target = { ticksPerMs, goalTicks: direction * Infinity };
      try {
        await this.#steer(target, await this.#feedback(steering), steering, (changeSpeed) => {
          this.#keeping = { signal, direction, changeSpeed };
          begun.resolve();
        });
      } finally {
        this.#keeping = undefined;
      }
    }).then(() => begun.resolve(), (error) => {
      begun.reject(error);
      this.logger.warn(
        `motor ${this.name.short} could not keep up ${rpm} rpm and was stopped: ${chainOf(error)}`,
      );
    });
    await begun.promise;
  }

  async #turnBy(speedRpm: number, rotations: number, fromTicks: number, call: SteeringCall): Promise<void> {
    await this.#steer(
      {
        ticksPerMs: this.#ticksPerMs(speedRpm) * Math.sign(rotations),
        goalTicks: fromTicks + rotations * this.#ticksPerRotation,
      },
      fromTicks,
      call,
    );
    await this.#off();
  }

  /** Turns until the goal is reached; calls `begun` when the motor has its first power. */
  async #steer(
    target: MovementGoal,
    fromTicks: number,
    call: SteeringCall,
    begun: (changeSpeed: SpeedLoop["changeSpeed"]) => void = () => {},
  ): Promise<void> {
    const nowMs = this.clock.monotonicMs();
    const { steering, start } = this.#steering(target, fromTicks, nowMs);
    const runaway = new RunawayWatch(this.#ticksPerRotation);
    const stall = new StandstillWatch(this.settings.maxPowerPct, this.#ticksPerRotation, target.ticksPerMs);
    await this.#drive(start, call);
    begun((ticksPerMs) => {
      steering.changeSpeed(ticksPerMs);
      stall.changeSpeed(ticksPerMs);
    });
    for (;;) {
      await this.clock.sleep(LOOK_MS, call.signal);
      const ticks = await this.#feedback(call);
      if (steering.arrived(ticks)) return;
      const nowMs = this.clock.monotonicMs();
      if (runaway.sees(ticks, nowMs, this.#powerPct)) throw this.#runaway();
      if (stall.sees(ticks, nowMs, this.#powerPct)) throw this.#stalled();
      const powerPct = steering.power(ticks, nowMs);
      if (powerPct !== undefined) await this.#drive(powerPct, call);
    }
  }

  #steering(target: MovementGoal, ticks: number, nowMs: number): { steering: Steering; start: number } {
    const { controlParameters, rampRate, maxPowerPct } = this.settings;
    if (!controlParameters) {
      const ramp = new Ramp(target, rampRate, maxPowerPct, ticks, nowMs);
      return { steering: ramp, start: ramp.start };
    }
    const { p, i, d } = controlParameters;
    const given = p !== 0 || i !== 0 || d !== 0;
    const gains = given ? controlParameters : tunedGains(this.#ticksPerMs(this.#maxRpm) * 1000);
    return { steering: new Pid(target, gains, maxPowerPct, this.#ticksPerRotation, ticks, nowMs), start: 0 };
  }

  #runaway(): SvcError {
    const [way, count] = this.#powerPct > 0 ? ["forwards", "down"] : ["backwards", "up"];
    return new SvcError(
      "failed_precondition",
      `motor ${this.name.short} was stopped: its power turns it ${way}, but ${this.encoder?.name.short} counts ${count}; ` +
        "exchange the encoder's pins a and b, or change dir_flip",
    );
  }

  #stalled(): SvcError {
    return new SvcError(
      "failed_precondition",
      `motor ${this.name.short} was stopped: it has all of its power, and ${this.encoder?.name.short} counts nothing; ` +
        "its shaft is blocked, or the encoder is not connected",
    );
  }

  /** With an encoder, the maximum is unknown unless it is configured. */
  #checkRpm(rpm: number): void {
    checkRpm(rpm, this.encoder ? this.settings.maxRpm || Infinity : this.#maxRpm, this.logger);
  }

  #needsEncoder(method: string): SvcError {
    const reason = `motor with name ${this.name.short} does not support ${method}: it has no encoder`;
    return new SvcError("unimplemented", reason);
  }
}

interface SpeedLoop {
  readonly signal: AbortSignal;
  readonly direction: number;
  /** Goes on with another speed in the same direction. */
  changeSpeed(ticksPerMs: number): void;
}

type SteeringCall = Call & { readonly signal: AbortSignal };

async function checkEncoder(encoder: Encoder): Promise<void> {
  const { ticksCountSupported, angleDegreesSupported } = await encoder.getProperties();
  if (ticksCountSupported) return;
  throw new SvcError(
    "failed_precondition",
    angleDegreesSupported
      ? `encoder ${encoder.name.short}: encoder position type is Angle Degrees, need an encoder that supports Ticks`
      : `encoder ${encoder.name.short}: need an encoder that supports Ticks`,
  );
}
