import { assertEquals } from "@std/assert";
import { attempt, sample } from "./slam.ts";

Deno.test("damaged map files are taken or refused, never more", async () => {
  const file = await sample();
  for (let seed = 1; seed <= 1000; seed++) assertEquals(await attempt(seed, file), undefined, `seed ${seed}`);
});
