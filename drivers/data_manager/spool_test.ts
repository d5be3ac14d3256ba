import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeFiles, type Fault } from "../../tests/support/fake_files.ts";
import { type LogRecord, Logs, memorySink } from "../../lib/base/log/log.ts";
import type { Captured, CaptureSource } from "../../lib/resource/uploader.ts";
import { Spool } from "./spool.ts";
import { toRemove } from "./spool_files.ts";

const FOLDER = "/capture";
const LIMITS = { bytes: 100_000, collectedBytes: 500, removeEvery: 1 };

const sourceOf = (componentName: string): CaptureSource => ({
  componentType: "rdk:component:sensor",
  componentName,
  methodName: "Readings",
  parameters: {},
  tags: [],
  datasetIds: [],
});

function reading(number: number, payload = {}) {
  return { timeMs: number, receivedMs: number + 1, payload: { number, ...payload } };
}

function file(name: string, content: string | Uint8Array = name) {
  return {
    kind: "file" as const,
    source: sourceOf(name),
    timeMs: 1,
    receivedMs: 2,
    mimeType: "text/plain",
    fileName: "",
    content: typeof content === "string" ? new TextEncoder().encode(content) : content,
  };
}

function open(files: FakeFiles, limits = {}, records: LogRecord[] = []): Promise<Spool> {
  const logger = new Logs(new FakeClock(), [memorySink(records)]).logger("data");
  return Spool.open(files, FOLDER, { ...LIMITS, ...limits }, logger);
}

/** All ready files, as `name: numbers` or `name: content`. */
async function drained(spool: Spool): Promise<string[]> {
  const all: string[] = [];
  for (let next = await spool.next(); next; next = await spool.next()) {
    all.push(logged(next.data));
    spool.done(next.number);
  }
  return all;
}

function logged(data: Captured): string {
  if (data.kind === "sequence") return `${data.source.componentName}: ${data.endMs - data.startMs} ms`;
  const what = data.kind === "file"
    ? new TextDecoder().decode(data.content)
    : data.readings.map(({ payload }) => payload.number).join(" ");
  return `${data.source.componentName}: ${what}`;
}

Deno.test("Spool: a sequence comes back after the end of the process", async () => {
  const files = new FakeFiles();
  const sequence: Captured = {
    kind: "sequence",
    source: { ...sourceOf("data"), tags: ["a", "ü\n"] },
    startMs: 1,
    endMs: 2.5,
    resources: [{ resourceName: "cam", methodName: "GetImages" }],
  };
  await (await open(files)).addSequence(sequence);
  assertEquals((await (await open(files)).next())?.data, sequence);
});

Deno.test("Spool: readings and files come back unchanged, oldest first", async () => {
  const files = new FakeFiles();
  const spool = await open(files);
  const payload = { nan: NaN, infinite: -Infinity, text: "ä\n\0", list: [1, { a: null }] };
  await spool.addReading(sourceOf("a"), reading(1, payload));
  await spool.addFile({ ...file("b"), content: new Uint8Array([0, 10, 255]) });
  await spool.addReading(sourceOf("a"), reading(2));
  await spool.addReading(sourceOf("c"), reading(3));
  assertEquals((await spool.next())?.number, 2, "readings are still collected");
  spool.release(2);
  await spool.seal();
  const first = await spool.next();
  assertEquals(first?.data, {
    kind: "readings",
    source: sourceOf("a"),
    readings: [reading(1, payload), reading(2)],
  });
  spool.done(first!.number);
  const second = await spool.next();
  assertEquals(second?.data, { ...file("b"), content: new Uint8Array([0, 10, 255]) });
  spool.done(second!.number);
  assertEquals(await drained(spool), ["c: 3"]);
  assertEquals(files.paths, []);
  assertEquals(spool.counts, { waiting: 0, bytes: 0, refused: 0, removed: 0 });
});

Deno.test("Spool: readings continue in the next file when a file is full", async () => {
  const spool = await open(new FakeFiles());
  for (let number = 0; number < 20; number++) await spool.addReading(sourceOf("a"), reading(number));
  await spool.seal();
  const all = await drained(spool);
  assert(all.length > 1);
  const numbers = all.flatMap((one) => one.slice(3).split(" ").map(Number));
  assertEquals(numbers, Array.from({ length: 20 }, (_, number) => number));
});

