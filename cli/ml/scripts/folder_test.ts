import { assertEquals, assertRejects } from "@std/assert";
import { SystemFiles } from "../../../lib/base/files/system_files.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { scriptArchive } from "./folder.ts";

Deno.test({
  name: "scriptArchive: a link to a file counts as the file, and no link is left out silently",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir(), disk = new SystemFiles();
    try {
      await Deno.mkdir(`${folder}/model`);
      await Deno.writeTextFile(`${folder}/setup.py`, "setup");
      await Deno.writeTextFile(`${folder}/model/train_v2.py`, "train");
      await Deno.symlink("train_v2.py", `${folder}/model/training.py`);
      await Deno.symlink("/usr/bin/python3", `${folder}/venv`);
      const { files, size } = await scriptArchive(disk, folder);
      assertEquals(files.map(({ name }) => name), ["model/train_v2.py", "model/training.py", "setup.py"]);
      assertEquals(size, 15);

      for (
        const [target, why] of [["model", "is a link to a folder"], ["/etc/hostname", "leads to no file"]]
      ) {
        await Deno.symlink(target, `${folder}/other`);
        const error = await assertRejects(() => scriptArchive(disk, folder), SvcError, why);
        assertEquals(error.code, "failed_precondition");
        await Deno.remove(`${folder}/other`);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
