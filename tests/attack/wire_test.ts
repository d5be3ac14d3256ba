/**
 * Every attack on the port in brief, each against a fresh server. The assertions do not depend on the computer's load:
 * others get answers within a generous deadline, memory stays within its bound, the attacker is disconnected or
 * answered as required, and the server survives. `deno task attack wire` measures the calls' latency.
 */

import { assertEquals } from "@std/assert";
import { ATTACKS } from "./wire/all.ts";
import { play, SHORT } from "./wire/play.ts";

/** `deno task attack wire` draws another one each time. */
const SEED = Number(Deno.env.get("SVC_TEST_SEED") ?? 1);

for (const attack of ATTACKS) {
  Deno.test({
    name: `attack ${attack.name}: ${attack.what}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const { problems } = await play(attack, SHORT, SEED);
      assertEquals(problems, [], `seed ${SEED}`);
    },
  });
}
