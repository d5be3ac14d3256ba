import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles, type Fault } from "../../../tests/support/fake_files.ts";
import { DenoHost } from "../host_deno.ts";
import { LogFile } from "./file.ts";
import type { LogRecord } from "./log.ts";

const PATH = "/logs/machine.log";

function record(message: string): LogRecord {
  return { timeMs: 0, level: "info", logger: "rdk", message, fields: {} };
}

function logFile(host: FakeFiles, { fileBytes = 120, filesKept = 3 } = {}) {
  const clock = new FakeClock();
  const reports: string[] = [];
  const report = (message: string) => void reports.push(message);
  return { clock, reports, file: new LogFile({ host, clock, path: PATH, report, fileBytes, filesKept }) };
}

/** The files from the oldest to the newest. */
function paths(host: FakeFiles): string[] {
  const number = (path: string) => Number(path.slice(PATH.length + 1) || 0);
  return host.paths.sort((a, b) => number(b) - number(a));
}

/** The messages of one file's whole lines; a part of a line is `…`. */
function messages(text: string): string[] {
  return text.split("\n").slice(0, -1).map((line) => line.split("\t")[3] ?? "…");
}

function allMessages(host: FakeFiles): string[] {
  return paths(host).flatMap((path) => messages(host.text(path)));
}

Deno.test("keeps the configured number of full files beside the current file", () => {
  const host = new FakeFiles();
  const { file, reports } = logFile(host);
  for (let line = 0; line < 15; line++) file.sink(record(`line ${line}`));
  file.close();
  // Three lines fill a file; the last three have just been moved away.
  assertEquals(paths(host), [`${PATH}.3`, `${PATH}.2`, `${PATH}.1`]);
  assertEquals(allMessages(host), [6, 7, 8, 9, 10, 11, 12, 13, 14].map((line) => `line ${line}`));
  assertEquals([reports, host.opened], [[], 0]);
});

Deno.test("LogFile: a file that others move, remove or empty is made anew or goes on", async () => {
  const host = new FakeFiles();
  const { file, clock, reports } = logFile(host, { fileBytes: 300 });
  const log = async (message: string) => {
    await clock.advance(1_000);
    file.sink(record(message));
  };
  await log("first");
  host.moveFile(PATH, "/logs/old.log");
  await log("moved");
  assertEquals([messages(host.text("/logs/old.log")), messages(host.text(PATH))], [["first"], ["moved"]]);
  host.removeFile(PATH);
  await log("removed");
  assertEquals(messages(host.text(PATH)), ["removed"]);
  // With copytruncate, the size begins anew.
  for (let line = 0; line < 5; line++) await log(`line ${line}`);
  host.emptyFile(PATH);
  for (let line = 5; line < 9; line++) await log(`line ${line}`);
  assertEquals(messages(host.text(PATH)), [5, 6, 7, 8].map((line) => `line ${line}`));
  file.close();
  assertEquals([reports, host.opened], [[], 0]);
});

Deno.test("LogFile: a restart continues the same file after a truncated line", () => {
  const host = new FakeFiles();
  logFile(host, { fileBytes: 1000 }).file.sink(record("whole"));
  host.openAppend(PATH).append(new TextEncoder().encode("1970-01-01T00:00:00.000Z\tIN"));
  logFile(host.restart(), { fileBytes: 1000 }).file.sink(record("after"));
  assertEquals(messages(host.text(PATH)), ["whole", "…", "after"]);
});

Deno.test("LogFile: a kill at any operation leaves whole lines in order, and a restart continues", () => {
  const lines = 20;
  let kills = 0;
  for (let at = 0;; at++) {
    let ended = false;
    for (const share of [0, 0.5, 1]) {
      const host = new FakeFiles((operation) => operation === at ? { kind: "kill", share } : undefined);
      const { file } = logFile(host, { filesKept: 20 });
      let logged = 0;
      while (logged < lines && !host.dead) file.sink(record(`line ${logged++}`));
      if (!host.dead) {
        ended = true;
        break;
      }
      kills++;
      // All that was told is there but for the last, which may be whole, in part or not there.
      const before = allMessages(host).filter((message) => message !== "…");
      const expected = Array.from({ length: before.length }, (_, line) => `line ${line}`);
      assertEquals(before, expected, `killed at ${at} with ${share} done`);
      assert(
        before.length >= logged - 1,
        `killed at ${at} with ${share} done: ${before.length} of ${logged}`,
      );
      const next = host.restart();
      const again = logFile(next, { filesKept: 20 });
      for (let line = 0; line < lines; line++) again.file.sink(record(`next ${line}`));
      const after = allMessages(next).filter((message) => message !== "…");
      assertEquals(after, [...before, ...Array.from({ length: lines }, (_, line) => `next ${line}`)]);
      assertEquals(again.reports, []);
    }
    if (ended) break;
  }
  assert(kills > 100, `${kills} kills`);
});