Deno.test("Spool: a kill at any file operation loses and repeats nothing", async () => {
  const keep = async (spool: Spool, done: string[]) => {
    for (let number = 0; number < 4; number++) {
      await spool.addReading(sourceOf("a"), reading(number));
      done.push(`r${number}`);
      await spool.addFile(file(`f${number}`));
      done.push(`f${number}`);
      if (number % 2 === 1) await spool.seal();
    }
  };
  const whole = new FakeFiles();
  await keep(await open(whole), []);
  for (let killed = 0; killed < whole.operations; killed++) {
    for (const share of [0, 0.5, 1]) {
      const fault = (operation: number): Fault | undefined =>
        operation === killed ? { kind: "kill", share } : undefined;
      const files = new FakeFiles(fault);
      const done: string[] = [];
      await keep(await open(files), done).catch(() => {});
      const again = await open(files.restart());
      await again.seal();
      const found = (await drained(again)).flatMap((one) => {
        const [name, what] = one.split(": ");
        return name === "a" ? what.split(" ").map((number) => `r${number}`) : [name];
      });
      assertEquals(found.length, new Set(found).size, `twice: ${found}`);
      assertEquals(done.filter((one) => !found.includes(one)), [], `killed at ${killed}, ${share}`);
    }
  }
});

Deno.test("Spool: a truncated file is read up to the damage or set aside", async () => {
  const files = new FakeFiles();
  const spool = await open(files);
  for (const number of [1, 2, 3]) await spool.addReading(sourceOf("a"), reading(number));
  const [path] = files.paths;
  const text = files.text(path);
  await files.writeFile(path, text.slice(0, -10) + "\0\0\0\0\0");
  const again = await open(files.restart());
  assertEquals(await drained(again), ["a: 1 2"]);

  await again.addFile(file("b"));
  const [damaged] = files.paths;
  await files.writeFile(damaged, files.text(damaged).slice(0, -1));
  const records: LogRecord[] = [];
  const third = await open(files.restart(), {}, records);
  assertEquals(await third.next(), undefined);
  assertEquals(third.counts.refused, 1);
  assertEquals(records.length, 1);
});

Deno.test("Spool: at its size limit it removes refused files first, then the oldest, with one notice", async () => {
  const files = new FakeFiles();
  const records: LogRecord[] = [];
  const spool = await open(files, { bytes: 20_000 }, records);
  const content = new Uint8Array(1_000);
  for (let number = 0; number < 5; number++) await spool.addFile(file(`${number}`, content));
  spool.refuse(3);
  for (let number = 5; number < 40; number++) {
    await spool.addFile(file(`${number}`, content));
    assert(spool.counts.bytes <= 20_000);
  }
  assertEquals(records.length, 1);
  const { waiting, refused, removed } = spool.counts;
  assertEquals([refused, removed + waiting], [0, 40]);
  const names = (await drained(spool)).map((one) => Number(one.split(":")[0]));
  assertEquals(names, Array.from({ length: waiting }, (_, index) => 40 - waiting + index));
  const run = () => spool.addFile(file("large", new Uint8Array(30_000)));
  await assertRejects(run, Error, "wanted at most");
});

Deno.test("Spool: a full disk removes the oldest files", async () => {
  const room = { left: 3_000 };
  const files = new FakeFiles(() => room.left <= 0 ? { kind: "full", share: 0 } : undefined);
  const remove = files.removeFile.bind(files);
  files.removeFile = (path) => {
    room.left += 1_000;
    remove(path);
  };
  const records: LogRecord[] = [];
  const spool = await open(files, {}, records);
  for (let number = 0; number < 10; number++) {
    await spool.addFile(file(`${number}`, "x".repeat(900)));
    room.left -= 1_000;
  }
  assertEquals((await drained(spool)).map((one) => one[0]), ["8", "9"]);
  assertEquals(records.length, 1);
  room.left = -5_000;
  await assertRejects(() => spool.addFile(file("b")), Error, "the disk is full");
});

Deno.test("toRemove() picks every nth file for removal and never a held file", () => {
  const stored = Array.from(
    { length: 10 },
    (_, index) => ({ number: index + 1, bytes: 10, state: "ready" as const }),
  );
  const numbers = (excess: number, every: number, held?: number) =>
    toRemove(stored, excess, every, new Set(held === undefined ? [] : [held])).map(({ number }) => number);
  assertEquals(numbers(25, 1), [1, 2, 3]);
  assertEquals(numbers(25, 1, 1), [2, 3, 4]);
  assertEquals(numbers(25, 3), [1, 4, 7]);
  assertEquals(numbers(60, 3), [1, 4, 7, 10, 2, 6]);
  assertEquals(numbers(1_000, 2).length, 10);
});

