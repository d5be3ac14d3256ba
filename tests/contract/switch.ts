import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Switch, SwitchApi } from "../../lib/api/switch.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Switch> = {
  api: SwitchApi,
  cases: {
    "has positions, and a label for each or none": async (one) => {
      const { count, labels } = await one.getNumberOfPositions();
      assert(count > 0);
      assert(labels.length === 0 || labels.length === count, `${labels.length} labels`);
    },
    "takes each of its positions": async (one) => {
      const { count } = await one.getNumberOfPositions();
      for (let position = count - 1; position >= 0; position--) {
        await one.setPosition(position);
        assertEquals(await one.getPosition(), position);
      }
    },
    "refuses a position that it does not have, and stays": async (one) => {
      const { count } = await one.getNumberOfPositions();
      const before = await one.getPosition();
      const error = await assertRejects(() => one.setPosition(count), SvcError, `position ${count}`);
      assertEquals([error.code, await one.getPosition()], ["invalid_argument", before]);
    },
  },
};
