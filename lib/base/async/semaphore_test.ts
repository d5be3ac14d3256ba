import { assertEquals } from "@std/assert";
import { settle } from "../clock.ts";
import { Semaphore } from "./semaphore.ts";

Deno.test("Semaphore: admits up to its count, the others in the order of their arrival", async () => {
  const semaphore = new Semaphore(2);
  const admitted: string[] = [];
  const enter = (name: string) => semaphore.acquire().then(() => void admitted.push(name));
  for (const name of ["a", "b", "c", "d"]) void enter(name);
  await settle();
  assertEquals(admitted, ["a", "b"]);

  semaphore.release();
  // A newcomer does not overtake the one that waits.
  void enter("e");
  await settle();
  assertEquals(admitted, ["a", "b", "c"]);

  for (let i = 0; i < 5; i++) semaphore.release();
  await settle();
  assertEquals(admitted, ["a", "b", "c", "d", "e"]);
});
