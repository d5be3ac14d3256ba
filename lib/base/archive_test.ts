import { assertEquals, assertRejects } from "@std/assert";
import { type ArchiveFile, packed, unpacked, unpackInto } from "./archive.ts";
import { SvcError } from "./error.ts";

const LIMITS = { filesMax: 100, bytesMax: 1_000_000 };
const encode = (text: string) => new TextEncoder().encode(text);

function file(path: string, text: string, executable = false): ArchiveFile {
  return { path, bytes: encode(text).length, executable, content: [encode(text)] };
}

async function bytesOf(content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of content) chunks.push(chunk);
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

async function* inPieces(bytes: Uint8Array, size = 1000) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function list(archive: AsyncIterable<Uint8Array>, limits = LIMITS) {
  const found: [string, string, boolean][] = [];
  for await (const { path, executable, content } of unpacked(archive, limits)) {
    found.push([path, new TextDecoder().decode(await bytesOf(content)), executable ?? false]);
  }
  return found;
}

const long = `${"folder/".repeat(30)}naïve.txt`;
const files = [file("a", "one"), file("m/run.sh", "x".repeat(1500), true), file(long, ""), file("z", "end")];

Deno.test("what is packed is unpacked, however it is cut, and is the same every time", async () => {
  const archive = await bytesOf(packed(files));
  assertEquals(archive, await bytesOf(packed(files)));
  const wanted = files.map(({ path, bytes, executable }) => [path, bytes, executable ?? false]);
  for (const size of [7, 512, 100_000]) {
    const found = await list(inPieces(archive, size));
    assertEquals(found.map(([path, text, executable]) => [path, text.length, executable]), wanted);
  }
});

Deno.test("files that nobody reads, or not to their end, are passed over", async () => {
  const paths: string[] = [];
  const archive = await bytesOf(packed(files));
  for await (const { path, content } of unpacked(inPieces(archive), LIMITS)) {
    paths.push(path);
    if (path !== "a") { for await (const _ of content) break; }
  }
  assertEquals(paths, files.map(({ path }) => path));
});

Deno.test({
  name: "the system's tar reads ours, and we read its archives: folders, long names, both of its formats",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.writeFile(`${folder}/ours.tar.gz`, await bytesOf(packed(files)));
      await Deno.mkdir(`${folder}/out`);
      await run("tar", "-xzf", `${folder}/ours.tar.gz`, "-C", `${folder}/out`);
      assertEquals((await Deno.stat(`${folder}/out/m/run.sh`)).mode! & 0o111, 0o111);
      for (const format of ["gnu", "pax", "ustar"]) {
        await run(
          "tar",
          `--format=${format}`,
          "-czf",
          `${folder}/${format}.tar.gz`,
          "-C",
          `${folder}/out`,
          ".",
        );
        const found = await list(inPieces(await Deno.readFile(`${folder}/${format}.tar.gz`)));
        assertEquals(found.map(([path]) => path).sort(), files.map(({ path }) => path).sort(), format);
      }
      await unpackInto(`${folder}/again`, packed(files), LIMITS);
      assertEquals(await Deno.readTextFile(`${folder}/again/z`), "end");
      assertEquals((await Deno.stat(`${folder}/again/m/run.sh`)).mode! & 0o111, 0o111);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("what leads out of the archive, is too much or is damaged is refused", async () => {
  const codeOf = async (archive: AsyncIterable<Uint8Array>, limits = LIMITS) =>
    (await assertRejects(() => list(archive, limits), SvcError)).code;
  const good = await bytesOf(packed(files));
  for (const path of ["../x", "a/../../x", "/etc/x", "C:x", "a\\..\\x"]) {
    assertEquals(
      (await assertRejects(() => bytesOf(packed([file(path, "")])), SvcError)).code,
      "invalid_argument",
    );
    assertEquals(await codeOf(renamed(path)), "invalid_argument", path);
  }
  assertEquals(await codeOf(renamed("link", "2")), "invalid_argument");
  assertEquals(await codeOf(packed(files), { ...LIMITS, filesMax: 3 }), "resource_exhausted");
  assertEquals(await codeOf(packed(files), { ...LIMITS, bytesMax: 1400 }), "resource_exhausted");
  assertEquals(await codeOf(inPieces(encode("no archive"))), "invalid_argument");
  assertEquals(await codeOf(inPieces(good.subarray(0, good.length - 20))), "invalid_argument");
  const wrong = { ...files[0], bytes: 2 };
  assertEquals((await assertRejects(() => bytesOf(packed([wrong])), SvcError)).code, "aborted");
});

/** An archive with one empty file, whose header somebody has made by hand. */
async function* renamed(path: string, type = "0"): AsyncGenerator<Uint8Array> {
  const gunzip = new Response(await bytesOf(packed([file("a", "")])) as Uint8Array<ArrayBuffer>).body!
    .pipeThrough(new DecompressionStream("gzip"));
  const tar = await bytesOf(gunzip);
  tar.set(encode(path));
  tar.set(encode(type), 156);
  tar.set(encode(" ".repeat(8)), 148);
  const sum = tar.subarray(0, 512).reduce((sum, byte) => sum + byte, 0);
  tar.set(encode(`${sum.toString(8).padStart(6, "0")}\0 `), 148);
  yield* new Response(tar as Uint8Array<ArrayBuffer>).body!.pipeThrough(new CompressionStream("gzip"));
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
