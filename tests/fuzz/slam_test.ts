import { assertEquals } from "@std/assert";
import { attempt, samples } from "./slam.ts";

Deno.test("damaged maps, logs and scans are read or refused with an SvcError", async () => {
  const all = await samples();
  for (let seed = 1; seed <= 400; seed++) assertEquals(await attempt(seed, all), undefined, `seed ${seed}`);
});
