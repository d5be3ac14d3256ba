import { assert, assertEquals } from "@std/assert";
import type { Base } from "../../lib/api/actuators/base.ts";
import type { InputController } from "../../lib/api/sensors/input_controller.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { SvcError } from "../../lib/base/error.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeBase } from "../base/fake.ts";
import { WebgamepadInputController } from "../input_controller/webgamepad.ts";
import { BuiltinBaseRemoteControl } from "./builtin.ts";

async function bench(attributes: JsonObject = {}) {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const base: Base = await construct(FakeBase, {}, { name: "b" });
  const pad: InputController = await construct(WebgamepadInputController, {}, { name: "pad" });
  const commands: unknown[] = [];
  base.setPower = ({ x, y, z }, angular) => Promise.resolve(void commands.push([x, y, z, angular.z]));
  base.setVelocity = ({ y }, angular) => Promise.resolve(void commands.push(["velocity", y, angular.z]));
  base.stop = () => Promise.resolve(void commands.push("stop"));
  const settings = { base: "b", input_controller: "pad", ...attributes };
  const service = await construct(BuiltinBaseRemoteControl, settings, {
    dependencies: [base, pad],
    clock,
    logged,
  });
  await clock.advance(0);
  const send = async (control: string, value: number, event = "PositionChangeAbs") => {
    await pad.triggerEvent({ timeMs: clock.nowMs(), event, control, value });
    await clock.advance(0);
    return commands.splice(0);
  };
  return { clock, base, pad, service, commands, send, logged };
}

Deno.test("base remote control: arrows, a stick, triggers, buttons and two sticks drive the base", async () => {
  const modes: [
    mode: string,
    [control: string, value: number, command: number[] | undefined, event?: string][],
  ][] = [
    ["arrowControl", [["AbsoluteHat0Y", -1, [0, 1, 0, 0]], ["AbsoluteHat0X", 1, [0, 1, 0, -1]], [
      "AbsoluteHat0Y",
      0,
      [
        0,
        0,
        0,
        -1,
      ],
    ]]],
    ["joystickControl", [
      ["AbsoluteY", -0.2, undefined],
      ["AbsoluteY", -0.55, [0, 0.6, 0, 0]],
      ["AbsoluteX", 0.31, [0, 0.6, 0, -0.4]],
    ]],
    ["triggerSpeedControl", [
      ["AbsoluteRZ", 1, undefined],
      ["AbsoluteRZ", 1, [0, 0.1, 0, 0]],
      ["AbsoluteX", 0.5, [0, 0.1, 0, 0.5]],
    ]],
    ["buttonControl", [
      ["ButtonNorth", 1, [0, 1, 0, 0], "ButtonPress"],
      ["ButtonEast", 1, [0, 1, 0, -1], "ButtonPress"],
      ["ButtonNorth", 0, [0, 0, 0, -1], "ButtonRelease"],
    ]],
    ["droneControl", [
      ["AbsoluteRX", 1, [1, 0, 0, 0]],
      ["AbsoluteY", -1, [1, 0, 1, 0]],
      ["AbsoluteX", -1, [1, 0, 1, 1]],
    ]],
  ];
  for (const [mode, events] of modes) {
    const { service, send } = await bench({ control_mode: mode });
    for (const [control, value, command, event] of events) {
      assertEquals(
        await send(control, value, event),
        command ? [command] : [],
        `${mode} ${control} ${value}`,
      );
    }
    await service.close();
  }
});

Deno.test("base remote control: a base that moves by the least comes to rest with its stick and its triggers", async () => {
  const { service, send } = await bench({ control_mode: "triggerSpeedControl" });
  // A stick that is let go gives small values on its way back.
  assertEquals(await send("AbsoluteX", 0.1), [[0, 0, 0, 0.1]]);
  assertEquals(await send("AbsoluteX", 0.04), [[0, 0, 0, 0.04]]);
  assertEquals(await send("AbsoluteX", 0.02), [], "no news");
  assertEquals(await send("AbsoluteX", 0), [[0, 0, 0, 0]], "but rest is");
  assertEquals(await send("AbsoluteX", 0), []);

  assertEquals(await send("AbsoluteRZ", 1), []);
  assertEquals(await send("AbsoluteX", 0.5), [[0, 0.05, 0, 0.5]]);
  assertEquals(await send("AbsoluteX", 0), [[0, 0.05, 0, 0]]);
  assertEquals(await send("AbsoluteZ", 1), [[0, 0, 0, 0]], "one step back");

  for (let step = 0; step < 3; step++) await send("AbsoluteRZ", 1);
  assertEquals(await send("AbsoluteX", 0.5), [[0, 0.15000000000000002, 0, 0.5]]);
  const back = [];
  for (let step = 0; step < 3; step++) back.push(...await send("AbsoluteZ", 1));
  const [, forward] = back.at(-1) as number[];
  assert(Math.abs(forward!) < 1e-9, `its last command is ${forward}`);
  await service.close();
});

Deno.test("base remote control: with both limits it holds velocities", async () => {
  const { service, send } = await bench({
    control_mode: "joystickControl",
    max_linear_mm_per_sec: 500,
    max_angular_deg_per_sec: 90,
  });
  assertEquals(await send("AbsoluteY", -1), [["velocity", 500, 0]]);
  assertEquals(await send("AbsoluteX", -0.5), [["velocity", 500, 45]]);
  await service.close();
});

