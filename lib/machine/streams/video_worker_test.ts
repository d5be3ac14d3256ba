import { assertEquals } from "@std/assert";
import { yuvOf } from "./video_worker.ts";

Deno.test("yuvOf: every pixel has its brightness, and every square of four its colour", () => {
  const [red, blue] = [[255, 0, 0, 255], [0, 0, 255, 255]];
  const row = [...Array(4).fill(red), ...Array(4).fill(blue)].flat();
  const image = { width: 8, height: 4, rgba: Uint8Array.from(Array(4).fill(row).flat()) };
  const planes = (from: readonly number[], rows: number) => Array(rows).fill(from).flat();
  const brightness = planes([82, 82, 82, 82, 41, 41, 41, 41], 4);
  const [blueness, redness] = [planes([90, 90, 240, 240], 2), planes([240, 240, 110, 110], 2)];
  assertEquals([...yuvOf(image, 8, 4)], [...brightness, ...blueness, ...redness]);
  // At half the size.
  assertEquals([...yuvOf(image, 4, 2)], [...planes([82, 82, 41, 41], 2), 90, 240, 240, 110]);
});
