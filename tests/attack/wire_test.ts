/**
 * Every attack on the port in brief. The assertions do not depend on the computer's load: others get answers within a
 * generous deadline, memory stays within its bound, the attacker is disconnected or answered as required, and the server
 * survives and keeps nothing of it. `deno task attack wire` measures the calls' latency.
 */

import { assertEquals } from "@std/assert";
import { ATTACKS } from "./wire/all.ts";
import { SharedGround, SHORT } from "./wire/play.ts";

/** `deno task attack wire` draws another one each time. */
const SEED = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);

const GROUNDS = Map.groupBy(
  ATTACKS,
  ({ victim, others = "board" }) => `${victim} server, calls of the ${others}`,
);

for (const [name, attacks] of GROUNDS) {
  Deno.test({
    name: `attacks on the wire: ${name}`,
    ignore: Deno.build.os !== "linux",
    fn: async (t) => {
      const ground = new SharedGround(SHORT, SEED);
      try {
        for (const attack of attacks) {
          await t.step(`attack ${attack.name}: ${attack.what}`, async () => {
            assertEquals(await ground.problemsOf(attack), [], `seed ${SEED}`);
          });
        }
      } finally {
        await ground.close();
      }
    },
  });
}
