import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeFiles, type Fault } from "../../../tests/support/fake_files.ts";
import type { Code } from "../error.ts";
import { FileError, type Files, TEMPORARY } from "./files.ts";
import { SystemFiles } from "./system_files.ts";

const unix = Deno.build.os !== "windows";
const PATH = "/home/state.json";

async function withFolder(test: (files: Files, folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(new SystemFiles(), folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs a test on the real files and on the double: the simulations prove something only if both behave alike. */
function both(name: string, test: (files: Files, folder: string) => Promise<void>): void {
  Deno.test(`SystemFiles: ${name}`, () => withFolder(test));
  Deno.test(`FakeFiles: ${name}`, async () => {
    const files = new FakeFiles();
    await files.makeFolder("/home");
    await test(files, "/home");
  });
}

async function* pieces(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield new TextEncoder().encode(text);
}

async function read(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) text += new TextDecoder().decode(chunk);
  return text;
}

async function refused(work: () => Promise<unknown>, code: Code, path: string): Promise<void> {
  const error = await assertRejects(work, FileError);
  assertEquals([error.code, error.path], [code, path], error.message);
  assert(error.message.includes(`"${path}"`), error.message);
}

both("writeFile replaces a file and leaves no temporary file", async (files, folder) => {
  await files.writeFile(`${folder}/a`, "old", { mode: 0o600 });
  await files.writeFile(`${folder}/a`, "new", { mode: 0o600 });
  await files.writePieces(`${folder}/b`, pieces("one ", "two"));
  await files.copyFile(`${folder}/b`, `${folder}/c`, { mode: 0o755 });
  assertEquals(await files.readFolder(folder), ["a", "b", "c"]);
  assertEquals(await files.readTextFile(`${folder}/a`), "new");
  assertEquals(await files.readTextFile(`${folder}/c`), "one two");
  assertEquals(await read(files.readPieces(`${folder}/b`, 4)), "two");
  if (unix) assertEquals((await files.stat(`${folder}/a`))?.mode, 0o600);
  if (unix) assertEquals((await files.stat(`${folder}/c`))?.mode, 0o755);
});

both("readTextFile drops a byte order mark at the beginning, and nothing else", async (files, folder) => {
  for (
    const [written, read] of [
      ["\ufeff{}", "{}"],
      ["\ufeff", ""],
      ["\ufeff\ufeffa", "\ufeffa"],
      ["a\ufeff\r\n", "a\ufeff\r\n"],
    ]
  ) {
    await files.writeFile(`${folder}/a`, written);
    assertEquals(await files.readTextFile(`${folder}/a`), read);
  }
});

both("a lock has one holder, until it is given back", async (files, folder) => {
  const path = `${folder}/agent.lock`;
  const release = await files.lock(path);
  assert(release);
  assertEquals(await files.lock(path), undefined);
  release();
  const again = await files.lock(path);
  assert(again);
  again();
});

Deno.test({
  name: "SystemFiles: only the owner may write what it makes, whatever the umask",
  ignore: !unix,
  fn: () =>
    withFolder(async (files, folder) => {
      const before = Deno.umask(0);
      try {
        await files.makeFolder(`${folder}/a/b`);
        files.openAppend(`${folder}/c/log`).close();
        await files.writeFile(`${folder}/a/d`, "text");
      } finally {
        Deno.umask(before);
      }
      const modes = ["a", "a/b", "c", "c/log", "a/d"].map(async (path) =>
        (await files.stat(`${folder}/${path}`))?.mode
      );
      assertEquals(await Promise.all(modes), [0o755, 0o755, 0o755, 0o640, 0o644]);
    }),
});

Deno.test({
  name: "SystemFiles: writes into a device without replacing it",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const files = new SystemFiles();
    // The link to it is one of this process alone: nothing of the computer's is at stake.
    const device = await Deno.open("/dev/zero", { write: true });
    const folder = "/proc/self/fd";
    const names = (await files.readFolder(folder)).map((name) => `${folder}/${name}`);
    const links = await Promise.all(names.map(async (path) => [path, await files.readLink(path)] as const));
    const [path] = links.find(([, target]) => target === "/dev/zero")!;
    try {
      await files.writeFile(path, "text");
      await files.writePieces(path, pieces("one ", "two"));
      await files.copyFile("/proc/version", path);
    } finally {
      device.close();
    }
  },
});

both("errors contain the operation, the path and the code", async (files, folder) => {
  await refused(() => files.readFile(`${folder}/none`), "not_found", `${folder}/none`);
  await refused(() => files.readTextFile(`${folder}/none`), "not_found", `${folder}/none`);
  await refused(() => read(files.readPieces(`${folder}/none`)), "not_found", `${folder}/none`);
  await refused(() => files.readFolder(`${folder}/none`), "not_found", `${folder}/none`);
  await refused(() => files.copyFile(`${folder}/none`, `${folder}/a`), "not_found", `${folder}/none`);
  assertThrows(() => files.removeFile(`${folder}/none`), FileError, "it does not exist");
  assertThrows(() => files.moveFile(`${folder}/none`, `${folder}/b`), FileError, "it does not exist");
  await files.createFile(`${folder}/a`, "1");
  await refused(() => files.createFile(`${folder}/a`, "2"), "already_exists", `${folder}/a`);
  await refused(() => files.addName(`${folder}/a`, `${folder}/a`), "already_exists", `${folder}/a`);
  assertEquals(await files.readFolder(folder), ["a"]);
});

both("removing a missing path succeeds, and its stat is undefined", async (files, folder) => {
  await files.remove(`${folder}/none`);
  await files.removeTree(`${folder}/none`);
  assertEquals(await files.stat(`${folder}/none`), undefined);
  assertEquals(await files.fileSize(`${folder}/none`), undefined);
  assertEquals(await files.readLink(`${folder}/none`), undefined);
  assertEquals(await files.findFile(folder), undefined);
  assertEquals((await files.stat(folder))?.kind, "folder");
});

both("filesAt lists files below a folder, and removeTree removes them", async (files, folder) => {
  await files.makeFolder(`${folder}/deep/er`);
  await files.createFile(`${folder}/deep/er/b`, pieces("12", "345"));
  await files.createFile(`${folder}/deep/a`, "1");
  const found = (await files.filesAt(`${folder}/deep`)).map(({ name, sizeBytes }) => [name, sizeBytes]);
  assertEquals(found, [["a", 1], ["er/b", 5]]);
  assertEquals(await files.entries(`${folder}/deep`), [{ name: "a", kind: "file" }, {
    name: "er",
    kind: "folder",
  }]);
  await files.removeTree(`${folder}/deep`);
  assertEquals(await files.readFolder(folder), []);
});

both("turnLink replaces a link, and an open file follows its rename", async (files, folder) => {
  await files.createFile(`${folder}/a`, "a");
  for (const text of ["a", "b"]) await files.turnLink(`${folder}/link`, text);
  assertEquals(await files.readLink(`${folder}/link`), "b");
  const file = await files.open(`${folder}/log`, "append");
  await file.write(new TextEncoder().encode("1"));
  files.moveFile(`${folder}/log`, `${folder}/log.1`);
  await file.write(new TextEncoder().encode("2"));
  await file.sync();
  file.close();
  assertEquals(await files.readTextFile(`${folder}/log.1`), "12");
  const again = files.openAppend(`${folder}/log.1`);
  assertEquals([again.sizeBytes, again.endsLine, again.regular], [2, false, true]);
  again.append(new TextEncoder().encode("\n"));
  again.close();
  assertEquals(await files.readTextFile(`${folder}/log.1`), "12\n");
});

Deno.test({
  name: "SystemFiles: create, write and remove do not follow a link at the path",
  ignore: !unix,
  fn: () =>
    withFolder(async (files, folder) => {
      await Deno.mkdir(`${folder}/theirs`);
      await Deno.writeTextFile(`${folder}/theirs/secret`, "secret");
      await Deno.symlink("theirs/secret", `${folder}/file`);
      await Deno.symlink("theirs", `${folder}/folder`);
      await refused(() => files.createFile(`${folder}/file`, "ours"), "already_exists", `${folder}/file`);
      await files.writeFile(`${folder}/file`, "ours");
      await files.removeTree(`${folder}/folder`);
      assertEquals(await Deno.readTextFile(`${folder}/theirs/secret`), "secret");
      assertEquals((await files.stat(`${folder}/file`, { links: true }))?.kind, "file");
      assertEquals(await files.readFolder(folder), ["file", "theirs"]);
    }),
});

/** Replaces a file that is there with a fault at one operation; gives the files as the next process finds them. */
async function replacedWith(
  at: number,
  fault: Fault,
  seed: number,
): Promise<{ files: FakeFiles; logged: boolean }> {
  let state = seed;
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
  const files = new FakeFiles(undefined, random);
  await files.writeFile(PATH, "old");
  const begin = files.operations;
  files.fault = (operation) => operation === begin + at ? fault : undefined;
  const logged = await files.writeFile(PATH, "the new one").then(() => false, () => true);
  if (fault.kind !== "cut" && fault.kind !== "kill") return { files, logged };
  if (files.dead || fault.kind === "cut") files.cut();
  return { files: files.restart(), logged };
}

Deno.test("writeFile: a power cut at any operation leaves the old or the new file", async () => {
  let olds = 0;
  for (let seed = 1; seed <= 200; seed++) {
    for (let at = 0; at <= 5; at++) {
      const { files, logged } = await replacedWith(at, { kind: "cut" }, seed);
      const found = files.text(PATH);
      assert(["old", "the new one"].includes(found), `found ${found} with a cut at ${at}, seed ${seed}`);
      if (!logged) assertEquals(found, "the new one", `cut at ${at}, seed ${seed}`);
      if (found === "old") olds++;
    }
  }
  assert(olds > 100, `${olds} times the old one`);
});

Deno.test("writeFile: a full disk or a denied operation leaves the old or new file without leftovers", async () => {
  for (
    const [kind, code] of [["full", "resource_exhausted"], ["denied", "permission_denied"], [
      "error",
      "unknown",
    ]] as const
  ) {
    for (let at = 0; at <= 4; at++) {
      const { files, logged } = await replacedWith(at, { kind }, 1);
      assert(logged, `${kind} at ${at}`);
      assertEquals(files.paths, [PATH], `${kind} at ${at}`);
      assert(["old", "the new one"].includes(files.text(PATH)));
      files.fault = () => ({ kind });
      const error = await assertRejects(() => files.writeFile(PATH, "x"), FileError, PATH);
      assertEquals(error.code, code);
    }
  }
});

Deno.test("what cannot be written is told by its own name, not by that of the temporary file", () =>
  withFolder(async (files, folder) => {
    await Deno.mkdir(`${folder}/there/more`, { recursive: true });
    const failures: [path: string, message: string][] = [
      [`${folder}/none/f`, `cannot write "${folder}/none/f": its folder does not exist`],
      [`${folder}/there`, `cannot write "${folder}/there": it is a folder`],
    ];
    for (const [path, message] of failures) {
      const error = await assertRejects(() => files.writeFile(path, "x"), FileError);
      assertEquals([error.message, error.path], [message, path]);
    }
    assertEquals(await files.readFolder(folder), ["there"]);
  }));

Deno.test("FakeFiles: loses unsynced data at a power cut, so a rename without sync is torn", async () => {
  const torn = new Set<string>();
  for (let seed = 1; seed <= 100; seed++) {
    let state = seed;
    const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
    const files = new FakeFiles(undefined, random);
    const file = await files.open(`${PATH}${TEMPORARY}`, "new");
    await file.write(new TextEncoder().encode("the new one"));
    file.close();
    files.moveFile(`${PATH}${TEMPORARY}`, PATH);
    files.cut();
    torn.add(files.paths.includes(PATH) ? files.text(PATH) : "nothing");
  }
  assert(torn.has("nothing") && torn.has("") && torn.has("the new one") && torn.size > 4, [...torn].join());
});
