import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { SvcError } from "../error.ts";
import { type EmbeddedPackage, NativeFolder, preparedFolder } from "./native_folder.ts";

const NOBODY = 65_534;
const DAY_MS = 24 * 3600_000;
const isRoot = Deno.uid() === 0;

/** A package of two files, and how often it was unpacked. */
function packageOf(text: string, fails = () => false): EmbeddedPackage & { unpacked: number } {
  const bytes = new TextEncoder().encode(text.repeat(10_000));
  const counted = { name: "@some/addon", files: [] as EmbeddedPackage["files"], unpacked: 0 };
  const content = async function* () {
    yield bytes.slice(0, 1000);
    await Promise.resolve();
    if (fails()) throw new Error("No space left on device (os error 28)");
    yield bytes.slice(1000);
  };
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  counted.files = ["addon.node", "libaddon.so"].map((name) => ({
    name,
    bytes: bytes.length,
    sha256,
    content: () => {
      counted.unpacked++;
      return Promise.resolve(ReadableStream.from(content()));
    },
  }));
  return counted;
}

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-native-test-" });
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function open(places: string[], nowMs = Date.now()): Promise<NativeFolder> {
  return NativeFolder.open(places, () => nowMs);
}

function entries(path: string): string[] {
  return Array.from(Deno.readDirSync(path), ({ name }) => name).sort();
}

Deno.test("native code is unpacked once, for all processes and starts", async () => {
  await inFolder(async (home) => {
    const wanted = packageOf("code");
    const path = await (await open([`${home}/native`])).take(wanted);
    assertEquals(wanted.unpacked, 2);
    assertEquals(entries(path), ["addon.node", "libaddon.so"]);
    assertEquals(await (await open([`${home}/native`])).take(wanted), path);
    assertEquals(await preparedFolder(`${home}/native/shared`, wanted), path);
    assertEquals(wanted.unpacked, 2);
    assertEquals((await Deno.stat(`${home}/native`)).mode! & 0o777, 0o700);
    assertEquals((await Deno.stat(`${path}/addon.node`)).mode! & 0o777, 0o444);
    const other = packageOf("other code");
    assertNotEquals(await (await open([`${home}/native`])).take(other), path);
    assertEquals(await preparedFolder(`${home}/native/shared`, packageOf("third")), undefined);
  });
});

/** Writes until the time of the file differs: the system's clock for files has steps of some milliseconds. */
async function rewrite(path: string, text: string): Promise<void> {
  const time = async () => (await Deno.stat(path)).mtime?.getTime();
  const before = await time();
  do await Deno.writeTextFile(path, text); while (await time() === before);
}

Deno.test("native code that differs from the embedded files is unpacked again", async () => {
  await inFolder(async (home) => {
    const wanted = packageOf("code");
    const folder = await open([`${home}/native`]);
    const path = await folder.take(wanted);
    const damages: (() => Promise<void>)[] = [
      () => rewrite(`${path}/addon.node`, "x".repeat(40_000)),
      () => Deno.truncate(`${path}/libaddon.so`, 10),
      () => Deno.remove(`${path}/libaddon.so`),
      () => Deno.remove(path, { recursive: true }),
      () =>
        Deno.rename(`${path}/addon.node`, `${home}/away`).then(() =>
          Deno.symlink(`${home}/away`, `${path}/addon.node`)
        ),
    ];
    for (const damage of damages) {
      await Deno.chmod(`${path}/addon.node`, 0o644);
      await Deno.chmod(`${path}/libaddon.so`, 0o644);
      await damage();
      const before = wanted.unpacked;
      assertEquals(await folder.take(wanted), path);
      assertEquals(wanted.unpacked, before + 2);
      assertEquals((await Deno.readTextFile(`${path}/addon.node`)).length, 40_000);
      assertEquals(entries(`${home}/native/shared`).length, 1);
    }
    // A process that has not compared the files yet does so.
    await Deno.writeTextFile(`${path}/more.so`, "a library that nobody asked for");
    await (await open([`${home}/native`])).take(wanted);
    assertEquals(entries(path), ["addon.node", "libaddon.so"]);
  });
});

Deno.test("processes that unpack native code at the same time all get it whole", async () => {
  await inFolder(async (home) => {
    const takers = await Promise.all(Array.from({ length: 8 }, () => open([`${home}/native`])));
    const paths = await Promise.all(
      takers.flatMap((one) => [one, one]).map((one) => one.take(packageOf("code"))),
    );
    assertEquals(new Set(paths).size, 1);
    assertEquals(entries(paths[0]), ["addon.node", "libaddon.so"]);
    assertEquals(entries(`${home}/native/shared`).length, 1);
  });
});

