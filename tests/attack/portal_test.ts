/** The attack on the portal in brief; `deno task attack portal` takes longer and prints how much it took. */

import { assertEquals } from "@std/assert";
import { playPortal } from "./portal.ts";

const SECONDS = 3;

Deno.test({
  name: "attack portal: the page stays reachable during floods and endless or too long bodies",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const { problems } = await playPortal(SECONDS);
    assertEquals(problems, []);
  },
});
