/**
 * A data folder that is not whole: a control plane begins in none that belongs to another one, and a restored database
 * has nothing of a former one.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { folderDangers, requireFolder } from "../../cli/cloud/data_folder.ts";
import { FileError } from "../../lib/base/files/files.ts";
import { FakeHost } from "../support/fake_host.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { linuxProgram } from "../support/linux_program.ts";
import { serveCloud, svcCloud } from "./program.ts";

const UNFINISHED = "restore.db.unfinished";

async function withFolder(run: (folder: string, data: string[]) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-data-" });
  try {
    await run(folder, ["--data", `${folder}/data`]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The organizations in a data folder. */
async function organizationsIn(folder: string): Promise<string[]> {
  const { organizations } = JSON.parse(await svcCloud("org", "list", "--json", "--data", folder));
  return organizations.map(({ name }: { name: string }) => name);
}

/** Leaves a database with a transaction in its write-ahead log, and copies the files of SQLite beside `path`. */
function leaveTransactions(database: string, path: string): void {
  const opened = new DatabaseSync(database);
  opened.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  opened.exec("UPDATE organizations SET name = 'former'");
  for (const end of ["-wal", "-shm"]) Deno.copyFileSync(database + end, path + end);
  opened.close();
}

Deno.test("a control plane that serves from another computer's disk, or from its container, says what may be lost", async () => {
  const mounts = [
    "/dev/sda1 / ext4 rw 0 0",
    "nas:/robots /mnt/robots nfs4 rw 0 0",
    "//nas/share /srv cifs rw 0 0",
    "host:/home /home fuse.sshfs rw 0 0",
    "overlay /box overlay rw 0 0",
    "/dev/sdb1 /box/volume xfs rw 0 0",
    "tmpfs /run tmpfs rw 0 0",
  ];
  const host = new FakeHost();
  await host.makeFolder("/proc");
  await host.writeFile("/proc/mounts", mounts.join("\n"));
  const dangers = (data: string, database = "") => folderDangers({ data, database }, host);
  for (
    const [data, type] of [["/mnt/robots/data", "nfs4"], ["/srv", "cifs"], ["/home/ann/data", "fuse.sshfs"]]
  ) {
    const [danger] = await dangers(data);
    assertStringIncludes(danger, `${data} is on another computer (${type})`);
    assertEquals(await dangers(data, "postgres://db/svc"), []);
  }
  assertStringIncludes((await dangers("/box/data"))[0], "mount a volume");
  for (const data of ["/var/lib/svc-cloud", "/box/volume/data", "/run/data"]) {
    assertEquals(await dangers(data), []);
  }
});

const sizeOf = async (path: string) => (await Deno.stat(path)).size;

Deno.test("restore: files of SQLite that a former database left are refused, because they would change the new one", () =>
  withFolder(async (folder, data) => {
    await svcCloud("init", ...data);
    await svcCloud("org", "rename", "example", "backed-up", ...data);
    await svcCloud("backup", `${folder}/backups`, ...data);
    for (const [at, end] of ["-wal", "-journal"].entries()) {
      const to = `${folder}/to${at}`;
      await Deno.mkdir(to);
      if (end === "-wal") leaveTransactions(`${folder}/data/cloud.db`, `${to}/cloud.db`);
      else await Deno.writeTextFile(`${to}/cloud.db${end}`, "a transaction that was not over");
      await assertRejects(
        () => svcCloud("restore", `${folder}/backups`, "--data", to),
        Error,
        `in ${to}: restore into a new folder`,
      );
      const left = await sizeOf(`${to}/cloud.db${end}`);
      assertEquals(left > 0, true, "they may be the newest transactions of the former database");
      for (const one of Deno.readDirSync(to)) await Deno.remove(`${to}/${one.name}`);
      await svcCloud("restore", `${folder}/backups`, "--data", to);
      assertEquals(await organizationsIn(to), ["backed-up"]);
    }
  }));

Deno.test("restore: runs again after an interruption at its end, and takes nothing of the interrupted one", () =>
  withFolder(async (folder, data) => {
    await svcCloud("init", ...data);
    await svcCloud("org", "rename", "example", "backed-up", ...data);
    // A control plane that has served has keys.
    await svcCloud("release", "keys", ...data);
    await svcCloud("backup", `${folder}/backups`, ...data);
    const to = `${folder}/to`;
    await Deno.mkdir(`${to}/keys`, { recursive: true });
    await Deno.writeTextFile(`${to}/keys/token.json`, "half a key");
    await Deno.writeTextFile(`${to}/${UNFINISHED}`, "half a database");
    leaveTransactions(`${folder}/data/cloud.db`, `${to}/${UNFINISHED}`);

    for (const words of [["org", "list"], ["init"]]) {
      await assertRejects(
        () => svcCloud(...words, "--data", to),
        Error,
        "a restore was interrupted: run svc-cloud restore again",
      );
    }
    await svcCloud("restore", `${folder}/backups`, "--data", to);
    assertEquals(await organizationsIn(to), ["backed-up"]);
    const left = [...Deno.readDirSync(to)].map(({ name }) => name);
    assertEquals(left.filter((name) => name.startsWith(UNFINISHED)), []);
  }));

