/**
 * A gamepad or joystick at this computer (Linux): known models by their names, others with the layout of the most common
 * one. If the gamepad goes away, its controls are disconnected, and a listener stops what they move.
 */

import {
  type EventFilter,
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { bool, object, text } from "../../lib/base/schema/schema.ts";
import { type Axis, type DeviceEvent, InputDevice } from "../../lib/device/evdev.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model, type ModelHost } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { DEFAULT_LAYOUT, type Layout, LAYOUTS } from "./gamepad_layouts.ts";
import { InputEvents } from "./input_events.ts";

const FOLDER = "/dev/input";
const WAIT_MS = 200;
const PAUSE_MS = 5;
const RETRY_MS = 1_000;
/** Keys of a device that is a joystick or gamepad, and no keyboard or mouse. */
const [JOYSTICK_KEYS, KEYS_END] = [0x120, 0x140];
const [AXIS_X, AXIS_Y] = [0, 1];

export const GamepadInputController = model({
  api: InputControllerApi,
  name: "rdk:builtin:gamepad",
  doc: "A gamepad or joystick at this computer (Linux).",
  attributes: object({
    devFile: text("device file: /dev/input/event0, /dev/input/by-id/…; absent means the first gamepad")
      .emptyIsAbsent(),
    autoReconnect: bool("look for a gamepad again when there is none, or when it has gone").default(false),
  }).required(),
  construct: ({ name, attributes: { devFile, autoReconnect }, host, clock, logger }) => {
    if (host.platform().os !== "linux") throw new SvcError("unimplemented", `${name} works on Linux only`);
    return new Gamepad(name, () => findGamepad(host, devFile), autoReconnect, clock, logger);
  },
});

interface Found {
  readonly device: InputDevice;
  readonly layout: Layout;
}

class Gamepad extends BaseComponent implements InputController {
  readonly #events = new InputEvents();
  readonly #closing = new AbortController();
  readonly #following: Promise<void>;
  #controls: readonly string[] = [];
  #failure?: unknown;

  constructor(
    name: ResourceName,
    private readonly find: () => Promise<Found>,
    private readonly autoReconnect: boolean,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
    this.#following = this.#follow();
  }

  getControls(): Promise<readonly string[]> {
    if (this.#controls.length > 0) return Promise.resolve(this.#controls);
    const why = this.#failure === undefined ? "" : `: ${chainOf(this.#failure)}`;
    return Promise.reject(new SvcError("unavailable", `${this.name}: no gamepad is connected${why}`));
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
    await this.#following;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      let found: Found | undefined;
      try {
        found = await this.find();
        this.logger.info(`found the gamepad "${found.device.name}"`);
        this.#failure = undefined;
        this.#controls = [...found.layout.axes.values(), ...found.layout.buttons.values()];
        this.#connected("Connect");
        await this.#read(found, signal);
      } catch (error) {
        if (signal.aborted) break;
        if (found) this.#connected("Disconnect");
        if (this.#failure === undefined) this.logger.warn(`has no gamepad: ${chainOf(error)}`);
        this.#failure = error;
      } finally {
        found?.device.close();
      }

      if (!this.autoReconnect) return;
      await this.clock.sleep(RETRY_MS, signal).catch(() => {});
    }
  }

  /** Until the device is gone, which throws. */
  async #read({ device, layout }: Found, signal: AbortSignal): Promise<void> {
    const axes = new Map<number, Axis>();
    for (const code of layout.axes.keys()) if (device.hasAxis(code)) axes.set(code, device.axis(code));
    while (!signal.aborted) {
      for (const event of await device.events(WAIT_MS)) {
        if (event.kind === "dropped") {
          for (const now of stateOf(device, layout, axes)) this.#tell(now, layout, axes);
        } else this.#tell(event, layout, axes);
      }
      // A stick that always moves must not keep everybody else waiting.
      await this.clock.sleep(PAUSE_MS, signal).catch(() => {});
    }
  }

  #tell(event: DeviceEvent, layout: Layout, axes: ReadonlyMap<number, Axis>): void {
    if (event.kind === "dropped") return;
    const { code, value } = event, timeMs = this.clock.nowMs();
    if (event.kind === "axis") {
      const control = layout.axes.get(code), axis = axes.get(code);
      if (!control || !axis) return;
      this.#events.happened({
        timeMs,
        event: "PositionChangeAbs",
        control,
        value: axisPosition(control, value, axis),
      });
      return;
    }

    const control = layout.buttons.get(code);
    if (!control) return;

    const kind = ["ButtonRelease", "ButtonPress", "ButtonHold"][value];
    if (kind) this.#events.happened({ timeMs, event: kind, control, value: value === 0 ? 0 : 1 });
  }

  #connected(event: "Connect" | "Disconnect"): void {
    const timeMs = this.clock.nowMs();
    for (const control of this.#controls) this.#events.happened({ timeMs, event, control, value: 0 });
  }
}

