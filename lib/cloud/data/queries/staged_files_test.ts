import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../../base/error.ts";
import { SystemFiles } from "../../../base/files/system_files.ts";
import type { FileStore } from "../../store/files.ts";
import { FolderFiles } from "../../store/folder_files.ts";
import { StagedFiles } from "./staged_files.ts";

const disk = new SystemFiles();

async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

async function withFiles(run: (files: FolderFiles, folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-staged-" });
  try {
    await run(await FolderFiles.open(disk, `${folder}/files`, { olderThanMs: 0 }), folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A store on another disk. */
function distant(files: FolderFiles): FileStore {
  return new Proxy<FileStore>(files, {
    get: (all, name) => {
      if (name === "link") return () => Promise.resolve(false);
      const found = Reflect.get(all, name);
      return typeof found === "function" ? found.bind(all) : found;
    },
  });
}

Deno.test("StagedFiles: shows contents with the right sums, as second names or as copies", () =>
  withFiles(async (files, folder) => {
    const { sha256, bytes: fileBytes } = await files.put(one("abc"));
    const path = `${folder}/files/${sha256.slice(0, 2)}/${sha256}`;
    for (const store of [files, distant(files)]) {
      const staged = await StagedFiles.open(store, disk, folder);
      await Promise.all([staged.place({ sha256, fileBytes }), staged.place({ sha256, fileBytes })]);
      const found = `${staged.folder}/${sha256}`;
      assertEquals(await Deno.readTextFile(found), "abc");
      const [{ ino }, { ino: own }] = [await Deno.stat(found), await Deno.stat(path)];
      assertEquals(ino === own, store === files);
      // What another program removes meanwhile stays for this process.
      await files.remove(sha256);
      await staged.place({ sha256, fileBytes });
      assertEquals(await Deno.readTextFile(found), "abc");
      await staged.close();
      await assertRejects(() => Deno.stat(staged.folder), Deno.errors.NotFound);
      assertEquals(
        (await assertRejects(() => staged.place({ sha256, fileBytes }), SvcError)).code,
        "canceled",
      );
      await files.put(one("abc"));
    }
  }));

Deno.test("StagedFiles: shows no content that is missing or damaged, also one that was whole before", () =>
  withFiles(async (files, folder) => {
    const { sha256, bytes: fileBytes } = await files.put(one("abc"));
    const path = `${folder}/files/${sha256.slice(0, 2)}/${sha256}`;
    const before = await StagedFiles.open(files, disk, folder);
    await before.place({ sha256, fileBytes });
    await before.close();
    await Deno.writeTextFile(path, "abcd");
    for (const store of [files, distant(files)]) {
      const staged = await StagedFiles.open(store, disk, folder);
      const place = (name: string) =>
        assertRejects(() => staged.place({ sha256: name, fileBytes }), SvcError);
      assertEquals((await place(sha256)).code, "data_loss");
      assertEquals((await place("0".repeat(64))).code, "not_found");
      assertEquals(await Array.fromAsync(Deno.readDir(staged.folder)), []);
      await staged.close();
    }
  }));

Deno.test({
  name: "StagedFiles: copies a content that only its owner may read",
  // Windows has no such permissions.
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFiles(async (files, folder) => {
      const { sha256, bytes: fileBytes } = await files.put(one("abc"));
      await Deno.chmod(`${folder}/files/${sha256.slice(0, 2)}/${sha256}`, 0o600);
      const staged = await StagedFiles.open(files, disk);
      await staged.place({ sha256, fileBytes });
      assertEquals((await Deno.stat(`${staged.folder}/${sha256}`)).mode! & 0o777, 0o644);
      await staged.close();
    }),
});
