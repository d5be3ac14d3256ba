import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles, type Fault } from "../../../tests/support/fake_files.ts";
import { type LogRecord, Logs, memorySink } from "./log.ts";
import type { QueuedLog, QueueLimits } from "./buffer.ts";
import { LogQueue } from "./queue.ts";
import { SvcError } from "../error.ts";
import { Secret } from "../secret.ts";

const FOLDER = "/home/log_queue";
const OWN = "rdk.NetAppender";
/** Small, so that a short test has many batches and segments. */
const SMALL = { batchEntries: 3, segmentBytes: 300 };

/** The receiver: it may be offline, and it outlives the senders. */
class Cloud {
  online = true;
  readonly batches: QueuedLog[][] = [];

  get entries(): QueuedLog[] {
    return this.batches.flat();
  }

  /** The messages at a receiver that drops repetitions, without those of the queue itself. */
  get messages(): string[] {
    const byId = new Map<string, QueuedLog>();
    for (const entry of this.entries) if (!byId.has(entry.id)) byId.set(entry.id, entry);
    return [...byId.values()].filter(({ logger }) => logger !== OWN).map(({ message }) => message);
  }

  /** How many entries it was told are missing. */
  get reported(): number {
    const overflows = this.entries.map(({ message }) => /^Overflowed (\d+) logs/.exec(message)?.[1]);
    return overflows.reduce((sum, count) => sum + Number(count ?? 0), 0);
  }

  receive(batch: readonly QueuedLog[]): void {
    if (!this.online) throw new Error("offline");
    this.batches.push([...batch]);
  }
}

async function started(cloud: Cloud, host: FakeFiles, limits: Partial<QueueLimits> = SMALL) {
  const clock = new FakeClock();
  const own: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(own)]);
  // A dead process sends nothing.
  const send = async (batch: readonly QueuedLog[]) => {
    if (host.dead) await new Promise(() => {});
    cloud.receive(batch);
  };
  const parts = { host, clock, folder: FOLDER, send, logger: logs.logger(OWN), limits, random: () => 1 };
  const queue = await LogQueue.open(parts);
  const log = (message: string, more: Partial<LogRecord> = {}) =>
    queue.sink({ timeMs: clock.nowMs(), level: "info", logger: "rdk", message, fields: {}, ...more });
  return { queue, clock, log, own: () => own.map(({ message }) => message) };
}

function names(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, index) => `m${from + index}`);
}

/** A life with everything in it: online, offline, online again, the end. Stops where the process is killed. */
async function life(cloud: Cloud, host: FakeFiles, limits: Partial<QueueLimits> = SMALL): Promise<string[]> {
  const { queue, clock, log } = await started(cloud, host, limits);
  const logged: string[] = [];
  const say = (count: number) => {
    for (const message of names(logged.length, logged.length + count)) {
      if (host.dead) return;
      log(message);
      logged.push(message);
    }
  };
  const steps = [
    () => say(5),
    () => clock.advance(500),
    () => cloud.online = false,
    () => say(9),
    () => clock.advance(2_500),
    () => say(2),
    () => cloud.online = true,
    () => clock.advance(10_000),
    () => say(2),
  ];
  for (const step of steps) {
    if (host.dead) break;
    await step();
  }
  cloud.online = true;
  if (!host.dead) await queue.close();
  return logged;
}

/** The highest acknowledgement in the journal. */
function recordedAck(host: FakeFiles): number {
  const acks = host.paths.flatMap((path) => [...host.text(path).matchAll(/"ack":(\d+)}\n/g)]);
  return Math.max(0, ...acks.map((match) => Number(match[1])));
}

/** Runs `check` for a fault at each operation in turn, as long as there are operations. */
async function atEveryOperation(
  kind: Fault["kind"],
  check: (host: FakeFiles, where: string) => Promise<void>,
): Promise<number> {
  for (let at = 0;; at++) {
    let reached = false;
    for (const share of [0, 0.3, 0.9, 1]) {
      const host = new FakeFiles((operation) => {
        if (operation !== at) return undefined;
        reached = true;
        return { kind, share };
      });
      await check(host, `${kind} at operation ${at}, ${share} of it done`);
    }
    if (!reached) return at;
  }
}

