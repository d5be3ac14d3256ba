import { assertEquals, assertLess } from "@std/assert";
import { firstIndex } from "./first_index.ts";

Deno.test("firstIndex: the first index from which on a condition holds, in few questions", () => {
  for (let count = 0; count < 40; count++) {
    for (let first = 0; first <= count; first++) {
      let asked = 0;
      const found = firstIndex(count, (index) => {
        asked++;
        return index >= first;
      });
      assertEquals(found, first);
      assertLess(asked, 7);
    }
  }
});
