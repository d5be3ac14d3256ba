import { assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { checkProgram } from "./releases.ts";

/** A program of 200 bytes: its header, and one segment with all of it. */
function program(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(200);
  const view = new DataView(bytes.buffer);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  view.setUint16(18, 62, true);
  view.setBigUint64(32, 64n, true);
  view.setUint16(54, 56, true);
  view.setUint16(56, 1, true);
  view.setBigUint64(64 + 32, 200n, true);
  return bytes;
}

const check = (content: Uint8Array, platform = "linux/amd64") =>
  checkProgram(content.subarray(0, 4096), platform, "FILE", content.length);

Deno.test("checkProgram: an empty file, and one that ends before its program, is no release", () => {
  check(program());
  const packed = program();
  new DataView(packed.buffer).setBigUint64(40, 9999n, true);
  check(packed);
  const refused: [Uint8Array, RegExp][] = [
    [new Uint8Array(), /^FILE: found an empty file, wanted a program for linux on amd64$/],
    [program().subarray(0, 199), /found 199 bytes, wanted at least 200 by its header: it is not complete/],
    [program().subarray(0, 40), /found 40 bytes, wanted at least 64/],
    [new TextEncoder().encode("<html>"), /found a web page/],
  ];
  for (const [content, why] of refused) {
    const error = assertThrows(() => check(content), SvcError);
    if (!why.test(error.message)) throw error;
  }
  assertThrows(
    () => check(program(), "linux/arm64"),
    SvcError,
    "found a program for another processor, wanted a program for linux on arm64",
  );
  assertThrows(() => check(new Uint8Array(), "windows/amd64"), SvcError, "an empty file");
});

Deno.test({
  name: "checkProgram: a real program is complete, and a part of it is not",
  // Only Linux has programs of this format.
  ignore: Deno.build.os !== "linux",
  fn: () => {
    const path = Deno.execPath();
    const { size } = Deno.statSync(path);
    using file = Deno.openSync(path);
    const head = new Uint8Array(4096);
    file.readSync(head);
    const platform = Deno.build.arch === "x86_64" ? "linux/amd64" : "linux/arm64";
    checkProgram(head, platform, path, size);
    assertThrows(() => checkProgram(head, platform, path, size - 1024 ** 2), SvcError, "it is not complete");
  },
});

Deno.test("checkProgram: whatever an agent refuses is refused when it is published", () => {
  const old = program();
  old[4] = 1;
  const archive = Uint8Array.from([0x1f, 0x8b, 8, 0]);
  const refused: [Uint8Array, string, RegExp][] = [
    [new TextEncoder().encode("#!/bin/sh\n"), "linux/amd64", /found a script, wanted a program for linux/],
    [old, "linux/amd64", /found a program for another processor/],
    [archive, "linux/arm64", /found a gzip file/],
    [new TextEncoder().encode("MZ but no more"), "windows/amd64", /found .*, wanted a program for windows/],
  ];
  for (const [content, platform, why] of refused) {
    const error = assertThrows(() => check(content, platform), SvcError);
    if (!why.test(error.message)) throw error;
  }
});
