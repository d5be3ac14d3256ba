import { assertEquals, assertThrows } from "@std/assert";
import { regionsOf } from "./regions.ts";

const regions = (rows: readonly string[]) =>
  regionsOf(Uint8Array.from(rows.join(""), (mark) => mark === "." ? 0 : 1), rows[0].length)
    .map(({ pixels, xMin, yMin, xMax, yMax }) => [pixels, xMin, yMin, xMax, yMax]);

Deno.test("what touches by a side is one region, what touches by a corner is two", () => {
  assertEquals(regions(["#.#", "##.", ".##"]), [[5, 0, 0, 3, 3], [1, 2, 0, 3, 1]]);
  assertEquals(regions(["..#", "###", "#.."]), [[5, 0, 0, 3, 3]]);
});

Deno.test("a row's end does not touch the next one's start", () => {
  assertEquals(regions(["..#", "#.."]), [[1, 2, 0, 3, 1], [1, 0, 1, 1, 2]]);
});

Deno.test("nothing, everything, and a spiral", () => {
  assertEquals(regions(["..."]), []);
  assertEquals(regions(["###", "###"]), [[6, 0, 0, 3, 2]]);
  assertEquals(regions(["#####", "....#", "###.#", "#...#", "#####"]), [[17, 0, 0, 5, 5]]);
  assertThrows(() => regionsOf(new Uint8Array(5), 2), Error, "Bug: ");
});
