import { assertEquals } from "@std/assert";
import { attempt, samples } from "./pictures.ts";

Deno.test("damaged pictures and point clouds are decoded or refused with an SvcError", () => {
  const all = samples();
  for (let seed = 1; seed <= 4000; seed++) assertEquals(attempt(seed, all), undefined, `seed ${seed}`);
});