Deno.test("data folder: no new control plane begins where the database of another one is missing, empty or elsewhere", () =>
  withFolder(async (folder, data) => {
    const found = `in ${folder}/data, but the `;
    await svcCloud("init", ...data);
    await svcCloud("release", "keys", ...data);
    const database = `${folder}/data/cloud.db`;
    const refused = async (how: string) => {
      for (const words of [["serve", "--listen", "127.0.0.1:0"], ["init"], ["org", "list"]]) {
        const error = await assertRejects(() => svcCloud(...words, ...data), Error, `found ${how} cloud.db`);
        assertStringIncludes(error.message, found);
        assertStringIncludes(error.message, "--database");
      }
    };
    await Deno.rename(database, `${folder}/moved.db`);
    await refused("no");
    await Deno.writeTextFile(database, "");
    await refused("an empty");
    assertEquals(await sizeOf(database), 0);

    await Deno.remove(`${folder}/data/keys`, { recursive: true });
    await Deno.mkdir(`${folder}/data/files/ab`, { recursive: true });
    await refused("an empty");

    // The reported folder is whole again, and a folder with other files is as good as a new one.
    await Deno.rename(`${folder}/moved.db`, database);
    assertEquals(await organizationsIn(`${folder}/data`), ["example"]);
    await Deno.mkdir(`${folder}/mounted/lost+found`, { recursive: true });
    await svcCloud("init", "--data", `${folder}/mounted`);
    assertEquals(await organizationsIn(`${folder}/mounted`), ["example"]);
  }));

Deno.test("data folder: a database that cannot be opened says why, to readers and writers", () =>
  withFolder(async (folder, data) => {
    await svcCloud("init", ...data);
    const database = `${folder}/data/cloud.db`;
    const bytes = await Deno.readFile(database);
    const wrong: [string, Uint8Array][] = [
      ["something else is in the file", new Uint8Array(300_000).fill(7)],
      ["it is damaged", bytes.subarray(0, bytes.length / 2)],
    ];
    for (const [why, content] of wrong) {
      await Deno.writeFile(database, content);
      for (const words of [["org", "list"], ["org", "create", "another"], ["fleet"]]) {
        const error = await assertRejects(
          () => svcCloud(...words, ...data),
          Error,
          "cannot open the database",
        );
        assertStringIncludes(error.message, why);
      }
    }
  }));

Deno.test("serve: refuses a place with none of the contents that the database refers to, until they count as lost", () =>
  withFolder(async (folder, data) => {
    const files = ["--files", `${folder}/disk`];
    const program = `${folder}/svc-server`;
    await svcCloud("init", ...data, ...files);
    await Deno.writeFile(program, linuxProgram());
    await svcCloud("release", "publish", "svc-server", "1.0.0", program, ...data, ...files);
    const refused = async (place: string, ...more: string[]) => {
      const publish = ["release", "publish", "svc-server", "1.1.0", program];
      for (
        const words of [["serve", "--listen", "127.0.0.1:0"], publish, ["files", "move", `${folder}/new`]]
      ) {
        const error = await assertRejects(() => svcCloud(...words, ...data, ...more), Error, "is in");
        assertStringIncludes(error.message, `refers to is in ${place}: is its disk mounted`);
        assertStringIncludes(error.message, "serve --contents-lost");
      }
    };
    // The disk is not mounted: its folder is missing, or an empty one to mount it on. Or the option was forgotten.
    await Deno.rename(`${folder}/disk`, `${folder}/unmounted`);
    await refused(`${folder}/disk`, ...files);
    await refused(`${folder}/disk`, ...files);
    await refused(`${folder}/data/files`);
    assertStringIncludes(
      String(await assertRejects(() => svcCloud("backup", `${folder}/backups`, ...data, ...files))),
      "1 content is missing",
    );

    const served = async (...more: string[]) => {
      const cloud = await serveCloud([...data, ...more]);
      await cloud.stop();
      return cloud.output();
    };
    assertStringIncludes(await served(...files, "--contents-lost"), "uploads of before are lost");
    assertStringIncludes(await served(...files), "uploads of before are lost");
    await svcCloud("release", "publish", "svc-server", "1.2.0", program, ...data, ...files);
    await refused(`${folder}/data/files`);
    await Deno.remove(`${folder}/disk`, { recursive: true });
    await Deno.rename(`${folder}/unmounted`, `${folder}/disk`);
    assertEquals((await served(...files)).includes("lost"), false);
  }));

Deno.test("a data folder that this user may not read is not taken for one without a control plane", async () => {
  const files = new class extends SystemFiles {
    override entries(path: string): Promise<never> {
      return Promise.reject(
        new FileError("permission_denied", `cannot list "${path}": it is another's`, path),
      );
    }
  }();
  await assertRejects(
    () => requireFolder({ data: "/none/data", database: "" }, files),
    FileError,
    'cannot list "/none/data": it is another\'s',
  );
});
