/**
 * An input controller made of a board's parts: buttons on its digital interrupts, axes on its analog readers.
 */

import { type Board, BoardApi, type Tick } from "../../lib/api/actuators/board.ts";
import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import {
  bool,
  choice,
  type Infer,
  integer,
  mapOf,
  number,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { PUBLISHED_CONTROLS } from "./controls.ts";
import { InputEvents } from "./input_events.ts";

const DEBOUNCE_MS = 5;
const POLL_HZ = 10;
const RETRY_MS = 1_000;

const control = choice("the control that it is", PUBLISHED_CONTROLS).required();

const buttonField = object({
  control,
  invert: bool("pressed means low").default(false),
  debounceMsec: integer("a level counts after it has lasted so long; 0 means the default, -1 none", {
    min: -1,
  })
    .default(DEBOUNCE_MS).with((ms) => ms || DEBOUNCE_MS),
});
const axisField = object({
  control,
  min: integer("the smallest reading").default(0),
  max: integer("the largest reading").required(),
  bidirectional: bool("the axis goes from -1 to 1 instead of from 0 to 1").default(false),
  deadzone: integer("readings so close to the middle (or to min) count as it", { min: 0 }).default(0),
  minChange: integer("smaller changes of the reading are no events", { min: 0 }).default(1)
    .with((change) => Math.max(change, 1)),
  pollHz: number("readings a second; 0 means the default", { min: 0, max: 1000 }).default(POLL_HZ)
    .with((hz) => hz || POLL_HZ),
  invert: bool("the other way round").default(false),
}).with((axis, at) => {
  if (axis.min < axis.max) return axis;
  return at.at("min").wanted(`less than max, which is ${axis.max}`, axis.min);
});
type Button = NonNullable<Infer<typeof buttonField>>;
type Ticks = AsyncIterable<Tick>;
type Axis = NonNullable<Infer<typeof axisField>>;

const attributes = object({
  board: text("name of the board").required().names("board"),
  buttons: mapOf(buttonField, "by the name of a digital interrupt").default({}),
  axes: mapOf(axisField, "by the name of an analog reader").default({}),
}).required().with((settings, at) => {
  const controls = [...Object.values(settings.buttons), ...Object.values(settings.axes)].map((one) =>
    one.control
  );
  if (controls.length === 0) return at.error("found no buttons and no axes, wanted at least one");
  const twice = controls.find((one, index) => controls.indexOf(one) < index);
  return twice === undefined ? settings : at.error(`found two inputs for ${twice}, wanted one`);
});

export const GpioInputController = model({
  api: InputControllerApi,
  name: "rdk:builtin:gpio",
  doc: "Buttons on a board's digital interrupts, and axes on its analog readers, as an input controller.",
  attributes,
  construct: async ({ name, attributes, dependencies, clock, logger }) => {
    const board = dependencies.get(BoardApi, attributes.board);
    const controller = new Gpio(name, board, clock, logger);
    try {
      await controller.open(attributes.buttons, attributes.axes);
    } catch (cause) {
      await controller.close();
      throw cause;
    }
    return controller;
  },
});

class Gpio extends BaseComponent implements InputController {
  readonly #events = new InputEvents();
  readonly #closing = new AbortController();
  readonly #following: Promise<void>[] = [];
  readonly #controls: string[] = [];

  constructor(
    name: ResourceName,
    private readonly board: Board,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
  }

  /** Rejects if the board has no such interrupt or analog reader. */
  async open(
    buttons: { readonly [interrupt: string]: Button },
    axes: { readonly [analog: string]: Axis },
  ): Promise<void> {
    const { signal } = this.#closing;
    this.#controls.push(...[...Object.values(buttons), ...Object.values(axes)].map((one) => one.control));
    if (Object.keys(buttons).length > 0) {
      const ticks = await this.board.streamTicks(Object.keys(buttons), { signal });
      this.#following.push(this.#followButtons(ticks, buttons));
    }
    for (const [analog, axis] of Object.entries(axes)) {
      await this.board.readAnalog(analog, { signal });
      this.#following.push(this.#followAxis(analog, axis));
    }
    for (const control of this.#controls) this.#happened("Connect", control, 0);
  }

  getControls(): Promise<readonly string[]> {
    return Promise.resolve(this.#controls);
  }

  getEvents(): Promise<readonly InputEvent[]> {
    return Promise.resolve(this.#events.latest);
  }

  streamEvents(filters: readonly EventFilter[], call?: Call): AsyncIterable<InputEvent> {
    return this.#events.stream(filters, call?.signal);
  }

  triggerEvent(): Promise<void> {
    return Promise.reject(unsupported(this.name, "TriggerEvent"));
  }

  override async close(): Promise<void> {
    this.#closing.abort();
    this.#events.close();
    await Promise.all(this.#following);
  }

  /** Listens again when the ticks end: a board of a remote machine may be replaced there. */
  async #followButtons(first: Ticks, buttons: { readonly [interrupt: string]: Button }): Promise<void> {
    const { signal } = this.#closing;
    const inputs = Object.values(buttons);
    let ticks: Ticks | undefined = first, failed = false;
    while (!signal.aborted) {
      try {
        ticks ??= await this.board.streamTicks(Object.keys(buttons), { signal });
        if (failed) this.#connected(inputs);
        failed = false;
        await this.#hearButtons(ticks, buttons);
        throw new SvcError("unavailable", `the ticks of ${this.board.name} have ended`);
      } catch (error) {
        if (signal.aborted) return;
        if (!failed) this.#lost(inputs, error);
        failed = true;
      }
      ticks = undefined;
      await this.clock.sleep(RETRY_MS, signal).catch(() => {});
    }
  }

  async #hearButtons(ticks: Ticks, buttons: { readonly [interrupt: string]: Button }): Promise<void> {
    const waiting = new Map<string, () => void>();
    try {
      for await (const { pinName, high } of ticks) {
        const button = Object.hasOwn(buttons, pinName) ? buttons[pinName] : undefined;
        if (!button) continue;
        const { control, invert, debounceMsec } = button;
        const pressed = high !== invert;
        const tell = () =>
          this.#happened(pressed ? "ButtonPress" : "ButtonRelease", control, pressed ? 1 : 0);
        waiting.get(control)?.();
        if (debounceMsec < 0) tell();
        else waiting.set(control, this.clock.after(debounceMsec, tell));
      }
    } finally {
      for (const cancel of waiting.values()) cancel();
    }
  }

  async #followAxis(analog: string, axis: Axis): Promise<void> {
    const { signal } = this.#closing;
    let before = 0, reported = 0, failed = false;
    while (!signal.aborted) {
      try {
        await this.clock.sleep(1000 / axis.pollHz, signal);
        const { value } = await this.board.readAnalog(analog, { signal });
        if (failed) this.#connected([axis]);
        failed = false;
        const { reading, position } = positionOf(value, axis);
        // Small changes are no events, except to rest: what it moves must not go on.
        const rests = position === 0 && reported !== 0;
        if (Math.abs(reading - before) < axis.minChange && !rests) continue;
        [before, reported] = [reading, position];
        this.#happened("PositionChangeAbs", axis.control, position);
      } catch (error) {
        if (signal.aborted) return;
        if (!failed) this.#lost([axis], error);
        failed = true;
        await this.clock.sleep(RETRY_MS, signal).catch(() => {});
      }
    }
  }

  #connected(inputs: readonly { control: string }[]): void {
    for (const { control } of inputs) this.#happened("Connect", control, 0);
  }

  /** Listeners stop what the control moves. */
  #lost(inputs: readonly { control: string }[], error: unknown): void {
    this.logger.warn(`cannot read its inputs: ${chainOf(error)}`);
    for (const { control } of inputs) this.#happened("Disconnect", control, 0);
  }

  #happened(event: string, control: string, value: number): void {
    this.#events.happened({ timeMs: this.clock.nowMs(), event, control, value });
  }
}

/** The reading within the range and outside of the dead zone, and the position of the axis. */
function positionOf(value: number, axis: Axis): { reading: number; position: number } {
  const { min, max, bidirectional, deadzone, invert } = axis;
  const limited = Math.max(min, Math.min(value, max));
  const rest = bidirectional ? Math.trunc((min + max) / 2) : min;
  const reading = Math.abs(limited - rest) < deadzone ? rest : limited;
  const share = (reading - min) / (max - min);
  const deflection = bidirectional ? 2 * share - 1 : share;
  const position = reading === rest ? 0 : deflection;
  return { reading, position: invert ? 0 - position : position };
}