Deno.test("LogQueue: sends entries in order and in batches, and leaves a single journal file", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  const logged = await life(cloud, host);
  assertEquals(cloud.entries.map(({ message }) => message), logged);
  assertEquals(cloud.batches.every((batch) => batch.length <= 3), true);
  assertEquals(new Set(cloud.entries.map(({ id }) => id)).size, logged.length);
  assertEquals([host.paths.length, host.opened], [1, 0]);
});

Deno.test("LogQueue: a slow line gets smaller batches and more time, and a fast one whole batches again", async () => {
  const clock = new FakeClock();
  const sizes: number[] = [];
  let msPerEntry = 1_000;
  const send = async (batch: readonly QueuedLog[], signal: AbortSignal) => {
    await clock.sleep(batch.length * msPerEntry, signal);
    sizes.push(batch.length);
  };
  const logger = new Logs(clock, []).logger(OWN);
  const host = new FakeFiles();
  const queue = await LogQueue.open({ host, clock, folder: FOLDER, send, logger, random: () => 1 });
  const log = (message: string) =>
    queue.sink({ timeMs: clock.nowMs(), level: "info", logger: "rdk", message, fields: {} });

  names(0, 40).forEach(log);
  await clock.advance(150_000);
  assertEquals([...new Set(sizes)], [13, 1], "the last one is the rest");

  msPerEntry = 1;
  sizes.length = 0;
  names(40, 300).forEach(log);
  await clock.advance(10_000);
  assertEquals([sizes[0], Math.max(...sizes)], [25, 100]);
  await queue.close();
});

Deno.test("LogQueue: an entry that is refused keeps no others, and batches become as small as a proxy wants them", async () => {
  for (
    const [code, what] of [["invalid_argument", "entry"], ["out_of_range", "entry"], [
      "resource_exhausted",
      "size",
    ]] as const
  ) {
    const [cloud, host] = [new Cloud(), new FakeFiles()];
    cloud.receive = (batch) => {
      const isRefused = what === "entry"
        ? batch.some(({ message }) => message === "m7")
        : batch.reduce((sum, { message }) => sum + message.length, 0) > 100;
      if (isRefused) throw new SvcError(code, `refused ${batch.length}`);
      cloud.batches.push([...batch]);
    };
    const { queue, clock, log, own } = await started(cloud, host, {});
    const messages = names(0, 300);
    messages.forEach((message) => log(message));
    await clock.advance(20 * 60_000);
    await queue.close();
    const wanted = messages.filter((message) => what !== "entry" || message !== "m7");
    assertEquals(cloud.entries.map(({ message }) => message), wanted, code);
    const left = own().filter((message) => message.includes("which is left out"));
    assertEquals(left, what === "entry" ? ["the cloud refuses an entry, which is left out: refused 1"] : []);
  }
});

Deno.test("a kill at any operation loses no entry, keeps the order, and repeats no confirmed entry", async () => {
  const operations = await atEveryOperation("kill", async (host, where) => {
    const cloud = new Cloud();
    const logged = await life(cloud, host);
    const recorded = recordedAck(host);
    const before = cloud.batches.length;
    const next = await started(cloud, host.restart());
    next.log("new");
    await next.clock.advance(10_000);
    await next.queue.close();
    // The entry whose writing was interrupted may be there or not.
    const wanted = host.dead && !cloud.messages.includes(logged.at(-1)!) ? logged.slice(0, -1) : logged;
    assertEquals(cloud.messages, [...wanted, "new"], where);
    for (const { id, message } of cloud.batches.slice(before).flat()) {
      assert(Number(id.split("-")[1]) > recorded, `${where}: ${message} was sent again`);
    }
    assertEquals(cloud.reported, 0, where);
  });
  assert(operations > 25, `${operations} operations`);
});

