import { assertEquals, assertRejects } from "@std/assert";
import { type ArchiveFile, packed, unpacked, unpackInto } from "./archive.ts";
import { SvcError } from "../error.ts";
import { SystemFiles } from "./system_files.ts";

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

Deno.test("packed and unpacked: round-trip files in any chunk size, with identical bytes every time", async () => {
  const archive = await bytesOf(packed(files));
  assertEquals(archive, await bytesOf(packed(files)));
  const wanted = files.map(({ path, bytes, executable }) => [path, bytes, executable ?? false]);
  for (const size of [7, 512, 100_000]) {
    const found = await list(inPieces(archive, size));
    assertEquals(found.map(([path, text, executable]) => [path, text.length, executable]), wanted);
  }
});

Deno.test("unpacked: skips files that are read partly or not at all", async () => {
  const paths: string[] = [];
  const archive = await bytesOf(packed(files));
  for await (const { path, content } of unpacked(inPieces(archive), LIMITS)) {
    paths.push(path);
    if (path !== "a") { for await (const _ of content) break; }
  }
  assertEquals(paths, files.map(({ path }) => path));
});

Deno.test({
  name: "archives: GNU tar reads our archives, and unpacked reads archives of tar",
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
      await unpackInto(new SystemFiles(), `${folder}/again`, packed(files), LIMITS);
      assertEquals(await Deno.readTextFile(`${folder}/again/z`), "end");
      assertEquals((await Deno.stat(`${folder}/again/m/run.sh`)).mode! & 0o111, 0o111);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("unpacked: refuses paths outside the archive, excess sizes and damaged archives", async () => {
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

Deno.test("unpacked: refuses archives that readers interpret differently", async () => {
  const refusal = async (archive: AsyncIterable<Uint8Array>, limits = LIMITS) => {
    const { code, message } = await assertRejects(() => list(archive, limits), SvcError);
    return `${code}: ${message}`;
  };
  const refused = "invalid_argument: the archive has ";
  assertEquals(await refusal(packed([file("a", "1"), file("a", "2")])), `${refused}the name "a" twice`);
  assertEquals(await refusal(packed([file("a", "1"), file("./a", "2")])), `${refused}the name "a" twice`);
  const both = `${refused}the name "a" both as a file and a folder`;
  assertEquals(await refusal(packed([file("a", "1"), file("a/b", "2")])), both);
  assertEquals(await refusal(packed([file("a/b", "1"), file("a", "2")])), `${refused}the name "a" twice`);
  assertEquals(await refusal(renamed("./")), `${refused}a file without a name`);
  assertEquals(await refusal(renamed("a\nb")), `${refused}the name "a\\nb", wanted one inside of it`);
  assertEquals(
    await refusal(packed([file("d/".repeat(70) + "x", "")])),
    `${refused}a name of 141 characters and 71 parts`,
  );
  // Of a comment's second line other readers take no name.
  assertEquals((await list(withExtra(record("comment=x\n10 path=y"))))[0][0], "a");
  assertEquals((await list(withExtra(record("path=b"))))[0][0], "b");
  assertEquals(
    await refusal(withExtra(record("GNU.sparse.major=1"))),
    `${refused}a file with holes, wanted files as they are`,
  );
  assertEquals(await refusal(withExtra("8 path=x\n")), `${refused}an extended header that cannot be read`);
  assertEquals(await refusal(withExtra(record("size=-1234"))), `${refused}a file of an unknown size`);
});

Deno.test("unpacked: limits headers, folders and bytes after the archive's end", async () => {
  const limits = { filesMax: 2, bytesMax: 1_000 };
  const refusal = async (tar: Uint8Array) =>
    (await assertRejects(() => list(gzipped(tar), limits), SvcError)).message;
  const [folder] = await bare("d/", "5");
  const many = new Uint8Array(512 * 20);
  for (let at = 0; at < many.length; at += 512) many.set(folder, at);
  assertEquals(await refusal(many), "the archive has more than 16 headers");
  assertEquals(await refusal(new Uint8Array(10_000_000)), "the archive has more than 99304 bytes");
});

/** The blocks of an archive with one empty file. */
async function bare(path: string, type: string): Promise<Uint8Array[]> {
  const gunzip = new Response(await bytesOf(renamed(path, type)) as Uint8Array<ArrayBuffer>).body!;
  const tar = await bytesOf(gunzip.pipeThrough(new DecompressionStream("gzip")));
  return [tar.subarray(0, 512), tar.subarray(512)];
}

/** Of an extended header: its own length comes first. */
function record(text: string): string {
  const length = [2, 3].map((digits) => digits + 2 + text.length).find((all, at) =>
    `${all}`.length === at + 2
  );
  return `${length} ${text}\n`;
}

/** An archive with one empty file `a` that has an extended header. */
async function* withExtra(text: string): AsyncGenerator<Uint8Array> {
  const parts: Uint8Array[] = [];
  const [header] = await bare("extra", "x");
  const bytes = encode(text);
  header.set(encode(bytes.length.toString(8).padStart(11, "0")), 124);
  header.set(encode(" ".repeat(8)), 148);
  const sum = header.reduce((sum, byte) => sum + byte, 0);
  header.set(encode(`${sum.toString(8).padStart(6, "0")}\0 `), 148);
  const content = new Uint8Array(512);
  content.set(bytes);
  parts.push(header, content, ...await bare("a", "0"));
  yield* gzipped(new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer()));
}

function gzipped(tar: Uint8Array): ReadableStream<Uint8Array> {
  return new Response(tar as Uint8Array<ArrayBuffer>).body!.pipeThrough(new CompressionStream("gzip"));
}

/** An archive with one empty file and a handmade header. */
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
