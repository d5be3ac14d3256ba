/**
 * Runtimes that carry files: written, and found again.
 */

import { assertEquals } from "@std/assert";
import { carries, writeCarrier } from "./carrier.ts";

const RUNTIME = new TextEncoder().encode("a runtime ".repeat(50));

Deno.test("writeCarrier() appends files at known offsets, and carries() notices a moved or cut executable", async () => {
  const folder = await Deno.makeTempDir();
  const files = [`${folder}/one`, `${folder}/two`];
  for (const [at, file] of files.entries()) await Deno.writeFile(file, new Uint8Array(1000).fill(at + 1));
  const path = `${folder}/carrier`;
  const extents = await writeCarrier(path, RUNTIME, files);
  assertEquals(extents, [{ offset: 500, bytes: 1000 }, { offset: 1500, bytes: 1000 }]);
  const made = await Deno.readFile(path);
  assertEquals(made.subarray(0, 500), RUNTIME);
  await Deno.writeFile(path, Uint8Array.of(7), { append: true });
  assertEquals(await carries(path, files, extents), true);
  for (const other of [made.subarray(0, -1), Uint8Array.of(7, ...made)]) {
    await Deno.writeFile(path, other);
    assertEquals(await carries(path, files, extents), false);
  }
  await Deno.remove(folder, { recursive: true });
});