Deno.test("LogQueue: a second kill during recovery loses no entry", async () => {
  for (let first = 3; first < 40; first += 4) {
    await atEveryOperation("kill", async (plan, where) => {
      const cloud = new Cloud();
      const host = new FakeFiles((operation) =>
        operation === first ? { kind: "kill", share: 0.5 } : undefined
      );
      const logged = await life(cloud, host);
      // The second life has the faults of the plan, on the files of the first.
      const second = host.restart(plan.fault);
      const again = await started(cloud, second);
      again.log("second");
      await again.clock.advance(10_000);
      if (!second.dead) await again.queue.close();
      const third = await started(cloud, second.restart());
      await third.clock.advance(10_000);
      await third.queue.close();
      const found = cloud.messages;
      const optional = new Set([logged.at(-1), "second"]);
      const all = [...logged, "second"];
      assertEquals(found, all.filter((one) => found.includes(one)), where);
      assertEquals(all.filter((one) => !found.includes(one) && !optional.has(one)), [], where);
    });
  }
});

Deno.test("LogQueue: a single disk fault loses no entry, and the journal recovers", async () => {
  await atEveryOperation("error", async (host, where) => {
    const cloud = new Cloud();
    const logged = await life(cloud, host);
    assertEquals(cloud.entries.map(({ message }) => message), logged, where);
    const next = await started(cloud, host.restart());
    await next.clock.advance(10_000);
    await next.queue.close();
    assertEquals(cloud.entries.length, logged.length, where);
    assertEquals(host.opened, 0, where);
  });
});

Deno.test("LogQueue: entries logged offline during a disk fault survive a restart", async () => {
  await atEveryOperation("error", async (host, where) => {
    const cloud = new Cloud();
    cloud.online = false;
    const first = await started(cloud, host);
    for (const message of names(0, 12)) {
      first.log(message);
      await first.clock.advance(400);
    }
    first.log("m12");
    await first.clock.advance(60_000);
    const next = await started(cloud, host.restart());
    cloud.online = true;
    await next.clock.advance(60_000);
    await next.queue.close();
    assertEquals(cloud.entries.map(({ message }) => message), names(0, 13), where);
    cloud.online = false;
    await first.queue.close();
  });
});

Deno.test("LogQueue: reports a full disk once, and reports once that it has room again", async () => {
  let fault: Fault | undefined = { kind: "error", share: 0.5 };
  const [cloud, host] = [new Cloud(), new FakeFiles(() => fault)];
  cloud.online = false;
  const { queue, clock, log, own } = await started(cloud, host);
  for (const message of names(0, 10)) {
    log(message);
    await clock.advance(1_000);
  }
  const disk = () => own().filter((message) => message.includes("disk"));
  assertEquals(disk().length, 1);
  fault = undefined;
  log("m10");
  assertEquals(disk().length, 2);
  await queue.close();
  assertEquals(host.opened, 0);
  cloud.online = true;
  const next = await started(cloud, host.restart());
  await next.clock.advance(10_000);
  await next.queue.close();
  assertEquals(cloud.messages, names(0, 11));
});

Deno.test("LogQueue: drops the oldest entries beyond its limit and sends a warning with their number", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  cloud.online = false;
  const { queue, clock, log } = await started(cloud, host, { ...SMALL, entries: 10 });
  for (const message of names(0, 1_000)) log(message);
  await clock.advance(5_000);
  assert(host.paths.length < 15, `${host.paths.length} segments`);
  cloud.online = true;
  await clock.advance(60_000);
  await queue.close();
  assertEquals(cloud.messages, names(990, 1_000));
  const reported = cloud.entries.filter(({ logger }) => logger === OWN);
  assertEquals(reported.map(({ level, message }) => [level, message]), [
    ["warn", "Overflowed 990 logs while offline. The oldest ones were dropped."],
  ]);
});

