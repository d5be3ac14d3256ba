import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { InputEvent } from "../../lib/api/sensors/input_controller.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeGamepad, FakeGamepads } from "../../tests/support/fake_gamepad.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { axisPosition, GamepadInputController } from "./gamepad.ts";

const STICK = [-32768, 32767, 128] as const, TRIGGER = [0, 255] as const;
const AXES = {
  0: STICK,
  1: STICK,
  2: TRIGGER,
  3: STICK,
  4: STICK,
  5: TRIGGER,
  16: [-1, 1],
  17: [-1, 1],
} as const;
const KEYS = [304, 305, 307, 308, 310, 311, 314, 315, 316, 317, 318];
const xbox = () => new FakeGamepad("Microsoft X-Box 360 pad ", KEYS, AXES);

async function bench(gamepads: Record<string, FakeGamepad>, attributes: JsonObject = {}) {
  const devices = new FakeGamepads();
  for (const [path, gamepad] of Object.entries(gamepads)) devices.gamepads.set(`/dev/input/${path}`, gamepad);
  const host = new FakeHost({ devices });
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const controller = await construct(GamepadInputController, attributes, { host, clock, logged });
  await clock.advance(1);
  const state = async () =>
    Object.fromEntries(
      (await controller.getEvents()).map(({ control, event, value }) => [control, [event, value]]),
    );
  return { devices, clock, controller, state, logged };
}

Deno.test("gamepad: a known gamepad's sticks, triggers and buttons are events of its controls", async () => {
  const gamepad = xbox();
  const { devices, clock, controller, state } = await bench({ event3: gamepad });
  const controls = await controller.getControls();
  assertEquals([controls.length, new Set(controls).size], [19, 19]);
  assertEquals((await state()).ButtonSouth, ["Connect", 0]);
  const heard: InputEvent[] = [];
  const reading = (async () => {
    for await (const event of controller.streamEvents([{ control: "ButtonSouth", events: ["AllEvents"] }])) {
      heard.push(event);
    }
  })();
  gamepad.move(0, 32767);
  gamepad.move(1, -32768);
  gamepad.move(5, 255);
  gamepad.move(3, 100);
  for (const value of [1, 2, 0]) gamepad.press(304, value);
  gamepad.press(999, 1);
  await clock.advance(10);
  const now = await state();
  assertEquals([now.AbsoluteX, now.AbsoluteY, now.AbsoluteRZ, now.AbsoluteRX], [
    ["PositionChangeAbs", 1],
    ["PositionChangeAbs", -1],
    ["PositionChangeAbs", 1],
    ["PositionChangeAbs", 0],
  ]);
  await controller.close();
  await reading;
  assertEquals(heard.map(({ event, value }) => [event, value]), [
    ["ButtonPress", 1],
    ["ButtonHold", 1],
    ["ButtonRelease", 0],
  ]);
  assertEquals([devices.open, clock.pending], [0, 0]);
});

Deno.test("gamepad: it prefers a known gamepad, then any gamepad, and never a keyboard", async () => {
  const keyboard = new FakeGamepad("Keyboard", [30, 31], {});
  const other = new FakeGamepad("No Name", [304], { 0: STICK, 1: STICK });
  const first = await bench({ event0: keyboard, event1: other, event10: xbox() });
  assert(first.logged.some(({ message }) => message.includes("Microsoft X-Box 360 pad")));
  assertEquals(first.devices.open, 1);
  await first.controller.close();
  const second = await bench({ event0: keyboard, event1: other });
  other.move(0, 32767);
  await second.clock.advance(10);
  assertEquals((await second.state()).AbsoluteX, ["PositionChangeAbs", 1]);
  await second.controller.close();
  const none = await bench({ event0: keyboard });
  const error = await assertRejects(() => none.controller.getControls(), SvcError, "found no gamepad");
  assertEquals([error.code, none.devices.open], ["unavailable", 0]);
  await none.controller.close();
});

Deno.test("gamepad: when it goes its controls are disconnected; auto_reconnect finds it again", async () => {
  const gamepad = xbox();
  const { devices, clock, controller, state } = await bench({ event3: gamepad }, { auto_reconnect: true });
  gamepad.move(1, -32768);
  await clock.advance(10);
  gamepad.gone = true;
  devices.gamepads.clear();
  await clock.advance(10);
  assertEquals((await state()).AbsoluteY, ["Disconnect", 0]);
  devices.gamepads.set("/dev/input/event7", xbox());
  await clock.advance(2000);
  assertEquals([(await state()).AbsoluteY, devices.open], [["Connect", 0], 1]);
  await controller.close();
  const fixed = await bench({ event3: xbox() }, { dev_file: "/dev/input/event9" });
  await assertRejects(() => fixed.controller.getControls(), SvcError, "/dev/input/event9");
  await fixed.controller.close();
});

Deno.test("gamepad: after lost events the state is read anew, so that no button stays pressed", async () => {
  const gamepad = xbox();
  const { clock, controller, state } = await bench({ event3: gamepad });
  gamepad.press(305, 1);
  gamepad.move(0, 32767);
  await clock.advance(10);
  assertEquals((await state()).ButtonEast, ["ButtonPress", 1]);
  gamepad.press(305, 0);
  gamepad.move(0, 0);
  gamepad.overflow();
  await clock.advance(10);
  const now = await state();
  assertEquals([now.ButtonEast, now.AbsoluteX], [["ButtonRelease", 0], ["PositionChangeAbs", 0]]);
  await controller.close();
});

Deno.test("axisPosition(): sticks from -1 to 1, triggers from 0 to 1, pedals at rest 0, broken ranges 0", () => {
  const range = { min: 0, max: 200, flat: 0 };
  for (
    const [control, value, position] of [
      ["AbsoluteX", 0, -1],
      ["AbsoluteX", 150, 0.5],
      ["AbsoluteX", 900, 1],
      ["AbsoluteZ", 50, 0.25],
      ["AbsolutePedalBrake", 200, 0],
      ["AbsolutePedalBrake", 50, 0.75],
    ] as const
  ) assertAlmostEquals(axisPosition(control, value, range), position, 1e-9, `${control} ${value}`);
  assertEquals(axisPosition("AbsoluteX", 5, { min: 7, max: 7, flat: 0 }), 0);
});
