import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { ArmApi } from "../actuators/arm.ts";
import { BaseApi } from "../actuators/base.ts";
import { BoardApi } from "../actuators/board.ts";
import { GantryApi } from "../actuators/gantry.ts";
import { GripperApi } from "../actuators/gripper.ts";
import { MotorApi } from "../actuators/motor.ts";
import { InputControllerApi } from "../sensors/input_controller.ts";

/** A client of a resource that takes every command, and the commands that it got. */
function recorded<R extends Resource>(api: Api<R>): { client: R; got: string[] } {
  const got: string[] = [], table = new ServiceTable(new FakeClock());
  const resource = new Proxy({} as R, {
    get: (_resource, method) => () => {
      got.push(String(method));
      return Promise.resolve({});
    },
  });
  table.add(api.serve(() => resource));
  return { client: api.client(ResourceName.of(api.name, "one"), memoryChannel(table)), got };
}

const AT_REST = { x: 0, y: 0, z: 0 }, NO_WAY = { ...AT_REST, y: NaN };

Deno.test("a command with a NaN is refused before its resource hears of it, with the field", async () => {
  const motor = recorded(MotorApi), base = recorded(BaseApi), board = recorded(BoardApi);
  const arm = recorded(ArmApi), gantry = recorded(GantryApi), gripper = recorded(GripperApi);
  const controller = recorded(InputControllerApi);
  const stick = { timeMs: 0, event: "PositionChangeAbs", control: "AbsoluteX", value: NaN };
  const pose = { ...NO_WAY, oX: 0, oY: 0, oZ: 1, theta: 0 };
  const commands: [command: () => Promise<unknown>, words: string][] = [
    [() => motor.client.setPower(NaN), "SetPower of one: found NaN for powerPct, wanted a number"],
    [() => motor.client.goFor(NaN, 1), "GoFor of one: found NaN for rpm"],
    [() => motor.client.goTo(1, NaN), "found NaN for positionRevolutions"],
    [() => motor.client.setRpm(NaN), "SetRPM of one: found NaN for rpm"],
    [() => base.client.setPower(NO_WAY, AT_REST), "SetPower of one: found NaN for linear.y"],
    [() => base.client.setVelocity(AT_REST, NO_WAY), "found NaN for angular.y"],
    [() => base.client.moveStraight(1, NaN), "found NaN for mmPerSec"],
    [() => base.client.spin(NaN, 1), "found NaN for angleDeg"],
    [() => board.client.setPwm("1", NaN), "found NaN for dutyCyclePct"],
    [() => arm.client.moveToJointPositions([0, NaN]), "found NaN for positions.values.1"],
    [() => arm.client.moveToPosition(pose), "found NaN for to.y"],
    [() => gantry.client.moveToPosition([NaN], []), "found NaN for positionsMm.0"],
    [() => gripper.client.goToInputs([NaN]), "found NaN for values.0"],
    [() => controller.client.triggerEvent(stick), "TriggerEvent of one: found NaN for event.value"],
  ];
  for (const [command, words] of commands) await assertRefused("invalid_argument", words, command);
  for (const one of [motor, base, board, arm, gantry, gripper, controller]) assertEquals(one.got, []);
});

Deno.test("infinities pass, and a NaN among a caller's own arguments or in a command of a model", async () => {
  const { client, got } = recorded(MotorApi);
  await client.setRpm(Infinity);
  await client.setPower(0.5, { extra: { filter: NaN } });
  await client.stop();
  await client.doCommand({ tune: [NaN] });
  assertEquals(got, ["setRpm", "setPower", "stop", "doCommand"]);
});