Deno.test("base remote control: the base stops when the controller goes, its events end, or the service closes", async () => {
  const { clock, pad, service, commands, send } = await bench();
  assertEquals(await send("AbsoluteHat0Y", -1), [[0, 1, 0, 0]]);
  assertEquals(await send("AbsoluteHat0Y", 0, "Disconnect"), ["stop"]);
  assertEquals(await send("AbsoluteHat0X", -1), [[0, 0, 0, 1]], "what was pressed before no longer counts");
  await pad.close();
  await clock.advance(10);
  assertEquals(commands.splice(0), ["stop"]);
  await service.close();
  assertEquals([commands, clock.pending], [["stop"], 0]);
});

Deno.test("base remote control: the newest wish counts, and a base that fails is told again", async () => {
  const { clock, base, service, commands, send, logged } = await bench();
  const power = base.setPower;
  base.setPower = () => Promise.reject(new SvcError("unavailable", "the motors are gone"));
  await send("AbsoluteHat0Y", -1);
  await send("AbsoluteHat0Y", 0);
  assert(logged.some(({ message }) => message.includes("the motors are gone")));
  base.setPower = power;
  await clock.advance(1000);
  assertEquals(commands, [[0, 0, 0, 0]]);
  await service.close();
});

Deno.test("base remote control: a command that hangs delays neither the stick's release nor a lost controller", async () => {
  const { clock, base, service, commands, send } = await bench();
  const power = base.setPower;
  for (const [event, wanted] of [["PositionChangeAbs", [0, 0, 0, 0]], ["Disconnect", "stop"]] as const) {
    let givenUp = false;
    base.setPower = (_linear, _angular, call) => {
      call!.signal!.addEventListener("abort", () => givenUp = true);
      return new Promise(() => {});
    };
    await send("AbsoluteHat0Y", -1);
    base.setPower = power;
    assertEquals([await send("AbsoluteHat0Y", 0, event), givenUp], [[wanted], true], event);
    assertEquals(await send("AbsoluteHat0Y", -1), [[0, 1, 0, 0]], "and it drives again");
    await send("AbsoluteHat0Y", 0);
  }
  await service.close();
  assertEquals([commands, clock.pending], [["stop"], 0]);
});

Deno.test("base remote control: a stop that hangs is tried again, and closing does not wait for it", async () => {
  const { clock, base, service, commands, send, logged } = await bench();
  const stop = base.stop;
  await send("AbsoluteHat0Y", -1);
  base.stop = () => {
    commands.push("hung stop");
    return new Promise(() => {});
  };
  assertEquals(await send("AbsoluteHat0Y", 0, "Disconnect"), ["hung stop"]);
  await clock.advance(2_200);
  assertEquals(commands.splice(0), ["hung stop"]);
  assert(logged.some(({ message }) => message.includes("it has not stopped within 2 s")));
  base.stop = stop;
  await clock.advance(2_200);
  assertEquals(commands.splice(0), ["stop"]);

  base.stop = () => new Promise(() => {});
  await send("AbsoluteHat0Y", 0, "Disconnect");
  base.stop = stop;
  await service.close();
  assertEquals([commands, clock.pending], [["stop"], 0]);
});

Deno.test("base remote control: its parts are dependencies; an unknown mode means arrows", async () => {
  assertEquals(namedBy(BuiltinBaseRemoteControl, { base: "b", input_controller: "pad" }), ["b", "pad"]);
  assertEquals(problemsOf(BuiltinBaseRemoteControl, {}).length, 2);
  const { service, send, logged } = await bench({ control_mode: "thoughts" });
  assertEquals(await send("AbsoluteHat0Y", 1), [[0, -1, 0, 0]]);
  assert(logged.some(({ message }) => message.includes("arrowControl is used")));
  await service.close();
});

Deno.test("base remote control: what is held during StopAll counts again after all of it was at rest", async () => {
  const { service, send, commands, clock } = await bench({ control_mode: "joystickControl" });
  const stopAll = async () => {
    service.stoppedAll!();
    await clock.advance(0);
    return commands.splice(0);
  };
  assertEquals(await send("AbsoluteY", -0.95), [[0, 1, 0, 0]]);
  assertEquals(await send("AbsoluteX", -0.95), [[0, 1, 0, 1]]);
  assertEquals(await stopAll(), ["stop"]);
  // A hand trembles, and lets one stick go.
  assertEquals(await send("AbsoluteY", -0.75), []);
  assertEquals(await send("AbsoluteX", 0), []);
  assertEquals(await send("AbsoluteX", 0.95), []);
  assertEquals(await send("AbsoluteY", 0), []);
  assertEquals(await send("AbsoluteX", 0.05), [], "at rest");
  assertEquals(await send("AbsoluteY", -0.95), [[0, 1, 0, 0]]);

  assertEquals(await stopAll(), ["stop"]);
  assertEquals(await send("AbsoluteY", -0.95), []);
  assertEquals(await send("AbsoluteY", 0, "Disconnect"), ["stop"]);
  assertEquals(await send("AbsoluteY", -0.95), [[0, 1, 0, 0]], "another controller");

  assertEquals(await send("AbsoluteY", 0), [[0, 0, 0, 0]]);
  assertEquals(await stopAll(), ["stop"]);
  assertEquals(await send("AbsoluteY", -0.95), [[0, 1, 0, 0]], "nothing was held");
  await service.close();

  const triggers = await bench({ control_mode: "triggerSpeedControl" });
  for (let step = 0; step < 3; step++) await triggers.send("AbsoluteRZ", 0.9 + step / 100);
  triggers.service.stoppedAll!();
  await triggers.clock.advance(0);
  assertEquals(triggers.commands.splice(0), ["stop"]);
  for (let step = 0; step < 3; step++) assertEquals(await triggers.send("AbsoluteRZ", 0.9 + step / 100), []);
  await triggers.service.close();
});
