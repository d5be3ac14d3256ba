import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Switch, SwitchApi } from "../../lib/api/actuators/switch.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Switch> = {
  api: SwitchApi,
  cases: {
    "getNumberOfPositions returns a count with no labels or a label for each": async (one) => {
      const { count, labels } = await one.getNumberOfPositions();
      assert(count > 0);
      assert(labels.length === 0 || labels.length === count, `${labels.length} labels`);
    },
    "setPosition accepts every position": async (one) => {
      const { count } = await one.getNumberOfPositions();
      for (let position = count - 1; position >= 0; position--) {
        await one.setPosition(position);
        assertEquals(await one.getPosition(), position);
      }
    },
    "a position out of range is refused and changes nothing": async (one) => {
      const { count } = await one.getNumberOfPositions();
      const before = await one.getPosition();
      const error = await assertRejects(() => one.setPosition(count), SvcError, `position ${count}`);
      assertEquals([error.code, await one.getPosition()], ["invalid_argument", before]);
    },
  },
};
