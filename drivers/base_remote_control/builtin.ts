/**
 * Drives a base by an input controller: a stick, the arrows, four buttons, two triggers, or two sticks as for a drone.
 *
 * The newest wish counts: while the base is busy with a command, events only change what comes next. A wish to stand
 * waits for nothing: a command that hangs, because one of the base's motors does, is given up for it. The base stops
 * when the controller connects or disconnects, when its events end, and when the service closes. After StopAll it
 * stands until every control has been at rest.
 */

import { type Base, BaseApi } from "../../lib/api/actuators/base.ts";
import { BaseRemoteControlApi } from "../../lib/api/services/base_remote_control.ts";
import {
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import { type Clock, deadline, race, Waker } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type Infer, number, object, text } from "../../lib/base/schema/schema.ts";
import { ORIGIN, type Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource } from "../../lib/resource/resource.ts";

const LISTEN_AGAIN_MS = 1_000;
const COMMAND_AGAIN_MS = 100;
/** Time limit of an attempt to stop the base. */
const STOP_MS = 2_000;
/** Smaller changes of the wish are no news, except to rest. */
const SIMILAR = 0.05;
/** What steps of the triggers leave of 0. */
const NOTHING = 1e-9;
/** A stick this close to its middle rests. */
const DEAD_ZONE = 0.27;
const TRIGGER_STEP = 0.05;

/** Fractions of the largest velocity, or of full power. */
export interface Throttle {
  readonly linear: Vec3;
  readonly angular: Vec3;
}

const REST: Throttle = { linear: ORIGIN, angular: ORIGIN };

interface Mode {
  readonly controls: readonly string[];
  readonly events: readonly string[];
  /** The wish after an event; `state` has the latest value of each control. */
  readonly requested: (event: InputEvent, before: Throttle, state: ReadonlyMap<string, number>) => Throttle;
}

const AXIS = ["PositionChangeAbs"];

const MODES = {
  arrowControl: {
    controls: ["AbsoluteHat0X", "AbsoluteHat0Y"],
    events: AXIS,
    requested: (_event, _before, state) =>
      planar(0 - (state.get("AbsoluteHat0Y") ?? 0), 0 - (state.get("AbsoluteHat0X") ?? 0)),
  },
  joystickControl: {
    controls: ["AbsoluteX", "AbsoluteY"],
    events: AXIS,
    requested: (_event, _before, state) =>
      planar(throttle(-(state.get("AbsoluteY") ?? 0)), throttle(-(state.get("AbsoluteX") ?? 0))),
  },
  triggerSpeedControl: {
    controls: ["AbsoluteX", "AbsoluteZ", "AbsoluteRZ"],
    events: AXIS,
    requested: ({ control, value }, { linear, angular }) => {
      if (control === "AbsoluteX") return planar(linear.y, value);
      const step = control === "AbsoluteZ" ? -TRIGGER_STEP : TRIGGER_STEP;
      return planar(Math.max(-1, Math.min(linear.y + step, 1)), angular.z);
    },
  },
  buttonControl: {
    controls: ["ButtonNorth", "ButtonSouth", "ButtonEast", "ButtonWest"],
    events: ["ButtonPress", "ButtonRelease"],
    requested: (_event, _before, state) => {
      const pressed = (button: string) => (state.get(button) ?? 0) > 0 ? 1 : 0;
      return planar(
        pressed("ButtonNorth") - pressed("ButtonSouth"),
        pressed("ButtonWest") - pressed("ButtonEast"),
      );
    },
  },
  droneControl: {
    controls: ["AbsoluteX", "AbsoluteY", "AbsoluteRX", "AbsoluteRY"],
    events: AXIS,
    requested: (_event, _before, state) => {
      const at = (control: string) => state.get(control) ?? 0;
      return {
        linear: {
          x: throttle(at("AbsoluteRX")),
          y: throttle(-at("AbsoluteRY")),
          z: throttle(-at("AbsoluteY")),
        },
        angular: { ...ORIGIN, z: throttle(-at("AbsoluteX")) },
      };
    },
  },
} as const satisfies { readonly [mode: string]: Mode };

