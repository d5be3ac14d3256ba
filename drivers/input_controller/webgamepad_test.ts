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

Deno.test("webgamepad: what a browser held is disconnected when its connection ends, and nothing else", async () => {
  const gamepad = await construct(WebgamepadInputController);
  const [phone, laptop] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const moved = (control: string, value: number, { promise: connectionEnded } = phone) =>
    gamepad.triggerEvent({ timeMs: 1, event: "PositionChangeAbs", control, value }, { connectionEnded });
  await moved("AbsoluteX", 0.5);
  await moved("AbsoluteY", -1);
  await moved("AbsoluteRX", 0.7);
  await moved("AbsoluteRY", 0.2);
  await moved("AbsoluteRX", 0);
  // Another browser has taken this one over.
  await moved("AbsoluteRY", 0.9, laptop);
  // A caller whose connections come and go.
  await gamepad.triggerEvent({ timeMs: 1, event: "PositionChangeAbs", control: "AbsoluteZ", value: 1 });

  phone.resolve();
  await phone.promise;
  const statesOf = async () =>
    (await gamepad.getEvents()).map(({ control, event, value }) => `${control} ${event} ${value}`);
  const others = ["AbsoluteRX PositionChangeAbs 0", "AbsoluteRY PositionChangeAbs 0.9"];
  assertEquals(await statesOf(), [
    ...["AbsoluteX Disconnect 0", "AbsoluteY Disconnect 0"],
    ...others,
    "AbsoluteZ PositionChangeAbs 1",
  ]);

  await gamepad.close();
  laptop.resolve();
  await laptop.promise;
  assertEquals((await statesOf()).slice(2, 4), others);
});
