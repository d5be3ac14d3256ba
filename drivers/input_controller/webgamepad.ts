/** A gamepad in a web browser: events arrive by TriggerEvent and go out to the listeners. */

import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
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
  construct: ({ name }) => new Webgamepad(name),
});

class Webgamepad extends BaseComponent implements InputController {
  readonly #events = new InputEvents();

  getControls(): Promise<readonly string[]> {
    return Promise.resolve([...AXES, ...BUTTONS]);
  }

  getEvents(): Promise<readonly InputEvent[]> {
    return Promise.resolve(this.#events.latest);
  }

  streamEvents(filters: readonly EventFilter[], call?: Call): AsyncIterable<InputEvent> {
    return this.#events.stream(filters, call?.signal);
  }

  triggerEvent(event: InputEvent): Promise<void> {
    this.#events.happened(event);
    return Promise.resolve();
  }

  override close(): Promise<void> {
    this.#events.close();
    return Promise.resolve();
  }
}
