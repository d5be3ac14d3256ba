import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { DiskSpace } from "./disk_space.ts";
import { FolderFiles } from "./folder_files.ts";

const MIB = 1024 ** 2;

/** A disk of 100 MiB, of which 20 MiB are the database's, with what is free now. */
function spaceOf(freeMib: number) {
  const free = { bytes: freeMib * MIB };
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("t");
  const disk = {
    freeBytes: () => Promise.resolve(free.bytes),
    totalBytes: () => Promise.resolve(100 * MIB),
  };
  const space = new DiskSpace({ disk, folder: "/data", reserveBytes: 20 * MIB, clock, logger });
  return { space, free, clock, records };
}

async function refused(attempt: Promise<unknown>): Promise<string> {
  const { code, message } = await assertRejects(() => attempt, SvcError);
  assertEquals(code, "resource_exhausted");
  return message;
}

Deno.test("DiskSpace: uploads stop before the reserve, entries at its half, configurations at its quarter", async () => {
  const { space, free, clock } = spaceOf(24);
  const at = async (mib: number) => {
    free.bytes = mib * MIB;
    await clock.advance(1_000);
    const uses = ["content", "entries", "configuration"] as const;
    return await Promise.all(uses.map((use) => space.require(use).then(() => use, () => "")));
  };
  assertEquals(await at(20), ["content", "entries", "configuration"]);
  assertEquals(await at(19), ["", "entries", "configuration"]);
  assertEquals(await at(9), ["", "", "configuration"]);
  assertEquals(await at(4), ["", "", ""]);
  assertStringIncludes(
    await refused(space.require("content")),
    "is full: 4 MiB are free, 20 MiB of them are kept for its database (limit disk_reserve_bytes)",
  );
  // What was removed counts at once.
  free.bytes = 50 * MIB;
  await space.require("content");
});

Deno.test("DiskSpace: uploads under way hold space, so that they do not take the reserve together", async () => {
  const { space, free, clock } = spaceOf(30);
  const [one, two] = [await space.hold(), await space.hold()];
  assertEquals((await space.state()).heldBytes, 8 * MIB);
  await refused(space.hold());
  await one.grow(4 * MIB);
  // Written, and seen on the disk from the next look on.
  await refused(space.hold());
  free.bytes -= 4 * MIB;
  await clock.advance(1_000);
  assertEquals((await space.state()).heldBytes, 8 * MIB);
  await one.grow(2 * MIB);
  free.bytes -= 2 * MIB;
  await refused(one.grow(MIB));
  two.release();
  two.release();
  await one.grow(MIB);
  one.release();
  assertEquals((await space.state()).heldBytes, 0);
});

Deno.test("DiskSpace: a disk above 80 % is warned about once, until it was emptier", async () => {
  const { space, free, clock, records } = spaceOf(30);
  for (const mib of [30, 19, 15, 22, 18, 40, 10]) {
    free.bytes = mib * MIB;
    await clock.advance(1_000);
    await space.state();
  }
  assertEquals(records.map(({ message }) => /is (\d+) % full/.exec(message)?.[1]), ["81", "90"]);
});

Deno.test("DiskSpace: on a small disk the reserve is a quarter of it", async () => {
  const clock = new FakeClock();
  const disk = { freeBytes: () => Promise.resolve(26), totalBytes: () => Promise.resolve(100) };
  const logger = new Logs(clock, []).logger("t");
  const space = new DiskSpace({ disk, folder: "/", reserveBytes: 512 * MIB, clock, logger });
  await space.require("content");
  assertEquals((await space.state()).reserveBytes, 25);
});

Deno.test("FileStore: an upload that would take the reserve leaves nothing, and says why", async () => {
  const { space, free } = spaceOf(26);
  const disk = new SystemFiles();
  const folder = await disk.temporaryFolder("svc-space-");
  const files = await FolderFiles.open(disk, folder, { olderThanMs: 0, space });
  const content = async function* () {
    for (let piece = 0; piece < 8; piece++) {
      yield new Uint8Array(MIB);
      free.bytes -= MIB;
    }
  };
  assertStringIncludes(await refused(files.put(content())), "kept for its database");
  assertEquals(await disk.filesAt(folder), []);
  assertEquals((await space.state()).heldBytes, 0);
  free.bytes = 60 * MIB;
  assertEquals((await files.put(content())).bytes, 8 * MIB);
  await disk.removeTree(folder);
});
