/**
 * Every attack on the port in brief, each against a fresh server. What it asserts does not depend on how busy the
 * computer is: others are answered within a generous deadline, memory stays within its bound, the attacker is cut
 * off or answered where that is to be, and the server lives. `deno task attack wire` looks at how long calls take.
 */

import { assertEquals } from "@std/assert";
import { ATTACKS } from "./wire/all.ts";
import { play, SHORT } from "./wire/play.ts";

const SEED = 1 + Math.floor(Math.random() * 1e9);

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
