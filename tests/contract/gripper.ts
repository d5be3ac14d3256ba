import { assertEquals, assertRejects } from "@std/assert";
import { type Gripper, GripperApi } from "../../lib/api/gripper.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { modelOf } from "./kinematics.ts";

export const contract: Contract<Gripper> = {
  api: GripperApi,
  cases: {
    "opens and grabs, and holds what it caught": async (gripper) => {
      await gripper.open();
      assertEquals((await gripper.isHoldingSomething()).isHoldingSomething, false);
      const caught = await gripper.grab();
      assertEquals((await gripper.isHoldingSomething()).isHoldingSomething, caught);
    },
    "has as many inputs as its kinematics have joints": async (gripper) => {
      assertEquals((await gripper.getCurrentInputs()).length, (await modelOf(gripper)).joints.length);
    },
    "goes to inputs": async (gripper) => {
      const inputs = (await modelOf(gripper)).joints.map(({ min, max }) => (min + max) / 2);
      await gripper.goToInputs(inputs);
      assertEquals(await gripper.getCurrentInputs(), inputs);
    },
    "wants an input for each joint": async (gripper) => {
      const inputs = await gripper.getCurrentInputs();
      const error = await assertRejects(() => gripper.goToInputs([...inputs, 0]), SvcError);
      assertEquals(error.code, "invalid_argument");
    },
    "does not move when stopped": async (gripper) => {
      await gripper.stop();
      assertEquals(await gripper.isMoving(), false);
    },
  },
};