Deno.test("LogQueue: reports the number of dropped entries once, after restarts too", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  const limits = { ...SMALL, entries: 10 };
  const first = await started(cloud, host, limits);
  first.log("arrives");
  await first.clock.advance(500);
  cloud.online = false;
  for (const message of names(0, 500)) first.log(message);
  for (const restart of [1, 2, 3]) {
    cloud.online = restart > 1;
    const next = await started(cloud, host.restart(), limits);
    await next.clock.advance(60_000);
    await next.queue.close();
  }
  assertEquals(cloud.messages, ["arrives", ...names(490, 500)]);
  assertEquals(cloud.reported, 490);
  await first.queue.close();
});

Deno.test("LogQueue: a kill at any operation during an overflow still counts the missing entries", async () => {
  const limits = { ...SMALL, entries: 4 };
  await atEveryOperation("kill", async (host, where) => {
    const cloud = new Cloud();
    const logged = await life(cloud, host, limits);
    const next = await started(cloud, host.restart(), limits);
    await next.clock.advance(20_000);
    await next.queue.close();
    const missing = logged.filter((message) => !cloud.messages.includes(message));
    assert(
      missing.length <= cloud.reported + (host.dead ? 1 : 0),
      `${where}: ${missing} missing, ${cloud.reported} told`,
    );
    assertEquals(cloud.messages, logged.filter((message) => !missing.includes(message)), where);
  });
});

Deno.test("LogQueue: does not drop an entry during its sending", async () => {
  const clock = new FakeClock();
  const answers: (() => void)[] = [];
  const sent: QueuedLog[][] = [];
  const send = (batch: readonly QueuedLog[]) => {
    sent.push([...batch]);
    return new Promise<void>((resolve) => answers.push(resolve));
  };
  const logger = new Logs(clock, []).logger(OWN);
  const limits = { ...SMALL, entries: 5 };
  const queue = await LogQueue.open({ host: new FakeFiles(), clock, folder: FOLDER, send, logger, limits });
  const log = (message: string) =>
    queue.sink({ timeMs: 0, level: "info", logger: "rdk", message, fields: {} });
  names(0, 4).forEach(log);
  await clock.advance(100);
  names(4, 9).forEach(log);
  while (sent.flat().length < 6) {
    answers.shift()?.();
    await clock.advance(100);
  }
  answers.shift()?.();
  await queue.close();
  assertEquals(sent.flat().map(({ message }) => message.slice(0, 13)), [
    "m0",
    "m1",
    "m2",
    "m7",
    "m8",
    "Overflowed 4 ",
  ]);
});

Deno.test("LogQueue: limits the bytes of a batch and the characters of an entry", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  const limits = { batchBytes: 1_000, entryChars: 600 };
  const { queue, clock, log } = await started(cloud, host, limits);
  for (let index = 0; index < 4; index++) log("x".repeat(500));
  log("y".repeat(700), { fields: { z: "z".repeat(700) } });
  await clock.advance(1_000);
  await queue.close();
  assertEquals(cloud.batches.map((batch) => batch.length), [1, 1, 1, 1, 1]);
  const [last] = cloud.batches.at(-1)!;
  assertStringIncludes(last.message, "… (cut, it has 700 characters)");
  assertEquals(last.fields, { fields: "left out, they have 708 characters" });
});

Deno.test("LogQueue: entries carry all parts of a log line with masked secrets, except its own logger", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  const { queue, clock, log } = await started(cloud, host);
  log("own", { logger: OWN });
  log("x", { level: "warn", caller: "a/b.py:1", fields: { key: new Secret("s3cr3t"), n: 1n } });
  await clock.advance(1_000);
  await queue.close();
  const [{ id, ...entry }] = cloud.entries;
  assert(id !== "");
  const fields = { key: "******", n: "1" };
  const timeMs = 1_700_000_000_000;
  assertEquals([entry], [{ timeMs, level: "warn", logger: "rdk", caller: "a/b.py:1", message: "x", fields }]);
  assertEquals(host.paths.some((path) => host.text(path).includes("s3cr3t")), false);
});