Deno.test("native code that a killed process has unpacked in part is not used, and removed later", async () => {
  await inFolder(async (home) => {
    const folder = await open([`${home}/native`]);
    await Deno.mkdir(`${folder.path}/.partial-killed`);
    await Deno.writeTextFile(`${folder.path}/.partial-killed/addon.node`, "half");
    await folder.take(packageOf("code"));
    assertEquals(entries(folder.path).length, 2);
    const later = await open([`${home}/native`], Date.now() + DAY_MS);
    await later.take(packageOf("newer code"));
    assertEquals(entries(folder.path).filter((name) => name.startsWith(".")), []);
    assertEquals(entries(folder.path).length, 2);
    // Versions that nobody has used for long go too.
    const last = await open([`${home}/native`], Date.now() + 30 * DAY_MS);
    await last.take(packageOf("newest code"));
    assertEquals(entries(folder.path).length, 1);
  });
});

Deno.test("a full disk leaves no native code behind", async () => {
  await inFolder(async (home) => {
    let isFull = true;
    const folder = await open([`${home}/native`]);
    const wanted = packageOf("code", () => isFull);
    await assertRejects(() => folder.take(wanted), Error, "No space left");
    assertEquals(entries(folder.path), []);
    isFull = false;
    assertEquals(entries(await folder.take(wanted)).length, 2);
  });
});

Deno.test("native code that never becomes what it should be is refused", async () => {
  await inFolder(async (home) => {
    const [wanted, other] = [packageOf("code"), packageOf("other code")];
    const files = wanted.files.map((file, index) => ({ ...file, content: other.files[index].content }));
    const folder = await open([`${home}/native`]);
    const error = await assertRejects(() => folder.take({ ...wanted, files }), SvcError, "keep changing");
    assertEquals(error.code, "unavailable");
  });
});

Deno.test("native code goes to the next place if a home cannot be written", async () => {
  await inFolder(async (home) => {
    await Deno.writeTextFile(`${home}/file`, "");
    const { path } = await open([`${home}/file/native`, "./relative", `${home}/tmp/native`]);
    assertEquals(path, `${home}/tmp/native/shared`);
    const error = await assertRejects(() => open([`${home}/file/native`]), SvcError);
    assertEquals(error.code, "unavailable");
    assertStringIncludes(error.message, `${home}/file/native: `);
  });
});

Deno.test("native code is never put where another user could change it", async () => {
  await inFolder(async (home) => {
    const refused = async (place: string, wanted: string) => {
      const error = await assertRejects(() => open([place]), SvcError);
      assertStringIncludes(error.message, wanted);
    };
    await Deno.mkdir(`${home}/real`);
    await Deno.symlink(`${home}/real`, `${home}/native`);
    await refused(`${home}/native`, "is no folder");
    await Deno.mkdir(`${home}/open`);
    await Deno.chmod(`${home}/open`, 0o777);
    await refused(`${home}/open/native`, "others may write");
    await Deno.mkdir(`${home}/open/deeper`);
    await refused(`${home}/open/deeper/native`, "others may write");
    await Deno.symlink(`${home}/open/deeper`, `${home}/link`);
    await refused(`${home}/link/native`, "others may write");
    // As in the folder for temporary files, nobody removes the files of others.
    await Deno.chmod(`${home}/open`, 0o1777);
    assert((await open([`${home}/open/mine`])).path);
    // A folder of ours that has become too open is closed.
    await Deno.chmod(`${home}/open/mine`, 0o755);
    await open([`${home}/open/mine`]);
    assertEquals((await Deno.stat(`${home}/open/mine`)).mode! & 0o777, 0o700);
  });
});

Deno.test({
  name: "native code is never taken from another user's folder",
  ignore: !isRoot,
  fn: () =>
    inFolder(async (home) => {
      const folder = await open([`${home}/native`]);
      const path = await folder.take(packageOf("code"));
      for (const prepared of [`${home}/native`, `${home}/native/shared`, home]) {
        await Deno.chown(prepared, NOBODY, NOBODY);
        const error = await assertRejects(() => open([`${home}/native`]), SvcError);
        assertStringIncludes(error.message, "belongs to the user 65534");
        await Deno.chown(prepared, 0, 0);
      }
      // The package's own folder by another user is replaced.
      await Deno.chown(path, NOBODY, NOBODY);
      await (await open([`${home}/native`])).take(packageOf("code"));
      assertEquals((await Deno.stat(path)).uid, 0);
    }),
});
