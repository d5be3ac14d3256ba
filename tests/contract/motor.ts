import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Motor, MotorApi } from "../../lib/api/actuators/motor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { until } from "../support/until.ts";

export const contract: Contract<Motor> = {
  api: MotorApi,
  cases: {
    "setPower turns the motor in both directions until stop": async (motor) => {
      for (const powerPct of [0.5, -0.5]) {
        await motor.setPower(powerPct);
        const { isOn, powerPct: found } = await motor.isPowered();
        assertEquals([isOn, Math.abs(found), await motor.isMoving()], [true, 0.5, true]);
      }
      await motor.stop();
      assertEquals([await motor.isPowered(), await motor.isMoving()], [{ isOn: false, powerPct: 0 }, false]);
    },
    "setPower with 0 stops the motor": async (motor) => {
      await motor.setRpm(50);
      assertEquals(await motor.isMoving(), true);
      await motor.setPower(0);
      assertEquals(await motor.isMoving(), false);
    },
    "goFor refuses a speed of 0 and 0 revolutions": async (motor) => {
      await assertRejects(() => motor.goFor(0, 1), SvcError, "nearly 0");
      await assertRejects(() => motor.goFor(50, 0), SvcError, "0 revolutions");
    },
    "goFor turns the motor by its revolutions and stops it": async (motor) => {
      const hasPositions = await reportsPositions(motor);
      if (hasPositions) await motor.resetZeroPosition(0);
      await motor.goFor(-300, 0.1);
      assertEquals(await motor.isMoving(), false);
      const position = await motor.getPosition();
      if (hasPositions) assert(position <= -0.09, `at ${position} after -0.1 revolutions`);
    },
    "goTo and resetZeroPosition work if the motor reports positions": {
      capability: "positions",
      has: reportsPositions,
      check: async (motor) => {
        for (const none of [NaN, Infinity]) {
          for (const refused of [() => motor.goTo(300, none), () => motor.resetZeroPosition(none)]) {
            assertEquals((await assertRejects(refused, SvcError)).code, "invalid_argument");
          }
        }
        await motor.resetZeroPosition(2);
        assertEquals(await motor.getPosition(), -2);
        await motor.goTo(300, -1.9);
        const position = await motor.getPosition();
        assert(position > -2, `at ${position} after going from -2 to -1.9`);
        await motor.resetZeroPosition(0);
      },
      otherwise: async (motor) => {
        for (const refused of [() => motor.goTo(300, 1), () => motor.resetZeroPosition(0)]) {
          assertEquals((await assertRejects(refused, SvcError)).code, "unimplemented");
        }
      },
    },
    "stop ends a running goFor without an error": async (motor) => {
      const moving = motor.goFor(300, 100_000);
      await until(() => motor.isMoving());
      await motor.stop();
      await moving;
      assertEquals(await motor.isMoving(), false);
    },
    "setPower ends a running goFor": async (motor) => {
      const moving = motor.goFor(300, 100_000);
      await until(() => motor.isMoving());
      await motor.setPower(0.25);
      await moving;
      assertEquals(Math.abs((await motor.isPowered()).powerPct), 0.25);
      await motor.stop();
    },
    "an aborted goFor stops the motor": async (motor) => {
      const caller = new AbortController();
      const moving = assertRejects(() => motor.goFor(300, 100_000, { signal: caller.signal }));
      await until(() => motor.isMoving());
      caller.abort(new SvcError("canceled", "gone"));
      await moving;
      await until(async () => !await motor.isMoving());
    },
  },
};

async function reportsPositions(motor: Motor): Promise<boolean> {
  return (await motor.getProperties()).positionReporting;
}
