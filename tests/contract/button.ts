import { type Button, ButtonApi } from "../../lib/api/actuators/button.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Button> = {
  api: ButtonApi,
  cases: {
    "push succeeds repeatedly": async (button) => {
      for (let push = 0; push < 3; push++) await button.push();
    },
  },
};
