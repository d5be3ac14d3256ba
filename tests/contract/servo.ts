import { assertEquals } from "@std/assert";
import { type Servo, ServoApi } from "../../lib/api/actuators/servo.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Servo> = {
  api: ServoApi,
  cases: {
    "getPosition returns the angle of move": async (servo) => {
      for (const angleDeg of [0, 90, 33]) {
        await servo.move(angleDeg);
        assertEquals(await servo.getPosition(), angleDeg);
      }
    },
    "stop keeps the position": async (servo) => {
      await servo.move(45);
      await servo.stop();
      assertEquals([await servo.getPosition(), await servo.isMoving()], [45, false]);
    },
  },
};