/** Everything as it is now, because events were lost: a lost release would leave a button pressed. */
function stateOf(device: InputDevice, layout: Layout, axes: ReadonlyMap<number, Axis>): DeviceEvent[] {
  return [
    ...[...axes.keys()].map((code): DeviceEvent => {
      return { kind: "axis", code, value: device.axis(code).value, timeMs: 0 };
    }),
    ...[...layout.buttons.keys()].map((code): DeviceEvent => {
      return { kind: "key", code, value: device.isPressed(code) ? 1 : 0, timeMs: 0 };
    }),
  ];
}

/** From -1 to 1; triggers from 0 to 1, and pedals, which rest at their largest value, from 0 to 1. */
export function axisPosition(
  control: string,
  value: number,
  { min, max, flat }: Omit<Axis, "value">,
): number {
  if (max <= min) return 0;
  const share = Math.max(0, Math.min((value - min) / (max - min), 1));
  const trigger = control === "AbsoluteZ" || control === "AbsoluteRZ";
  if (trigger || control.startsWith("AbsolutePedal")) {
    const position = trigger ? share : 1 - share;
    return position <= flat / (max - min) ? 0 : position;
  }
  const position = 2 * share - 1;
  return Math.abs(position) <= 2 * flat / (max - min) ? 0 : position;
}

/** The gamepad at the path; without a path, the first known one or else the first of any kind. */
async function findGamepad(host: ModelHost, path?: string): Promise<Found> {
  const paths = path === undefined ? await eventPaths(host) : [path];
  const others: InputDevice[] = [];
  const failures: unknown[] = [];
  try {
    for (const one of paths) {
      let device: InputDevice;
      try {
        device = InputDevice.open(host, one);
      } catch (cause) {
        failures.push(cause);
        continue;
      }
      const layout = LAYOUTS.get(device.name.trim());
      if (layout) return { device, layout };
      if (isGamepad(device) || path !== undefined) others.push(device);
      else device.close();
    }
    const device = others.shift();
    if (device) return { device, layout: DEFAULT_LAYOUT };
  } finally {
    for (const device of others) device.close();
  }

  const why = failures.length > 0 ? `: ${chainOf(failures[0])}` : "";
  const where = path ?? `${FOLDER}/event*`;
  throw new SvcError("not_found", `found no gamepad at ${where} of ${paths.length} devices${why}`, {
    cause: failures[0],
  });
}

async function eventPaths(host: ModelHost): Promise<string[]> {
  const names = await host.readFolder(FOLDER).catch(() => []);
  const numbers = names.flatMap((name) =>
    /^event\d{1,5}$/.test(name) ? [Number(name.slice("event".length))] : []
  );
  return numbers.sort((a, b) => a - b).map((number) => `${FOLDER}/event${number}`);
}

function isGamepad(device: InputDevice): boolean {
  if (!device.hasAxis(AXIS_X) || !device.hasAxis(AXIS_Y)) return false;
  for (let key = JOYSTICK_KEYS; key < KEYS_END; key++) if (device.hasKey(key)) return true;
  return false;
}
