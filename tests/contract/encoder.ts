import { assertEquals, assertRejects } from "@std/assert";
import { type Encoder, EncoderApi } from "../../lib/api/sensors/encoder.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

/** An encoder of the test's machine stands still. */
export const contract: Contract<Encoder> = {
  api: EncoderApi,
  cases: {
    "getPosition returns 0 and its unit after resetPosition": async (encoder) => {
      await encoder.resetPosition();
      const { ticksCountSupported } = await encoder.getProperties();
      assertEquals(await encoder.getPosition(), {
        value: 0,
        type: ticksCountSupported ? "ticks" : "degrees",
      });
    },
    "getPosition supports exactly the units of getProperties": async (encoder) => {
      const { ticksCountSupported, angleDegreesSupported } = await encoder.getProperties();
      assertEquals(ticksCountSupported || angleDegreesSupported, true);
      for (
        const [type, has] of [["ticks", ticksCountSupported], ["degrees", angleDegreesSupported]] as const
      ) {
        if (has) assertEquals((await encoder.getPosition(type)).type, type);
        else await assertRejects(() => encoder.getPosition(type), SvcError, "does not support");
      }
    },
  },
};
