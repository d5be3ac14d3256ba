import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Motor, MotorApi } from "../../lib/api/motor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { until } from "../support/until.ts";

export const contract: Contract<Motor> = {
  api: MotorApi,
  cases: {
    "turns by power in both directions until stopped": async (motor) => {
      for (const powerPct of [0.5, -0.5]) {
        await motor.setPower(powerPct);
        const { isOn, powerPct: found } = await motor.isPowered();
        assertEquals([isOn, Math.abs(found), await motor.isMoving()], [true, 0.5, true]);
      }
      await motor.stop();
      assertEquals([await motor.isPowered(), await motor.isMoving()], [{ isOn: false, powerPct: 0 }, false]);
    },
    "no power is off": async (motor) => {
      await motor.setRpm(50);
      assertEquals(await motor.isMoving(), true);
      await motor.setPower(0);
      assertEquals(await motor.isMoving(), false);
    },
    "refuses movements without speed or distance": async (motor) => {
      await assertRejects(() => motor.goFor(0, 1), SvcError, "nearly 0");
      await assertRejects(() => motor.goFor(50, 0), SvcError, "0 revolutions");
    },
    "GoFor turns and then stands; with position reporting, by that far": async (motor) => {
      const { positionReporting } = await motor.getProperties();
      if (positionReporting) await motor.resetZeroPosition(0);
      await motor.goFor(-300, 0.1);
      assertEquals(await motor.isMoving(), false);
      const position = await motor.getPosition();
      if (positionReporting) assert(position <= -0.09, `at ${position} after -0.1 revolutions`);
    },
    "GoTo and ResetZeroPosition work, or say that there is no position": async (motor) => {
      const { positionReporting } = await motor.getProperties();
      if (!positionReporting) {
        const refusals = [() => motor.goTo(300, 1), () => motor.resetZeroPosition(0)];
        for (const refused of refusals) {
          assertEquals((await assertRejects(refused, SvcError)).code, "unimplemented");
        }
        return;
      }
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
    "stop ends a long movement without an error": async (motor) => {
      const moving = motor.goFor(300, 100_000);
      await until(() => motor.isMoving());
      await motor.stop();
      await moving;
      assertEquals(await motor.isMoving(), false);
    },
    "a newer command takes over": async (motor) => {
      const moving = motor.goFor(300, 100_000);
      await until(() => motor.isMoving());
      await motor.setPower(0.25);
      await moving;
      assertEquals(Math.abs((await motor.isPowered()).powerPct), 0.25);
      await motor.stop();
    },
    "a caller who goes away stops what it started": async (motor) => {
      const caller = new AbortController();
      const moving = assertRejects(() => motor.goFor(300, 100_000, { signal: caller.signal }));
      await until(() => motor.isMoving());
      caller.abort(new SvcError("canceled", "gone"));
      await moving;
      await until(async () => !await motor.isMoving());
    },
  },
};
