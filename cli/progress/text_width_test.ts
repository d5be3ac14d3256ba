/** Text on a terminal's columns. */

import { assertEquals } from "@std/assert";
import { cutText, padded, textWidth } from "./text_width.ts";

Deno.test("wide characters take two columns, accents none, and pictures of several parts two", () => {
  const texts = ["rover", "Zoë", "Zoe\u0308", "倉庫", "🤖", "👩‍🔧 x", "🇩🇪", "ﬁ"];
  assertEquals(texts.map(textWidth), [5, 3, 3, 4, 2, 4, 2, 1]);
  assertEquals(padded("倉庫", 6), "倉庫  ");
});

Deno.test("cut text fits, and no letter is cut in two", () => {
  assertEquals(cutText("forklift-1", 6), "forkl…");
  assertEquals(cutText("forklift-1", 6, "middle"), "for…-1");
  assertEquals(cutText("forklift-1", 10), "forklift-1");
  assertEquals(cutText("倉庫倉庫", 6), "倉庫…");
  assertEquals(cutText("🤖🤖🤖", 4), "🤖…");
  assertEquals(cutText("Zoe\u0308Zoe\u0308", 4), "Zoe\u0308…");
  for (let width = 1; width < 12; width++) {
    for (const at of ["end", "middle"] as const) {
      assertEquals(textWidth(cutText("ab🤖倉c👩‍🔧d", width, at)) <= width, true, `${width} ${at}`);
    }
  }
});
