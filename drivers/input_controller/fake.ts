/** An input controller without hardware: about once a second it makes each event that has a listener. */

import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { number, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import { InputEvents } from "./input_events.ts";

export const FakeInputController = model({
  api: InputControllerApi,
  name: "rdk:builtin:fake",
  doc: "An input controller without hardware: repeats every event that has a listener.",
  attributes: object({
    eventValue: number("value of every event; absent means random values from 0 to 1"),
    callbackDelaySec: number("seconds between events; absent or 0 means a random time from 1 to 2", {
      min: 0,
    })
      .default(0),
  }).required(),
  construct: ({ name, attributes: { eventValue, callbackDelaySec }, clock }) =>
    new Fake(name, clock, eventValue, callbackDelaySec * 1000),
});

class Fake extends BaseComponent implements InputController {
  readonly #events = new InputEvents();
  #cancelNext: () => void;

  constructor(
    name: ResourceName,
    private readonly clock: Clock,
    private readonly eventValue: number | undefined,
    private readonly delayMs: number,
  ) {
    super(name);
    this.#cancelNext = this.#afterDelay();
  }

  getControls(): Promise<readonly string[]> {
    return Promise.resolve(["AbsoluteX", "ButtonStart"]);
  }

  /** One axis always has an event; other controls have one after a trigger. */
  getEvents(): Promise<readonly InputEvent[]> {
    const latest = this.#events.latest;
    if (latest.some(({ control }) => control === "AbsoluteX")) return Promise.resolve(latest);
    return Promise.resolve([this.#event("AbsoluteX", "PositionChangeAbs"), ...latest]);
  }

  streamEvents(filters: readonly EventFilter[], call?: Call): AsyncIterable<InputEvent> {
    return this.#events.stream(filters, call?.signal);
  }

  triggerEvent(event: InputEvent): Promise<void> {
    return Promise.try(() => this.#events.happened(event));
  }

  override close(): Promise<void> {
    this.#cancelNext();
    this.#events.close();
    return Promise.resolve();
  }

  #afterDelay(): () => void {
    const delayMs = this.delayMs || 1000 + Math.random() * 1000;
    return this.clock.after(delayMs, () => {
      for (const { control, event } of this.#events.wanted) this.#events.tell(this.#event(control, event));
      this.#cancelNext = this.#afterDelay();
    });
  }

  #event(control: string, event: string): InputEvent {
    return { timeMs: this.clock.nowMs(), event, control, value: this.eventValue ?? Math.random() };
  }
}
