import { assertEquals } from "@std/assert";
import { attempt, samples } from "./slam.ts";

Deno.test("damaged maps, logs and scans are taken or refused, never more", async () => {
  const all = await samples();
  for (let seed = 1; seed <= 400; seed++) assertEquals(await attempt(seed, all), undefined, `seed ${seed}`);
});
