import { assertEquals } from "@std/assert";
import { attempt, samples } from "./pictures.ts";

Deno.test("damaged pictures and clouds are taken or refused, never more", () => {
  const all = samples();
  for (let seed = 1; seed <= 4000; seed++) assertEquals(attempt(seed, all), undefined, `seed ${seed}`);
});
