/**
 * A gamepad in a web browser: events arrive by TriggerEvent and go out to the listeners. When a browser's connection
 * ends, the controls that it held are disconnected, and a listener stops what they move.
 */

import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { InputEvents } from "./input_events.ts";

const AXES = ["X", "Y", "RX", "RY", "Z", "RZ", "Hat0X", "Hat0Y"].map((axis) => `Absolute${axis}`);
const BUTTONS = [
  ...["South", "East", "West", "North", "LT", "RT", "LThumb", "RThumb"],
  ...["Select", "Start", "Menu"],
].map((button) => `Button${button}`);

export const WebgamepadInputController = model({
  api: InputControllerApi,
  name: "rdk:builtin:webgamepad",
  doc:
    'A gamepad in a browser, which sends its events with TriggerEvent; browsers look for one named "WebGamepad".',
  attributes: object({}),
  construct: ({ name, clock }) => new Webgamepad(name, clock),
});

class Webgamepad extends BaseComponent implements InputController {
  readonly #events = new InputEvents();
  /** The controls that are pressed or away from rest, by the connection that reported it last. */
  readonly #held = new Map<Promise<void>, Set<string>>();

  constructor(name: ResourceName, private readonly clock: Clock) {
    super(name);
  }

  getControls(): Promise<readonly string[]> {
    return Promise.resolve([...AXES, ...BUTTONS]);
  }

  getEvents(): Promise<readonly InputEvent[]> {
    return Promise.resolve(this.#events.latest);
  }

  streamEvents(filters: readonly EventFilter[], call?: Call): AsyncIterable<InputEvent> {
    return this.#events.stream(filters, call?.signal);
  }

  triggerEvent(event: InputEvent, call?: Call): Promise<void> {
    return Promise.try(() => {
      this.#events.happened(event);
      for (const controls of this.#held.values()) controls.delete(event.control);
      if (call?.connectionEnded && event.value !== 0) this.#heldBy(call.connectionEnded).add(event.control);
    });
  }

  #heldBy(connection: Promise<void>): Set<string> {
    const known = this.#held.get(connection);
    if (known) return known;
    const controls = new Set<string>();
    this.#held.set(connection, controls);
    void connection.then(() => this.#lost(connection));
    return controls;
  }

  #lost(connection: Promise<void>): void {
    for (const control of this.#held.get(connection) ?? []) {
      this.#events.happened({ timeMs: this.clock.nowMs(), event: "Disconnect", control, value: 0 });
    }
    this.#held.delete(connection);
  }

  override close(): Promise<void> {
    this.#held.clear();
    this.#events.close();
    return Promise.resolve();
  }
}
