import { assertEquals, assertThrows } from "@std/assert";
import { regionsOf } from "./regions.ts";

const regions = (rows: readonly string[]) =>
  regionsOf(Uint8Array.from(rows.join(""), (mark) => mark === "." ? 0 : 1), rows[0].length)
    .map(({ pixels, xMin, yMin, xMax, yMax }) => [pixels, xMin, yMin, xMax, yMax]);

Deno.test("regionsOf: joins pixels that share a side, not pixels that share a corner", () => {
  assertEquals(regions(["#.#", "##.", ".##"]), [[5, 0, 0, 3, 3], [1, 2, 0, 3, 1]]);
  assertEquals(regions(["..#", "###", "#.."]), [[5, 0, 0, 3, 3]]);
});

Deno.test("regionsOf: a row's last pixel does not touch the next row's first pixel", () => {
  assertEquals(regions(["..#", "#.."]), [[1, 2, 0, 3, 1], [1, 0, 1, 1, 2]]);
});

Deno.test("regionsOf: handles an empty mask, a full mask and a spiral", () => {
  assertEquals(regions(["..."]), []);
  assertEquals(regions(["###", "###"]), [[6, 0, 0, 3, 2]]);
  assertEquals(regions(["#####", "....#", "###.#", "#...#", "#####"]), [[17, 0, 0, 5, 5]]);
  assertThrows(() => regionsOf(new Uint8Array(5), 2), Error, "Bug: ");
});
