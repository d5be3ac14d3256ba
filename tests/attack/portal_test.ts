/** The attack on the portal in brief; `deno task attack portal` takes longer and prints how much it took. */

import { assertEquals } from "@std/assert";
import { playPortal } from "./portal.ts";

const SECONDS = 3;

Deno.test({
  name:
    "attack portal: floods, bodies that never end and bodies that are too long; a person still sees the page",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const { problems } = await playPortal(SECONDS);
    assertEquals(problems, []);
  },
});
