import { assertEquals, assertRejects } from "@std/assert";
import { type Gantry, GantryApi } from "../../lib/api/actuators/gantry.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { modelOf } from "./kinematics.ts";

export const contract: Contract<Gantry> = {
  api: GantryApi,
  cases: {
    "has a length, a position and a joint for each axis": async (gantry) => {
      const lengthsMm = await gantry.getLengths();
      assertEquals((await gantry.getPosition()).length, lengthsMm.length);
      assertEquals((await modelOf(gantry)).joints.length, lengthsMm.length);
    },
    "getPosition returns the target of moveToPosition": async (gantry) => {
      const lengthsMm = await gantry.getLengths();
      for (const part of [0, 1, 0.25]) {
        const goal = lengthsMm.map((lengthMm) => lengthMm * part);
        await gantry.moveToPosition(goal, lengthsMm.map(() => 1000));
        assertEquals(await gantry.getPosition(), goal);
      }
    },
    "moveToPosition works without speeds": async (gantry) => {
      const goal = (await gantry.getLengths()).map((lengthMm) => lengthMm / 2);
      await gantry.moveToPosition(goal, []);
      assertEquals(await gantry.getPosition(), goal);
    },
    "a position beyond the ends is refused and moves nothing": async (gantry) => {
      const before = await gantry.getPosition();
      for (const beyond of [-1, 1]) {
        const goal = (await gantry.getLengths()).map((lengthMm) => beyond < 0 ? beyond : lengthMm + beyond);
        const error = await assertRejects(() => gantry.moveToPosition(goal, []), SvcError);
        assertEquals([error.code, await gantry.getPosition()], ["invalid_argument", before]);
      }
    },
    "moveToPosition refuses a surplus position": async (gantry) => {
      const positions = [...await gantry.getPosition(), 0];
      const error = await assertRejects(() => gantry.moveToPosition(positions, []), SvcError);
      assertEquals(error.code, "invalid_argument");
    },
    "home returns a boolean": async (gantry) => {
      assertEquals(typeof await gantry.home(), "boolean");
    },
    "isMoving returns false after stop": async (gantry) => {
      await gantry.stop();
      assertEquals(await gantry.isMoving(), false);
    },
  },
};
