import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  type ArchiveFile,
  type ArchiveLink,
  linkToPack,
  packed,
  unpacked,
  unpackInto,
  unpackWithLinks,
} from "./archive.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
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

Deno.test({
  name:
    "unpackWithLinks: makes the links of GNU tar, chains and second names among them, and no other reader does",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const from = `${folder}/from`, deep = `${from}/${"long/".repeat(30)}`;
    try {
      await Deno.mkdir(`${from}/lib`, { recursive: true });
      await Deno.mkdir(deep, { recursive: true });
      await Deno.writeTextFile(`${from}/lib/libx.so.1.2`, "library");
      await Deno.symlink("libx.so.1.2", `${from}/lib/libx.so.1`);
      await Deno.symlink("libx.so.1", `${from}/lib/libx.so`);
      await Deno.symlink("lib", `${from}/lib64`);
      await Deno.symlink("./lib64/../lib64/libx.so", `${from}/run`);
      await Deno.symlink(".", `${from}/self`);
      await Deno.symlink("later", `${from}/nothing`);
      await Deno.symlink(`../`.repeat(30) + "lib/libx.so", `${deep}/link`);
      await Deno.link(`${from}/lib/libx.so.1.2`, `${from}/second`);
      await Deno.symlink("long/".repeat(30) + "link", `${from}/far`);
      for (const format of ["gnu", "pax"]) {
        const archive = `${folder}/${format}.tgz`, out = `${folder}/${format}`;
        await run("tar", `--format=${format}`, "-czf", archive, "-C", from, ".");
        const bytes = await Deno.readFile(archive);
        await unpackWithLinks(new SystemFiles(), out, inPieces(bytes), LIMITS);
        const read = (path: string) => Deno.readTextFile(`${out}/${path}`);
        const paths = ["lib/libx.so", "lib64/libx.so", "run", "self/self/run", "far", "second"];
        assertEquals(await Promise.all(paths.map(read)), paths.map(() => "library"), format);
        assertEquals(await Deno.readLink(`${out}/lib64`), "lib");
        assertEquals(await Deno.readLink(`${out}/self`), ".");
        assertEquals((await Deno.stat(`${out}/second`)).nlink, 2);
        assertEquals((await assertRejects(() => list(inPieces(bytes)), SvcError)).code, "invalid_argument");
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name:
    "linkToPack: a file takes the place of a link to it, a link to a folder stays one, others are refused",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir(), from = `${folder}/from`, disk = new SystemFiles();
    try {
      await Deno.mkdir(`${from}/lib/${"deep/".repeat(25)}`, { recursive: true });
      await Deno.writeTextFile(`${from}/lib/run`, "program", { mode: 0o755 });
      await Deno.writeTextFile(`${folder}/beside`, "secret");
      await Deno.symlink("lib/run", `${from}/run`);
      await Deno.symlink(`${from}/lib`, `${from}/lib64`);
      await Deno.symlink("../../..", `${from}/lib/deep/deep/root`);
      await Deno.symlink("lib/" + "deep/".repeat(25), `${from}/deep`);
      const paths = ["run", "lib64", "lib/deep/deep/root", "deep"];
      const links = await Promise.all(paths.map((path) => linkToPack(disk, from, path)));
      assertEquals(links.map(({ link }) => link), [
        undefined,
        "lib",
        "../../..",
        "lib/deep" + "/deep".repeat(24),
      ]);

      const content = [
        file("lib/run", "program", true),
        file(`lib/${"deep/".repeat(25)}end`, "end"),
        ...links,
      ];
      const bytes = await bytesOf(packed(content));
      await unpackWithLinks(disk, `${folder}/out`, inPieces(bytes), LIMITS);
      await Deno.mkdir(`${folder}/tar`);
      await Deno.writeFile(`${folder}/archive.tgz`, bytes);
      await run("tar", "-xzf", `${folder}/archive.tgz`, "-C", `${folder}/tar`);
      for (const out of [`${folder}/out`, `${folder}/tar`]) {
        const found = await Promise.all(
          [`${out}/run`, `${out}/lib64/run`, `${out}/lib/deep/deep/root/run`].map(
            (path) => Deno.readTextFile(path),
          ),
        );
        assertEquals([...found, await Deno.readTextFile(`${out}/deep/end`)], [
          "program",
          "program",
          "program",
          "end",
        ]);
        assertEquals((await Deno.lstat(`${out}/run`)).mode! & 0o111, 0o111);
        assertEquals((await Deno.lstat(`${out}/run`)).isSymlink, false);
      }

      for (const target of ["../beside", `${folder}/beside`, "..", "nothing", `${from}2`]) {
        await Deno.symlink(target, `${from}/bad`);
        const error = await assertRejects(
          () => linkToPack(disk, from, "bad"),
          SvcError,
          "the link bad leads to no",
        );
        assertEquals(error.code, "failed_precondition");
        await Deno.remove(`${from}/bad`);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("unpackWithLinks: a link leads out of the archive neither at once nor by way of others", async () => {
  const LEADS_OUT = "which is not in the archive";
  const hostile: [why: string, ...links: [path: string, target: string, type?: string][]][] = [
    [LEADS_OUT, ["a", "/etc/passwd"]],
    [LEADS_OUT, ["a", "../x"]],
    [LEADS_OUT, ["d/a", "../../x"]],
    [LEADS_OUT, ["a", ""]],
    [LEADS_OUT, ["a", "C:x"]],
    [LEADS_OUT, ["a", "..\\x"]],
    [LEADS_OUT, ["p/q/up", "../.."], ["b", "p/q/up/../x"]],
    [LEADS_OUT, ["p/q/up", "../.."], ["p/r", "q/up/../../x"]],
    [LEADS_OUT, ["second", "../x", "1"]],
    ["which is no file in the archive", ["second", "x", "1"]],
    ["which is no file in the archive", ["up", "."], ["second", "up", "1"]],
    ["which leads in a circle", ["a", "b"], ["b", "a"]],
    ["which leads in a circle", ["a", "a/b"]],
    ["which leads in a circle", ["second", "second", "1"]],
    ["both as a file and a folder", ["a", "p"], ["a/b", "x"]],
    ["twice", ["a", "p"], ["a", "q"]],
  ];
  for (const [why, ...links] of hostile) {
    const files = new FakeFiles();
    await files.makeFolder("/in");
    const parts = links.map(([path, target, type = "2"]) => linkHeader(path, target, type));
    const archive = gzipped(new Uint8Array(await new Blob([...parts, new Uint8Array(1024)]).arrayBuffer()));
    const error = await assertRejects(() => unpackWithLinks(files, "/in", archive, LIMITS), SvcError);
    assertEquals(error.code, "invalid_argument");
    assertStringIncludes(error.message, why);
    assertEquals(await files.readFolder("/in"), [], why);
  }
});

Deno.test("unpackWithLinks: files and links survive a power cut", async () => {
  const files = new FakeFiles();
  const [one] = await bare("d/a", "0");
  const tar = [
    one,
    linkHeader("e/link", "../d/a", "2"),
    linkHeader("second", "d/a", "1"),
    new Uint8Array(1024),
  ];
  const archive = gzipped(new Uint8Array(await new Blob(tar as BlobPart[]).arrayBuffer()));
  await unpackWithLinks(files, "/new", archive, LIMITS);
  files.cut();
  assertEquals(await files.readLink("/new/e/link"), "../d/a");
  assertEquals((await files.stat("/new/second"))?.kind, "file");
  assertEquals((await files.stat("/new/d/a"))?.kind, "file");
});

Deno.test("unpacked: gives the links to a caller who asks, and counts them as files", async () => {
  const archive = async () => {
    const parts = [linkHeader("a", "b", "2"), linkHeader("c", "b", "1"), new Uint8Array(1024)];
    return gzipped(new Uint8Array(await new Blob(parts).arrayBuffer()));
  };
  const links: ArchiveLink[] = [];
  for await (const { path } of unpacked(await archive(), LIMITS, links)) throw new Error(path);
  assertEquals(links, [{ path: "a", target: "b", isName: false }, { path: "c", target: "b", isName: true }]);
  const few = async () => await Array.fromAsync(unpacked(await archive(), { ...LIMITS, filesMax: 1 }, []));
  assertEquals((await assertRejects(few, SvcError)).code, "resource_exhausted");
});

/** The header of a link. */
function linkHeader(path: string, target: string, type: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(512);
  const put = (at: number, text: string) => block.set(encode(text), at);
  put(0, path);
  put(100, "0000777\0");
  put(124, "00000000000\0");
  put(148, " ".repeat(8));
  put(156, type);
  put(157, target);
  put(257, "ustar\x0000");
  put(148, `${block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `);
  return block;
}

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
