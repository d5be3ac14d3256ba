import { assertEquals } from "@std/assert";
import { counted } from "./counted.ts";

Deno.test("counted: one thing is not many", () => {
  const shown = [0, 1, 2, 1n].map((count) => counted(count, "part"));
  assertEquals(shown, ["0 parts", "1 part", "2 parts", "1 part"]);
  assertEquals([1, 3].map((count) => counted(count, "image is", "images are")), [
    "1 image is",
    "3 images are",
  ]);
});
