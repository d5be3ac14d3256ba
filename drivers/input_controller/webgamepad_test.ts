import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { WebgamepadInputController } from "./webgamepad.ts";

Deno.test("webgamepad: it has 19 controls and no events at first", async () => {
  const gamepad = await construct(WebgamepadInputController);
  const controls = await gamepad.getControls();
  assertEquals([controls.length, controls[0], controls.at(-1)], [19, "AbsoluteX", "ButtonMenu"]);
  assertEquals(await gamepad.getEvents(), []);
});

Deno.test("webgamepad: the latest event of a control is its state", async () => {
  const gamepad = await construct(WebgamepadInputController);
  const press = { timeMs: 1, event: "ButtonPress", control: "ButtonMenu", value: 1 };
  const release = { timeMs: 2, event: "ButtonRelease", control: "ButtonMenu", value: 0 };
  await gamepad.triggerEvent(press);
  await gamepad.triggerEvent(release);
  assertEquals(await gamepad.getEvents(), [release]);
});
