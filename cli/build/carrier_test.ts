/**
 * Runtimes that carry files: taken out of their archive, written, and found again.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { deflateRawSync } from "node:zlib";
import { carries, onlyFileOf, writeCarrier } from "./carrier.ts";

const RUNTIME = new TextEncoder().encode("a runtime ".repeat(50));

/** A ZIP archive with one file, as APPNOTE 6.3 has it; checksums and times are zero. */
function zip(content: Uint8Array, method: number, { files = 1, comment = "" } = {}): Uint8Array<ArrayBuffer> {
  const name = new TextEncoder().encode("denort");
  const header = new Uint8Array(30), entry = new Uint8Array(46), end = new Uint8Array(22);
  const set = (record: Uint8Array, at: number, value: number, bytes: number) => {
    for (let index = 0; index < bytes; index++) record[at + index] = Math.floor(value / 256 ** index) & 0xff;
  };
  set(header, 0, 0x04034b50, 4);
  set(header, 26, name.length, 2);
  set(header, 28, 3, 2);
  set(entry, 0, 0x02014b50, 4);
  set(entry, 10, method, 2);
  set(entry, 20, content.length, 4);
  set(entry, 28, name.length, 2);
  set(end, 0, 0x06054b50, 4);
  set(end, 10, files, 2);
  set(end, 16, 33 + name.length + content.length, 4);
  set(end, 20, comment.length, 2);
  const parts = [
    header,
    name,
    new Uint8Array(3),
    content,
    entry,
    name,
    end,
    new TextEncoder().encode(comment),
  ];
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

Deno.test("onlyFileOf() reads a stored or deflated file from a ZIP archive", () => {
  assertEquals(new Uint8Array(onlyFileOf(zip(RUNTIME, 0))), RUNTIME);
  assertEquals(new Uint8Array(onlyFileOf(zip(deflateRawSync(RUNTIME), 8, { comment: "of today" }))), RUNTIME);
});

Deno.test("onlyFileOf() refuses a damaged archive or an archive of several files", () => {
  const wrong = [
    new Uint8Array(),
    RUNTIME,
    zip(RUNTIME, 0).subarray(0, -1),
    zip(RUNTIME, 0, { files: 2 }),
    zip(RUNTIME, 12),
  ];
  for (const one of wrong) {
    assertThrows(() => onlyFileOf(new Uint8Array(one)), Error, "no ZIP archive with one file");
  }
});

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
