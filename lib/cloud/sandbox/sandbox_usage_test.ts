import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { settle } from "../../base/clock.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { DenoHost } from "../../base/host_deno.ts";
import type { Exit } from "../../base/process.ts";
import { WatchedFolder, watchUsage } from "./sandbox_usage.ts";

const LIMITS = {
  cpuSeconds: 10,
  memoryBytes: 1e9,
  processes: 10,
  openFiles: 10,
  fileBytes: 1e9,
  folderFiles: 3,
  folderBytes: 1024 ** 2,
};

/** Runs the work with a folder that held a file before it was watched. */
async function withFolder(work: (folder: string, watched: WatchedFolder, clock: FakeClock) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  const clock = new FakeClock();
  try {
    await Deno.writeFile(`${folder}/before`, new Uint8Array(2 * 1024 ** 2));
    await work(folder, await WatchedFolder.open(new DenoHost(), folder, LIMITS, clock), clock);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("WatchedFolder: every byte counts that was written since, in subfolders too", () =>
  withFolder(async (folder, watched) => {
    const message = async () => (await watched.beyond({ atLast: true }))?.message;
    assertEquals(await message(), undefined);
    await Deno.mkdir(`${folder}/deep`);
    await Deno.writeFile(`${folder}/deep/one`, new Uint8Array(900 * 1024));
    assertEquals(await message(), undefined);
    await Deno.writeFile(`${folder}/deep/one`, new Uint8Array(2 * 1024 ** 2));
    assertEquals(
      /wrote .* to its folder/.test(await message() ?? ""),
      true,
    );
  }));

Deno.test("WatchedFolder: folders count as files, and the limit is one that may be reached", () =>
  withFolder(async (folder, watched) => {
    const message = async () => (await watched.beyond({ atLast: true }))?.message;
    await Deno.mkdir(`${folder}/deep`);
    for (const name of ["one", "two"]) await Deno.writeTextFile(`${folder}/deep/${name}`, "");
    assertEquals(await message(), undefined);
    await Deno.writeTextFile(`${folder}/deep/three`, "");
    assertEquals(/made 4 files/.test(await message() ?? ""), true);
  }));

Deno.test("WatchedFolder: it is not walked again at once, unless at last", () =>
  withFolder(async (folder, watched, clock) => {
    assertEquals(await watched.beyond(), undefined);
    await Deno.writeFile(`${folder}/large`, new Uint8Array(2 * 1024 ** 2));
    assertEquals(await watched.beyond(), undefined);
    assertEquals((await watched.beyond({ atLast: true }))?.code, "resource_exhausted");
    await clock.advance(60_000);
    assertEquals((await watched.beyond())?.code, "resource_exhausted");
  }));

Deno.test("WatchedFolder: walks take a tenth of the time, and come at least every five seconds", async () => {
  for (const [walkMs, pauseMs] of [[10, 1_000], [300, 3_000], [2_000, 5_000]]) {
    const clock = new FakeClock();
    let walks = 0;
    const files: ReadFiles = Object.assign(new DenoHost(), {
      freeBytes: () => Promise.resolve(1e12),
      entries: async () => {
        walks++;
        await clock.advance(walkMs);
        return [];
      },
    });
    const watched = await WatchedFolder.open(files, "/folder", LIMITS, clock);
    await watched.beyond();
    assertEquals(walks, 2);
    await clock.advance(pauseMs - walkMs - 1);
    await watched.beyond();
    assertEquals(walks, 2, `not yet after ${pauseMs} ms`);
    await clock.advance(1);
    await watched.beyond();
    assertEquals(walks, 3, `after ${pauseMs} ms`);
  }
});

Deno.test("watchUsage: a process that ends while it is found to use too much has not succeeded", async () => {
  const exited = Promise.withResolvers<Exit>();
  const files: ReadFiles = Object.assign(new DenoHost(), {
    readFolder: () => Promise.resolve(["7"]),
    readTextFile: async () => {
      exited.resolve({ code: 0 });
      await settle();
      // 60 s of processor time.
      return `7 (python) R 1 ${"0 ".repeat(9)}6000 0 0 0 0`;
    },
  });
  const process = { pid: 7, signal: () => {}, exited: exited.promise };
  const breach = await watchUsage(process, LIMITS, undefined, files, new FakeClock());
  assertEquals(breach?.code, "resource_exhausted");
  assertEquals(
    breach?.message,
    "the sandbox was ended: it used 60 s of processor time, wanted at most 10 s",
  );
});