const attributes = object({
  base: text("the base to drive").required().names("base"),
  inputController: text("the controller that drives").required().names("input_controller"),
  controlMode: text(`${Object.keys(MODES).join(", ")}; any other word means arrowControl`).default(
    "arrowControl",
  ),
  maxAngularDegPerSec: number("with both limits, the base holds velocities; without, powers", { min: 0 })
    .default(0),
  maxLinearMmPerSec: number("the same for driving", { min: 0 }).default(0),
}).required();

type Settings = NonNullable<Infer<typeof attributes>>;

export const BuiltinBaseRemoteControl = model({
  api: BaseRemoteControlApi,
  name: "rdk:builtin:builtin",
  doc: "Drives a base by an input controller.",
  attributes,
  construct: ({ name, attributes, dependencies, clock, logger }) => {
    const mode = isMode(attributes.controlMode) ? attributes.controlMode : "arrowControl";
    if (mode !== attributes.controlMode) {
      logger.warn(`control_mode "${attributes.controlMode}" is not known: ${mode} is used`);
    }
    const base = dependencies.get(BaseApi, attributes.base);
    const controller = dependencies.get(InputControllerApi, attributes.inputController);
    const tools = { clock, logger };
    const driver = new BaseDriver(base, attributes, tools);
    return new BaseRemoteControl(name, controller, MODES[mode], driver, tools);
  },
});

function isMode(name: string): name is keyof typeof MODES {
  return Object.hasOwn(MODES, name);
}

class BaseRemoteControl extends BaseResource {
  readonly #closing = new AbortController();
  /** The last value of each control. */
  readonly #state = new Map<string, number>();
  /** What is held since before StopAll does not count. */
  #awaitsRest = false;
  readonly #driver: BaseDriver;
  readonly #running: Promise<unknown>;

  constructor(
    name: ResourceName,
    private readonly controller: InputController,
    private readonly mode: Mode,
    driver: BaseDriver,
    private readonly tools: DriveTools,
  ) {
    super(name);
    this.#driver = driver;
    this.#running = Promise.all([this.#listen(), this.#driver.run(this.#closing.signal)]);
  }

  stoppedAll(): void {
    this.#awaitsRest = this.#isHeld();
    this.#driver.halt();
  }

  override async close(): Promise<void> {
    if (this.#closing.signal.aborted) return await void this.#running;
    this.#closing.abort();
    this.#driver.giveUp();
    await this.#running;
    await this.#driver.end();
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    const { controller, mode } = this;
    const filters = mode.controls.map((control) => ({
      control,
      events: [...mode.events, "Connect", "Disconnect"],
    }));
    while (!signal.aborted) {
      try {
        for await (const event of controller.streamEvents(filters, { signal })) this.#happened(event);
        if (!signal.aborted) {
          this.tools.logger.warn(`${controller.name} gives no more events, the base stops`);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.tools.logger.warn(`${controller.name} gives no events, the base stops: ${chainOf(error)}`);
      }
      if (signal.aborted) return;
      this.#halt();
      await this.tools.clock.sleep(LISTEN_AGAIN_MS, signal).catch(() => {});
    }
  }

  #happened(event: InputEvent): void {
    if (event.event === "Connect" || event.event === "Disconnect") return this.#halt();
    this.#state.set(event.control, event.value);
    if (this.#awaitsRest) {
      this.#awaitsRest = this.#isHeld();
      return;
    }
    this.#driver.request(this.mode.requested(event, this.#driver.requested, this.#state));
  }

  #isHeld(): boolean {
    return [...this.#state.values()].some((value) => Math.abs(value) > DEAD_ZONE);
  }

  #halt(): void {
    this.#awaitsRest = false;
    this.#state.clear();
    this.#driver.halt();
  }
}

interface DriveTools {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Gives the base the newest command. While the base is busy with an earlier one, those in between are left out. */
class BaseDriver {
  readonly #waker: Waker;
  #requested = REST;
  /** The last command of the base. */
  #sent = REST;
  /** The base must stop, whatever it does. */
  #halts = false;
  /** Gives the command up that the base is busy with. */
  #giveUp = new AbortController();