Deno.test("LogQueue: retries after pauses of up to 30 s and logs a failure once", async () => {
  const cloud = new Cloud();
  cloud.online = false;
  const { queue, clock, log, own } = await started(cloud, new FakeFiles());
  const tries: number[] = [];
  const start = clock.nowMs();
  cloud.receive = (batch) => {
    tries.push((clock.nowMs() - start) / 1000);
    Cloud.prototype.receive.call(cloud, batch);
  };
  for (const message of names(0, 3)) log(message);
  await clock.advance(95_000);
  assertEquals(tries, [0, 1, 3, 7, 15, 31, 61, 91]);
  assertEquals(own(), ["logs do not reach the cloud: offline"]);
  cloud.online = true;
  await clock.advance(30_000);
  assertEquals(own().slice(1), ["logs reach the cloud again"]);
  await queue.close();
});

Deno.test("LogQueue: a busy receiver gets no logs earlier than it wants", async () => {
  const cloud = new Cloud();
  const { queue, clock, log } = await started(cloud, new FakeFiles());
  const tries: number[] = [];
  const start = clock.nowMs();
  cloud.receive = () => {
    tries.push((clock.nowMs() - start) / 1000);
    throw new SvcError("unavailable", "busy", { retryMs: 20_000 });
  };
  for (const message of names(0, 3)) log(message);
  await clock.advance(45_000);
  assertEquals(tries, [0, 20, 40]);
  await queue.close();
});

Deno.test("LogQueue: a receiver without an answer delays neither the next try nor close", async () => {
  const clock = new FakeClock();
  const signals: AbortSignal[] = [];
  const send = (_batch: readonly QueuedLog[], signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<void>(() => {});
  };
  const own: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(own)]).logger(OWN);
  const queue = await LogQueue.open({ host: new FakeFiles(), clock, folder: FOLDER, send, logger });
  queue.sink({ timeMs: 0, level: "info", logger: "rdk", message: "m", fields: {} });
  await clock.advance(5_200);
  assertEquals(signals.map(({ aborted }) => aborted), [true, false]);
  let closed = false;
  const closing = queue.close().then(() => closed = true);
  await clock.advance(10_000);
  assertEquals(closed, true);
  await closing;
  assertEquals(own.at(-1)!.message, "logs for the cloud are left for the next start");
  assertEquals(clock.pending, 0);
});

Deno.test("LogQueue: an unreadable journal is kept, and the queue works in memory", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  host.readFolder = () => Promise.reject(new Error("input/output error"));
  const { queue, clock, log, own } = await started(cloud, host);
  log("m0");
  await clock.advance(1_000);
  await queue.close();
  assertEquals(cloud.messages, ["m0"]);
  assertEquals(own(), ["logs for the cloud are kept in memory only: input/output error"]);
  assertEquals(host.operations, 0);
});

Deno.test("LogQueue: recovers the whole entries of a damaged journal", async () => {
  const [cloud, host] = [new Cloud(), new FakeFiles()];
  cloud.online = false;
  const first = await started(cloud, host);
  names(0, 3).forEach((message) => first.log(message));
  await first.queue.close();
  host.openAppend(`${FOLDER}/0000000000000000.jsonl`).append(
    new TextEncoder().encode('null\n7\n{"number":"x"}\n{}'),
  );
  host.openAppend(host.paths.at(-1)!).append(new Uint8Array([0, 0, 0, 0xff, 10]));
  host.openAppend(`${FOLDER}/notes.txt`).append(new TextEncoder().encode("not a segment"));
  cloud.online = true;
  const next = await started(cloud, host.restart());
  next.log("m3");
  await next.clock.advance(1_000);
  await next.queue.close();
  assertEquals(cloud.messages, names(0, 4));
  assertEquals(host.paths.includes(`${FOLDER}/notes.txt`), true);
});