Deno.test("LogFile: reports a full disk once, and later writes the number of lost lines", async () => {
  let fault: Fault | undefined;
  const host = new FakeFiles(() => fault);
  const { file, reports, clock } = logFile(host, { fileBytes: 10_000 });
  file.sink(record("before"));
  fault = { kind: "error", share: 0.5 };
  for (let line = 0; line < 50; line++) file.sink(record("lost"));
  await clock.advance(1_000);
  file.sink(record("lost"));
  assertEquals(reports.length, 1);
  assertStringIncludes(reports[0], PATH);
  fault = undefined;
  file.sink(record("lost: the disk is left alone for a second"));
  await clock.advance(1_000);
  file.sink(record("after"));
  assertEquals(messages(host.text(PATH)), [
    "before",
    "…",
    "52 lines before this one could not be written",
    "after",
  ]);
  assertEquals(reports.slice(1), [`the log file "${PATH}" is written again, 52 lines are missing`]);
  file.close();
  assertEquals(host.opened, 0);
});

Deno.test("LogFile: another sink gets what a full disk does not take, from the first line and in between", async () => {
  let fault: Fault | undefined = { kind: "error", share: 0.5 };
  const host = new FakeFiles(() => fault);
  const clock = new FakeClock();
  const reports: string[] = [];
  const diverted: string[] = [];
  const report = (message: string) => void reports.push(message);
  const instead = { name: "the screen", sink: ({ message }: LogRecord) => void diverted.push(message) };
  const file = new LogFile({ host, clock, path: PATH, report, instead });
  const passOutage = async () => {
    fault = undefined;
    await clock.advance(1_000);
  };

  for (const line of ["first", "second"]) file.sink(record(line));
  await passOutage();
  file.sink(record("between"));
  fault = { kind: "error", share: 0 };
  file.sink(record("third"));
  await passOutage();
  file.sink(record("last"));
  file.close();

  assertEquals(diverted, ["first", "second", "third"]);
  const written = messages(host.text(PATH)).filter((message) => message !== "…");
  assertEquals(written, [
    "2 lines before this one could not be written",
    "between",
    "1 lines before this one could not be written",
    "last",
  ]);
  assertEquals(reports.filter((message) => message.includes("go to the screen")).length, 2);
});

Deno.test("LogFile: a single disk fault loses at most 1 line and is reported", async () => {
  for (let at = 0; at < 40; at++) {
    const host = new FakeFiles((operation) => operation === at ? { kind: "error", share: 0.5 } : undefined);
    const { file, clock, reports } = logFile(host, { filesKept: 20 });
    for (let line = 0; line < 20; line++) {
      file.sink(record(`line ${line}`));
      await clock.advance(1_000);
    }
    file.close();
    const lost = 20 - allMessages(host).filter((message) => message.startsWith("line")).length;
    assert(lost <= 1, `${lost} lines lost by a fault at ${at}`);
    assertEquals(reports.length > 0, at < host.operations, `fault at ${at}`);
    assertEquals(host.opened, 0);
  }
});

Deno.test("LogFile: if files cannot be renamed, the file grows and this is reported once", () => {
  const host = new FakeFiles();
  host.moveFile = () => {
    throw new Error("in use");
  };
  const { file, reports } = logFile(host);
  for (let line = 0; line < 20; line++) file.sink(record(`line ${line}`));
  assertEquals(allMessages(host).length, 20);
  assertEquals(reports, [`the log file "${PATH}" cannot be rotated and grows: in use`]);
});

Deno.test("LogFile: a killed process leaves whole lines without a gap", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const module = (name: string) => JSON.stringify(new URL(`./${name}.ts`, import.meta.url).href);
    const code = `
      import { LogFile } from ${module("file")};
      import { DenoHost } from ${module("../host_deno")};
      import { SystemClock } from ${module("../clock")};
      const parts = { host: new DenoHost(), clock: new SystemClock(), report: (text) => { throw new Error(text) } };
      const file = new LogFile({ ...parts, path: Deno.args[0], fileBytes: 400, filesKept: 50 });
      for (let line = 0; ; line++) {
        file.sink({ timeMs: 0, level: "info", logger: "rdk", message: String(line), fields: {} });
        if (line === 2_000) console.log("far enough");
      }`;
    await Deno.writeTextFile(`${folder}/writer.ts`, code);
    const args = ["run", "-A", "--no-check", "--no-lock", `${folder}/writer.ts`, `${folder}/logs/m.log`];
    const writer = new Deno.Command(Deno.execPath(), { args, stdout: "piped" }).spawn();
    for await (const _far of writer.stdout) break;
    writer.kill("SIGKILL");
    await writer.status;
    const host = new DenoHost();
    const numbers = (await host.readFolder(`${folder}/logs`)).map((name) =>
      Number(name.slice("m.log.".length))
    );
    const found: string[] = [];
    for (const number of numbers.sort((a, b) => b - a)) {
      const path = number === 0 ? `${folder}/logs/m.log` : `${folder}/logs/m.log.${number}`;
      found.push(...messages(await host.readTextFile(path)));
    }
    const first = Number(found[0]);
    assert(found.length > 400 && first > 0, `${found.length} lines from ${first} on`);
    assertEquals(found, Array.from({ length: found.length }, (_, line) => String(first + line)));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
