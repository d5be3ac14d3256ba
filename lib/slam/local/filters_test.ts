import { assert, assertEquals } from "@std/assert";
import { VoxelFilter } from "./filters.ts";

/** Points of a straight wall, a millimetre apart. */
function wall(points: number): Float64Array {
  return Float64Array.from({ length: 2 * points }, (_, at) => at % 2 === 0 ? at / 2000 : 1);
}

Deno.test("VoxelFilter: keeps the first point of each square", () => {
  const kept = new VoxelFilter().filter(Float64Array.of(0.01, 0, 0.02, 0.01, 1, 0, 0, 1, 0.99, 0.01), 0.1);
  assertEquals([...kept], [0.01, 0, 1, 0, 0, 1]);
});

Deno.test("VoxelFilter: thins a cloud as far as it may, and not more", () => {
  const filter = new VoxelFilter();
  for (const wanted of [60, 100, 300]) {
    const { length } = filter.adaptive(wall(20_000), 1, wanted);
    // The edge of the squares is found to a tenth.
    assert(length / 2 >= wanted && length / 2 <= 1.15 * wanted, `${length / 2} points, wanted ${wanted}`);
  }
  assertEquals(filter.adaptive(wall(20_000), 1, 10).length / 2, 21, "squares are no larger than allowed");
  assertEquals(filter.adaptive(wall(50), 1, 60).length / 2, 50, "nothing is left out of too few");
});
