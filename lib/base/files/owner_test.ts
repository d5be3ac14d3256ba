/** What root writes into another user's folders belongs to that user. */

import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { giveFile } from "./owner.ts";
import { SystemFiles } from "./system_files.ts";

const OTHER = 65_534;
const options = { ignore: Deno.build.os !== "linux" || Deno.uid() !== 0 };

/** Works in a folder of another user. */
async function inFolderOfOther(run: (folder: string, files: SystemFiles) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.chown(folder, OTHER, OTHER);
    await run(folder, new SystemFiles());
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function ownersOf(folder: string, ...paths: string[]): Promise<(number | null)[][]> {
  return await Promise.all(paths.map(async (path) => {
    const { uid, gid } = await Deno.stat(join(folder, path));
    return [uid, gid];
  }));
}

Deno.test(
  "what root makes in a folder of another user belongs to that user",
  options,
  () =>
    inFolderOfOther(async (folder, files) => {
      await files.makeFolder(join(folder, "keys/old"), { mode: 0o700 });
      await files.writeFile(join(folder, "keys/old/token.json"), "{}", { mode: 0o600 });
      await files.createFile(join(folder, "profile.json"), "{}");
      files.openAppend(join(folder, "logs/today/cloud.log")).close();
      (await files.lock(join(folder, "lock")))?.();
      (await files.open(join(folder, "part"), "append")).close();
      const made = [
        ...["keys", "keys/old", "keys/old/token.json", "profile.json"],
        ...["logs", "logs/today", "logs/today/cloud.log", "lock", "part"],
      ];
      assertEquals(await ownersOf(folder, ...made), made.map(() => [OTHER, OTHER]));
    }),
);

Deno.test(
  "a file of root in another user's folder stays root's when it is replaced",
  options,
  () =>
    inFolderOfOther(async (folder, files) => {
      for (const [path, owner] of [["secret", 0], ["profile", OTHER]] as const) {
        await Deno.writeTextFile(join(folder, path), "before");
        await Deno.chown(join(folder, path), owner, owner);
        await files.writeFile(join(folder, path), "after");
      }
      assertEquals(await ownersOf(folder, "secret", "profile"), [[0, 0], [OTHER, OTHER]]);
    }),
);

Deno.test(
  "a link in another user's folder gives that user no file of root",
  options,
  () =>
    inFolderOfOther(async (folder, files) => {
      const outside = await Deno.makeTempDir();
      try {
        await Deno.writeTextFile(join(outside, "shadow"), "");
        await Deno.symlink(join(outside, "shadow"), join(folder, "cloud.log"));
        await Deno.symlink(outside, join(folder, "logs"));
        for (const link of ["cloud.log", "logs"]) await files.setOwner(join(folder, link), OTHER, OTHER);
        files.openAppend(join(folder, "cloud.log")).close();
        (await files.open(join(folder, "cloud.log"), "new")).close();
        await files.makeFolder(join(folder, "logs"));
        files.openAppend(join(folder, "logs/new")).close();
        await files.makeFolder(join(folder, "logs/older"));
        // What stands when the owner is chosen need not stand when the file is opened.
        const path = join(outside, "raced");
        await files.writeFile(path, "");
        giveFile(path, await Deno.stat(path), { uid: OTHER, gid: OTHER });
        const left = ["shadow", "new", "older", "raced", "."];
        assertEquals(await ownersOf(outside, ...left), left.map(() => [0, 0]));
      } finally {
        await Deno.remove(outside, { recursive: true });
      }
    }),
);
