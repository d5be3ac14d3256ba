import { assertEquals, assertThrows } from "@std/assert";
import { deflateRawSync } from "node:zlib";
import { onlyFileOf, zipOf } from "./zip.ts";

const CONTENT = new TextEncoder().encode("a runtime ".repeat(50));

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
  assertEquals(new Uint8Array(onlyFileOf(zip(CONTENT, 0))), CONTENT);
  assertEquals(new Uint8Array(onlyFileOf(zip(deflateRawSync(CONTENT), 8, { comment: "of today" }))), CONTENT);
});

Deno.test("onlyFileOf() refuses a damaged archive or an archive of several files", () => {
  const wrong = [
    new Uint8Array(),
    CONTENT,
    zip(CONTENT, 0).subarray(0, -1),
    zip(CONTENT, 0, { files: 2 }),
    zip(CONTENT, 12),
  ];
  for (const one of wrong) {
    assertThrows(() => onlyFileOf(new Uint8Array(one)), Error, "no ZIP archive with one file");
  }
});

Deno.test("zipOf() makes archives that onlyFileOf() and other programs read", async () => {
  assertEquals(new Uint8Array(onlyFileOf(zipOf([{ name: "denort", content: CONTENT }]))), CONTENT);

  const path = await Deno.makeTempFile({ suffix: ".zip" });
  try {
    const files = [
      { name: "svc/run.exe", content: CONTENT, mode: 0o755 },
      { name: "svc/größe.txt", content: new Uint8Array() },
    ];
    await Deno.writeFile(path, zipOf(files));
    // Python's reader checks both headers and the sum of each file.
    const code = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), " +
      "[(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time[:3]) for i in z.infolist()])";
    const { stdout } = await new Deno.Command("python3", { args: ["-c", code, path] }).output();
    assertEquals(
      new TextDecoder().decode(stdout).trim(),
      `None [('svc/run.exe', ${CONTENT.length}, '0o100755', (1980, 1, 1)), ` +
        "('svc/größe.txt', 0, '0o100644', (1980, 1, 1))]",
    );
  } finally {
    await Deno.remove(path);
  }
});
