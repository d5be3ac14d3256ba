import { assertEquals, assertRejects } from "@std/assert";
import { type Gripper, GripperApi } from "../../lib/api/actuators/gripper.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { modelOf } from "./kinematics.ts";

export const contract: Contract<Gripper> = {
  api: GripperApi,
  cases: {
    "isHoldingSomething is false after open and matches the result of grab": async (gripper) => {
      await gripper.open();
      assertEquals((await gripper.isHoldingSomething()).isHoldingSomething, false);
      const caught = await gripper.grab();
      assertEquals((await gripper.isHoldingSomething()).isHoldingSomething, caught);
    },
    "getCurrentInputs returns an input for each joint of the kinematics": async (gripper) => {
      assertEquals((await gripper.getCurrentInputs()).length, (await modelOf(gripper)).joints.length);
    },
    "getCurrentInputs returns the target of goToInputs": async (gripper) => {
      const inputs = (await modelOf(gripper)).joints.map(({ min, max }) => (min + max) / 2);
      await gripper.goToInputs(inputs);
      assertEquals(await gripper.getCurrentInputs(), inputs);
    },
    "goToInputs refuses a surplus input": async (gripper) => {
      const inputs = await gripper.getCurrentInputs();
      const error = await assertRejects(() => gripper.goToInputs([...inputs, 0]), SvcError);
      assertEquals(error.code, "invalid_argument");
    },
    "isMoving returns false after stop": async (gripper) => {
      await gripper.stop();
      assertEquals(await gripper.isMoving(), false);
    },
  },
};