  constructor(
    private readonly base: Base,
    private readonly settings: Settings,
    private readonly tools: DriveTools,
  ) {
    this.#waker = new Waker(tools.clock);
  }

  get requested(): Throttle {
    return this.#requested;
  }

  request(requested: Throttle): void {
    const isNews = !isSimilar(requested, this.#sent) || rests(requested, this.#sent);
    this.#requested = requested;
    if (isSimilar(requested, REST)) this.#giveUp.abort();
    if (isNews) this.#waker.wake();
  }

  /** Stops the base. */
  halt(): void {
    this.#requested = REST;
    this.#halts = true;
    this.giveUp();
  }

  /** Stops the base for good; call it when `run` has ended. */
  async end(): Promise<void> {
    await this.base.stop();
  }

  /** Ends the wait for the command that the base is busy with. */
  giveUp(): void {
    this.#giveUp.abort();
    this.#waker.wake();
  }

  /** Drives until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#waker.sleep();
      while (!signal.aborted && (this.#halts || this.#sent !== this.#requested)) {
        const requested = this.#requested, halts = this.#halts;
        this.#halts = false;
        const giveUp = this.#giveUp = new AbortController();
        try {
          await (halts ? this.#stop(signal) : this.#command(requested, giveUp.signal));
          this.#sent = halts ? REST : requested;
        } catch (error) {
          if (signal.aborted) return;
          this.#halts ||= halts;
          if (giveUp.signal.aborted) continue;
          this.tools.logger.error(`cannot drive ${this.base.name}: ${chainOf(error)}`);
          await this.tools.clock.sleep(COMMAND_AGAIN_MS, signal).catch(() => {});
        }
      }
    }
  }

  async #command({ linear, angular }: Throttle, signal: AbortSignal): Promise<void> {
    const { maxLinearMmPerSec: mmPerSec, maxAngularDegPerSec: degPerSec } = this.settings;
    const { base } = this;
    const command = mmPerSec > 0 && degPerSec > 0
      ? base.setVelocity(scaled(linear, mmPerSec), scaled(angular, degPerSec), { signal })
      : base.setPower(linear, angular, { signal });
    await race(command, signal);
  }

  async #stop(closing: AbortSignal): Promise<void> {
    const late = () => new SvcError("deadline_exceeded", `it has not stopped within ${STOP_MS / 1000} s`);
    const { signal, done } = deadline(this.tools.clock, STOP_MS, late, closing);
    await race(this.base.stop({ signal }), signal).finally(done);
  }
}

function planar(forward: number, left: number): Throttle {
  return { linear: { ...ORIGIN, y: forward }, angular: { ...ORIGIN, z: left } };
}

/** A stick's position in tenths, without its dead zone. */
function throttle(position: number): number {
  if (!(Math.abs(position) > DEAD_ZONE)) return 0;
  return Math.sign(position) * Math.ceil(Math.abs(position) * 10) / 10;
}

function scaled({ x, y, z }: Vec3, factor: number): Vec3 {
  return { x: x * factor, y: y * factor, z: z * factor };
}

/** The six fractions of a throttle. */
function fractions({ linear, angular }: Throttle): number[] {
  return [linear, angular].flatMap(({ x, y, z }) => [x, y, z]);
}

function isSimilar(one: Throttle, other: Throttle): boolean {
  const others = fractions(other);
  return fractions(one).every((fraction, axis) => Math.abs(fraction - (others[axis] ?? 0)) <= SIMILAR);
}

/** Whether an axis comes to rest: however slowly it moves, it must not go on. */
function rests(wanted: Throttle, sent: Throttle): boolean {
  const before = fractions(sent);
  return fractions(wanted).some((fraction, axis) => isNothing(fraction) && !isNothing(before[axis] ?? 0));
}

function isNothing(fraction: number): boolean {
  return Math.abs(fraction) < NOTHING;
}
