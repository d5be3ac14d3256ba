import { assertEquals } from "@std/assert";
import { type Base, BaseApi } from "../../lib/api/actuators/base.ts";
import type { Contract } from "./contract.ts";

const NONE = { x: 0, y: 0, z: 0 };
const FORWARDS = { x: 0, y: 0.5, z: 0 };

export const contract: Contract<Base> = {
  api: BaseApi,
  cases: {
    "isMoving returns false after stop and after movements of zero": async (base) => {
      for (
        const stand of [
          () => base.stop(),
          () => base.setPower(NONE, NONE),
          () => base.setVelocity(NONE, NONE),
          () => base.moveStraight(0, 100),
          () => base.spin(90, 0),
        ]
      ) {
        await base.setPower(FORWARDS, NONE);
        await stand();
        assertEquals(await base.isMoving(), false);
      }
    },
    "isMoving returns false after moveStraight and spin": async (base) => {
      await base.moveStraight(-10, 200);
      await base.spin(5, 90);
      assertEquals(await base.isMoving(), false);
    },
    "stop ends a long movement without an error": async (base) => {
      const moving = base.moveStraight(1_000_000, 100);
      await base.isMoving();
      await base.stop();
      await moving;
      assertEquals(await base.isMoving(), false);
    },
    "getProperties returns a width above 0": async (base) => {
      const { widthMeters, turningRadiusMeters, wheelCircumferenceMeters } = await base.getProperties();
      assertEquals([widthMeters > 0, turningRadiusMeters >= 0, wheelCircumferenceMeters >= 0], [
        true,
        true,
        true,
      ]);
    },
  },
};
