import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { SvcError } from "../../base/error.ts";
import { FolderFiles } from "./folder_files.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-files-" });
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield new TextEncoder().encode(text);
}

async function textOf(content: AsyncIterable<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of content) text += new TextDecoder().decode(chunk);
  return text;
}

const ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

Deno.test("FolderFiles: reads a file by its hash, whole or from an offset", () =>
  withFolder(async (folder) => {
    const files = await FolderFiles.open(new SystemFiles(), folder, { olderThanMs: 0 });
    assertEquals(await files.put(chunks("a", "bc")), { sha256: ABC, bytes: 3 });
    assertEquals(await files.put(chunks("abc")), { sha256: ABC, bytes: 3 });
    assertEquals(await textOf(files.read(ABC)), "abc");
    assertEquals(await textOf(files.read(ABC, 1)), "bc");
    assertEquals(await files.size(ABC), 3);
    await files.remove(ABC);
    assertEquals((await assertRejects(() => files.size(ABC), SvcError)).code, "not_found");
  }));

Deno.test("FolderFiles.put: an oversized or broken stream leaves no file", () =>
  withFolder(async (folder) => {
    const files = await FolderFiles.open(new SystemFiles(), folder, { olderThanMs: 0 });
    const error = await assertRejects(() => files.put(chunks("abc", "def"), 5), SvcError);
    assertEquals(error.code, "resource_exhausted");
    await assertRejects(() =>
      files.put(async function* () {
        yield* chunks("abc");
        throw new Error("gone");
      }())
    );
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("FolderFiles.put: no upload leaves a file open, whether it succeeds or fails", async () => {
  const disk = new FakeFiles();
  const files = await FolderFiles.open(disk, "/data/files", { olderThanMs: 0 });
  await files.put(chunks("a", "bc"));
  await assertRejects(() => files.put(chunks("abc", "def"), 5), SvcError, "too large");
  await assertRejects(() =>
    files.put(async function* () {
      yield* chunks("abc");
      throw new SvcError("canceled", "gone");
    }())
  );
  assertEquals(disk.writing, 0);
});

Deno.test("FolderFiles.put: the error for a full disk shows no path of the control plane", async () => {
  const disk = new FakeFiles();
  const files = await FolderFiles.open(disk, "/data/files", { olderThanMs: 0 });
  disk.full = true;
  const { code, message, cause } = await assertRejects(() => files.put(chunks("abc")), SvcError);
  assertEquals([code, message], ["resource_exhausted", "the disk of the control plane is full"]);
  // The operator's log has the chain.
  assertStringIncludes(String(cause), "/data/files");
});

Deno.test("FolderFiles.open: removes old temporary files and keeps recent ones", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/old.tmp`, "half");
    await Deno.utime(`${folder}/old.tmp`, 1000, 1000);
    await Deno.writeTextFile(`${folder}/new.tmp`, "half");
    await FolderFiles.open(new SystemFiles(), folder, { olderThanMs: 2_000_000 });
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["new.tmp"]);
  }));

Deno.test("FolderFiles.put: a content that has lost a part on the disk is whole again after an upload", () =>
  withFolder(async (folder) => {
    const files = await FolderFiles.open(new SystemFiles(), folder, { olderThanMs: 0 });
    const path = `${folder}/ba/${ABC}`;
    await files.put(chunks("abc"));
    for (const left of ["", "ab", "abcd"]) {
      await Deno.writeTextFile(path, left);
      const upload = await files.receive(chunks("a", "bc"));
      assertEquals(await textOf(files.read(ABC)), "abc", "also before it is kept");
      await upload.keep();
      assertEquals(await textOf(files.read(ABC)), "abc");
      assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["ba"]);
    }
  }));