Deno.test("Spool: a failed write loses only its own reading or file", async () => {
  let failing = false;
  const files = new FakeFiles(() => failing ? { kind: "error", share: 0 } : undefined);
  const spool = await open(files);
  await spool.addReading(sourceOf("a"), reading(1));
  failing = true;
  await assertRejects(() => spool.addFile(file("b")));
  await assertRejects(() => spool.addReading(sourceOf("a"), reading(2)));
  await assertRejects(() => spool.seal());
  failing = false;
  await spool.addReading(sourceOf("a"), reading(3));
  await spool.seal();
  assertEquals(await drained(spool), ["a: 1", "a: 3"]);
  assertEquals(spool.counts, { waiting: 0, bytes: 0, refused: 0, removed: 0 });
});

Deno.test("what a user removes is told of once and forgotten; the rest, and what comes later, goes on", async () => {
  const files = new FakeFiles();
  const records: LogRecord[] = [];
  const spool = await open(files, {}, records);
  for (const name of ["a", "b", "c", "d"]) await spool.addFile(file(name));
  await spool.addReading(sourceOf("s"), reading(1));
  const [first, second] = files.paths;
  const held = (await spool.next())!;
  for (const path of files.paths) if (path !== first) files.removeFile(path);
  files.removeFile(first);
  spool.refuse(held.number);
  assertEquals(files.paths.includes(second), false);
  await files.removeTree(FOLDER);
  await spool.addReading(sourceOf("s"), reading(2));
  await spool.seal();
  await spool.addFile(file("e"));
  assertEquals(await drained(spool), ["s: 1 2", "e: e"]);
  assertEquals([spool.counts.waiting, spool.counts.bytes, spool.counts.refused], [0, 0, 0]);
  assertEquals(records.map(({ level }) => level), ["warn"]);
  assertEquals(files.paths, []);
});

Deno.test("several files are held, each of another source and with room, also those of an earlier process", async () => {
  const files = new FakeFiles();
  const spool = await open(files);
  for (const name of ["a", "a", "b", "c"]) {
    await spool.addFile(file(name, name.repeat(name === "c" ? 1_000 : 1)));
  }
  const held = [await spool.next(), await spool.next(), await spool.next(500)];
  assertEquals(held.map((one) => one && logged(one.data)), ["a: a", "b: b", undefined]);
  spool.release(held[1]!.number);
  assertEquals((await spool.next())!.number, held[1]!.number);
  assertEquals((await spool.next(2_000))!.data.source.componentName, "c");
  assertEquals(await spool.next(), undefined, "the other a waits for the first");
  spool.done(held[0]!.number);
  assertEquals((await spool.next())!.data.source.componentName, "a");
  const later = await open(files);
  await later.addFile(file("d"));
  await later.addFile(file("a", "2"));
  const first = (await later.next())!;
  const others = [await later.next(), await later.next(), await later.next()];
  assertEquals([first, ...others].map((one) => one!.data.source.componentName), ["a", "b", "c", "d"]);
  assertEquals(await later.next(), undefined, "the other a waits for the first");
  later.done(first.number);
  assertEquals(logged((await later.next())!.data), "a: 2");
});

Deno.test("a file whose upload has failed comes after those of other sources, and before its own source's", async () => {
  const files = new FakeFiles();
  for (const isLater of [false, true]) {
    let spool = await open(files);
    for (const [name, text] of [["a", "1"], ["a", "2"], ["b", "1"], ["b", "2"]]) {
      await spool.addFile(file(name, text));
    }
    if (isLater) spool = await open(files);
    const first = (await spool.next())!;
    spool.release(first.number, { hasFailed: true });
    assertEquals(await drained(spool), ["b: 1", "b: 2", "a: 1", "a: 2"]);
  }
});

Deno.test("a file from a folder that fails keeps no other file from there", async () => {
  const files = new FakeFiles();
  for (const isLater of [false, true]) {
    let spool = await open(files);
    for (const text of ["1", "2", "3"]) await spool.addFile(file("", text));
    if (isLater) spool = await open(files);
    const held = (await spool.next())!;
    assertEquals(logged((await spool.next())!.data), ": 2", "while the first one is on its way");
    spool.release(held.number, { hasFailed: true });
    spool.release(held.number + 1);
    const all = await drained(spool);
    assertEquals([all.at(-1), ...all.toSorted()], [": 1", ": 1", ": 2", ": 3"]);
  }
});
