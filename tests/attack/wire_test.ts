/**
 * Every attack on the port in brief, each against a fresh server. What it asserts does not depend on how busy the
 * computer is: others are answered within a generous deadline, memory stays within its bound, the attacker is cut
 * off or answered where that is to be, and the server lives. `deno task attack wire` looks at how long calls take.
 */

import { assertEquals } from "@std/assert";
import { ATTACKS } from "./wire/all.ts";
import { play, SHORT } from "./wire/play.ts";

/** Attacks that the server does not hold against yet, and what happens; the task plays them all the same. */
const SUCCEED: Readonly<Record<string, string>> = {
  "unread-clouds": "memory grows by 250 to 400 MB",
  "stalled-clouds": "memory grows by up to 400 MB",
  "unread-images": "2,000 calls at once use up the requests of the camera for a moment",
  "stalled-images": "as unread-images",
  "slow-body": "on a busy computer a newcomer is turned away now and then",
  "held-h2-call": "as slow-body",
};

const SEED = 1 + Math.floor(Math.random() * 1e9);

for (const attack of ATTACKS) {
  Deno.test({
    name: `attack ${attack.name}: ${attack.what}${SUCCEED[attack.name] ? ` (${SUCCEED[attack.name]})` : ""}`,
    ignore: Deno.build.os !== "linux" || attack.name in SUCCEED,
    fn: async () => {
      const { problems } = await play(attack, SHORT, SEED);
      assertEquals(problems, [], `seed ${SEED}`);
    },
  });
}
