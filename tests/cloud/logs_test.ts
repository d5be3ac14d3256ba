/**
 * Logs of machines: each entry once and in order, for 30 days, to be searched and followed.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { create, type JsonObject, type MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { LogOrder } from "../../proto/gen/app_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { LogStore } from "../../lib/cloud/logs/logs.ts";
import { svcCloud } from "./program.ts";
import { sqliteTest, storeTest, type TestDatabase } from "./stores.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { newWorld, ownKey, withCloud } from "./world.ts";
import { until } from "../support/until.ts";

const DAY_MS = 24 * 3600 * 1000;
const START_MS = 1_700_000_000_000;

type Entry = MessageInitShape<typeof LogEntrySchema>;

function entry(number: number, more: Partial<Entry> = {}): Entry {
  return {
    message: `message ${number}`,
    level: "info",
    loggerName: "rdk.motor",
    time: toTimestamp(START_MS + number),
    ...more,
  } as Entry;
}

function entries(from: number, to: number): Entry[] {
  return Array.from({ length: to - from + 1 }, (_, index) => entry(from + index));
}

const messages = (logs: readonly { message: string }[]) =>
  logs.map(({ message }) => message.replace("message ", ""));

storeTest(
  "an entry without a caller gets an empty one, which the published Python library writes to files",
  (database) => {
    const clock = new FakeClock(START_MS);
    return withCloud(database, async ({ store, app, robot }) => {
      const { owner, machine, part: id } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
      const caller = { Defined: true, File: "/src/arm.go", Line: 7 };
      await rover.log({ id, logs: [entry(1), { ...entry(2), caller }] });
      const { logs } = await people.getRobotPartLogs({ id, order: LogOrder.ASCENDING });
      assertEquals(logs.map((one) => one.caller), [{ Defined: false, File: "", Line: 0 }, caller]);
    }, { clock });
  },
);

storeTest("repeated entries are stored once, in order of arrival", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    await rover.log({ id, logs: entries(1, 3) });
    await rover.log({ id, logs: entries(1, 5) });
    await rover.log({ id, logs: [entry(6), entry(6)] });
    await rover.log({ id, logs: [entry(6), entry(6)] });
    const { logs } = await people.getRobotPartLogs({ id, order: LogOrder.ASCENDING });
    assertEquals(messages(logs), ["1", "2", "3", "4", "5", "6", "6"]);
    assertEquals(logs[0].loggerName, "rdk.motor");
    assertEquals(messages((await people.getRobotPartLogs({ id, limit: 2n })).logs), ["6", "6"]);
  }, { clock });
});

storeTest("GetRobotPartLogs pages through every entry once", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    await rover.log({ id, logs: entries(1, 1050) });
    const found: string[] = [];
    let pageToken = "";
    let pages = 0;
    do {
      const page = await people.getRobotPartLogs({ id, pageToken });
      found.push(...messages(page.logs));
      pageToken = page.nextPageToken;
      pages++;
    } while (pageToken !== "");
    assertEquals(found, messages(entries(1, 1050) as { message: string }[]).reverse());
    assertEquals(pages, 11);
  }, { clock });
});

storeTest("a page ends where an answer is full, and no number of entries makes it larger", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    await rover.log({ id, logs: entries(1, 150) });
    const most = async (limit: bigint) => (await people.getRobotPartLogs({ id, limit })).logs.length;
    assertEquals([await most(0n), await most(-1n), await most(-1000n), await most(7n)], [100, 100, 100, 7]);
    // Seven million characters an entry: two fit into one answer.
    for (let number = 1; number <= 5; number++) {
      await rover.log({ id, logs: [entry(150 + number, { fields: [{ long: "x".repeat(7_000_000) }] })] });
    }
    const counts: number[] = [];
    let pageToken = "";
    do {
      const page = await people.getRobotPartLogs({ id, limit: 200n, pageToken });
      counts.push(page.logs.length);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    assertEquals(counts, [2, 2, 151]);
  }, { clock });
});

storeTest(
  "a search through many entries finds them in order, page by page, and ends with its caller",
  (database) => {
    const clock = new FakeClock(START_MS);
    return withCloud(database, async ({ store, app, robot }) => {
      const { owner, machine, part: id } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
      await rover.log({ id, logs: entries(1, 5_000) });
      const wanted = Array.from({ length: 50 }, (_, index) => String(100 * (index + 1)));
      const found = async (order: LogOrder) => {
        const all: string[] = [];
        let pageToken = "";
        do {
          const page = await people.getRobotPartLogs({ id, filter: "00", limit: 7n, order, pageToken });
          all.push(...messages(page.logs));
          pageToken = page.nextPageToken;
        } while (pageToken !== "");
        return all.filter((message) => message.endsWith("00"));
      };
      assertEquals(await found(LogOrder.ASCENDING), wanted);
      assertEquals(await found(LogOrder.UNSPECIFIED), wanted.toReversed());
      for (
        const search of [{ filter: "x".repeat(10_001) }, { source: "x".repeat(10_001) }, {
          levels: Array(101).fill("x"),
        }]
      ) {
        await assertRejects(() => people.getRobotPartLogs({ id, ...search }), SvcError, "wanted at most");
      }
      const over = new AbortController();
      over.abort(new SvcError("canceled", "gone"));
      const query = { filter: "nothing", limit: 10, order: "newest first" } as const;
      const logs = new LogStore(store, clock);
      assertEquals((await logs.find(id, query)).entries, []);
      await assertRejects(() => logs.find(id, query, over.signal), SvcError, "gone");
    }, { clock });
  },
);

storeTest("GetRobotPartLogs searches by text without case, by level, logger and time", (database) => {
  const clock = new FakeClock(START_MS + 10);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    await rover.log({
      id,
      logs: [
        entry(1, { message: "Motor STALLED at 100%", level: "Error" }),
        entry(2, { message: "all is well", fields: [{ Key: "pin_a", Type: 15, String: "Ünder" }] }),
        entry(3, { message: "1000 things", loggerName: "rdk.camera", level: "warn" }),
      ],
    });
    const find = async (query: Record<string, unknown>) =>
      (await people.getRobotPartLogs({ id, ...query })).logs.map(({ message }) => message.slice(0, 3))
        .reverse();
    assertEquals(await find({ filter: "motor stalled" }), ["Mot"]);
    assertEquals(await find({ filter: "100%" }), ["Mot"]);
    assertEquals(await find({ filter: "pin_a" }), ["all"]);
    assertEquals(await find({ filter: "ünder" }), ["all"]);
    assertEquals(await find({ filter: "nothing" }), []);
    // How fields travel is nothing that anybody wrote.
    assertEquals(await find({ filter: "Type" }), []);
    assertEquals(await find({ filter: "String" }), []);
    assertEquals(await find({ levels: ["warn", "ERROR"] }), ["Mot", "100"]);
    assertEquals(await find({ errorsOnly: true }), ["Mot"]);
    assertEquals(await find({ source: "camera" }), ["100"]);
    assertEquals(await find({ start: toTimestamp(START_MS + 2), end: toTimestamp(START_MS + 2) }), ["all"]);
    assertEquals(await find({ range: "8ms" }), ["all", "100"]);
  }, { clock });
});

storeTest("logs are in the order of their times, however they came, on all pages", (database) => {
  const clock = new FakeClock(START_MS + 10);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    // The agent was offline; what it logged comes after the lines of the server.
    await rover.log({ id, logs: [entry(4), entry(6), entry(2)] });
    await rover.log({ id, logs: [entry(5), entry(1), entry(3), entry(3, { message: "message 3b" })] });
    const sorted = ["1", "2", "3", "3b", "4", "5", "6"];
    const all = async (order?: LogOrder) => {
      const found: string[] = [];
      for (let pageToken = "";;) {
        const page = await people.getRobotPartLogs({ id, order, pageToken, limit: 2n });
        found.push(...messages(page.logs));
        if (page.nextPageToken === "") return found;
        pageToken = page.nextPageToken;
      }
    };
    assertEquals(await all(LogOrder.ASCENDING), sorted);
    assertEquals(await all(), sorted.toReversed());
    for (const pageToken of ["6", "x", "1:2:3"]) {
      await assertRejects(
        () => people.getRobotPartLogs({ id, pageToken }),
        SvcError,
        "wanted one from an earlier page",
      );
    }
  }, { clock });
});

storeTest("a range of logs is the time from its start on, until its end, or until now", (database) => {
  const clock = new FakeClock(START_MS + 20 * DAY_MS);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    const days = (number: number) => toTimestamp(START_MS + number * DAY_MS);
    const logs = Array.from({ length: 20 }, (_, day) => entry(day, { time: days(day) }));
    await rover.log({ id, logs });
    const find = async (query: Record<string, unknown>) =>
      messages((await people.getRobotPartLogs({ id, ...query, order: LogOrder.ASCENDING })).logs).join(" ");
    assertEquals(await find({ range: "48h" }), "18 19");
    assertEquals(await find({ range: "3d" }), "17 18 19");
    assertEquals(await find({ range: "1d12h", end: days(5) }), "4 5");
    assertEquals(await find({ range: "1.5d", start: days(5) }), "5 6");
    assertEquals(await find({ start: days(5), end: days(6) }), "5 6");
    for (const query of [{ range: "1d", start: days(1), end: days(2) }, { range: "d" }, { range: "-1d" }]) {
      await assertRejects(() => find(query), SvcError, "found ");
    }
  }, { clock });
});

storeTest(
  "a limit of logs that is none is the default, and a filter that is too long is refused",
  (database) => {
    const clock = new FakeClock(START_MS + 200);
    return withCloud(database, async ({ store, app, robot }) => {
      const { owner, machine, part: id } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
      await rover.log({ id, logs: entries(1, 150) });
      for (const limit of [undefined, 0n, -1n, -5n]) {
        assertEquals((await people.getRobotPartLogs({ id, limit })).logs.length, 100);
      }
      const find = (filter: string) => people.getRobotPartLogs({ id, filter });
      assertEquals((await find("ツ".repeat(256))).logs, []);
      await assertRejects(() => find("x".repeat(257)), SvcError, "filter has 257 letters");
      await assertRejects(() => people.getRobotPartLogs({ id, source: "x".repeat(257) }), SvcError, "256");
    }, { clock });
  },
);

storeTest("of a long entry the beginning is searched, also if all of it is stored", (database) => {
  const clock = new FakeClock(START_MS + 200);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    const long = `Begin ${"x".repeat(1_000_000)} end`;
    await rover.log({
      id,
      logs: [entry(1, { message: long }), entry(2, { message: "the end, 100% of it" })],
    });
    const find = async (filter: string) =>
      (await people.getRobotPartLogs({ id, filter })).logs.map(({ message }) => message.length);
    for (const stored of ["the beginning", "all"]) {
      if (stored === "all") {
        await store.transaction((sql) =>
          sql.query("UPDATE logs SET words = ? WHERE number = 1", long.toLowerCase())
        );
      }
      assertEquals(await find("BEGIN x"), [long.length], stored);
      assertEquals(await find("end"), [19], stored);
      assertEquals(await find("0% of"), [19], stored);
      assertEquals(await find("0%_of"), [], stored);
    }
  }, { clock });
});

storeTest(
  "a time that no timestamp may have is that of the arrival, and every bound is taken",
  (database) => {
    const clock = new FakeClock(START_MS + 10);
    return withCloud(database, async ({ store, app, robot }) => {
      const { owner, machine, part: id } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
      const never = [2n ** 62n, -(2n ** 62n), 253402300800n].map((seconds) => ({ seconds, nanos: 0 }));
      await rover.log({ id, logs: [entry(1), ...never.map((time) => entry(2, { time })), entry(20)] });
      await rover.log({ id, logs: never.map((time) => entry(2, { time })) });
      const { logs } = await people.getRobotPartLogs({ id, order: LogOrder.ASCENDING });
      assertEquals(messages(logs), ["1", "2", "2", "2", "20"]);
      assertEquals(logs[1].time!.seconds, BigInt(Math.floor(START_MS / 1000)));
      const between = { id, start: never[1], end: never[0] };
      assertEquals((await people.getRobotPartLogs(between)).logs.length, 5);
      assertEquals((await people.getRobotPartHistory(between)).history, []);
      const start = { seconds: BigInt(START_MS / 1000), nanos: 123_456_789 };
      assertEquals((await people.getRobotPartHistory({ id, start })).history, []);
      await assertRejects(() => people.getRobotPartLogs({ id: "\0" }), SvcError);
      const zero = people.getRobotPartLogs({ id, levels: ["\0"] });
      const answer = await zero.then(({ logs }) => logs, (error: SvcError) => error.code);
      assertEquals(answer, database.kind === "sqlite" ? [] : "invalid_argument");
    }, { clock });
  },
);

storeTest("an entry that is sent again with its fields in another order is kept once", (database) => {
  const clock = new FakeClock(START_MS + 10);
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
    await rover.log({ id, logs: [entry(1, { fields: [{ Key: "pin", Type: 15, String: "a7" }] })] });
    await rover.log({ id, logs: [entry(1, { fields: [{ String: "a7", Type: 15, Key: "pin" }] })] });
    assertEquals((await people.getRobotPartLogs({ id })).logs.length, 1);
  }, { clock });
});

storeTest(
  "log entries expire after 30 days, first in answers and then in the database",
  (database) => expireAfter(database, 30),
);
storeTest("log entries expire after as many days as log_days says", (database) => expireAfter(database, 2));

function expireAfter(database: TestDatabase, logDays: number): Promise<void> {
  const clock = new FakeClock(START_MS);
  const limits = { ...defaultLimits(), logDays };
  return withCloud(database, async ({ store, app, robot }) => {
    const { owner, machine, part: id } = await newWorld(store);
    // A token is good for some hours: each day has its own.
    const [people, rover] = [() => app(owner), async () => robot(await ownKey(store, { machine }))];
    const count = async () => (await store.query<{ n: number }>("SELECT COUNT(*) AS n FROM logs"))[0].n;
    await (await rover()).log({ id, logs: entries(1, 3) });
    await clock.advance((logDays - 1) * DAY_MS);
    await (await rover()).log({ id, logs: entries(4, 4) });
    assertEquals((await (await people()).getRobotPartLogs({ id })).logs.length, 4);
    await clock.advance(DAY_MS + 1);
    assertEquals(messages((await (await people()).getRobotPartLogs({ id })).logs), ["4"]);
    await new LogStore(store, clock, limits).forgetOld();
    assertEquals(await count(), 1);
  }, { clock, limits });
}

storeTest(
  "a follower gets new entries, also through another control plane",
  (database) =>
    withCloud(database, async ({ store, app, robot }) => {
      const { owner, machine, part: id, organization: organizationId } = await newWorld(store);
      const [people, rover] = [await app(owner), await robot(await ownKey(store, { machine }))];
      await rover.log({ id, logs: entries(1, 2) });
      const heard: string[] = [];
      const stop = new AbortController();
      const elsewhere = new LogStore(await database.open(), new SystemClock());
      const following = (async () => {
        for await (
          const { logs } of people.tailRobotPartLogs({ id, filter: "message" }, { signal: stop.signal })
        ) {
          heard.push(...messages(logs));
          if (heard.at(-1) === "24") {
            await elsewhere.add(
              { id, organizationId },
              entries(30, 31).map((one) => create(LogEntrySchema, one)),
              Date.now(),
            );
          }
          if (heard.at(-1) === "31") stop.abort(new SvcError("canceled", "enough"));
        }
      })();
      // It begins with the entries after the request, at a moment that only it knows.
      let number = 100;
      await until(async () => {
        await rover.log({ id, logs: [entry(number++)] });
        return heard.length > 0;
      });
      await rover.log({ id, logs: [entry(20, { message: "something else" }), ...entries(21, 24)] });
      await assertRejects(() => following);
      assertEquals(heard.slice(-6), ["21", "22", "23", "24", "30", "31"]);
      assert(!heard.includes("1"));
    }),
);

storeTest("a follower that is far behind gets every entry once, in order", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async ({ store, robot }) => {
    const { machine, part: id } = await newWorld(store);
    const rover = await robot(await ownKey(store, { machine }));
    await rover.log({ id, logs: entries(1, 1_050) });
    const stop = new AbortController();
    const heard: string[] = [];
    for await (const some of new LogStore(store, clock).follow(id, { after: 0 }, stop.signal)) {
      if (heard.length === 0) await rover.log({ id, logs: [entry(1_051)] });
      heard.push(...messages(some));
      if (heard.at(-1) === "1051") break;
    }
    assertEquals(heard, messages(entries(1, 1_051) as { message: string }[]));
  }, { clock });
});

sqliteTest(
  "logs prints the fields that it searches, and refuses invalid levels and numbers",
  async (database) => {
    const store = await database.open();
    const { part, organization: organizationId } = await newWorld(store);
    const nowMs = Date.now();
    const fields: JsonObject[] = [{ Key: "pin", Type: 15, String: "a7" }, {
      Key: "tries",
      Type: 11,
      Integer: 3,
    }];
    const logs = [entry(1, { message: "stalled", level: "warn", fields }), entry(2)];
    await new LogStore(store, new SystemClock()).add(
      { id: part, organizationId },
      logs.map((one) => create(LogEntrySchema, one)),
      nowMs,
    );
    const print = (...more: string[]) => svcCloud("logs", part, ...more, ...database.flags);
    const stalled = '\tWARN\trdk.motor\tstalled\t{"pin":"a7","tries":3}\n';
    for (const flags of [["--filter", "A7"], ["--level", "warn"], ["--level", "WARNING"]]) {
      assertEquals((await print(...flags)).replace(/^[^\t]+/, ""), stalled);
    }
    const { entries: [only] } = JSON.parse(await print("--filter", '"tries":3', "--json"));
    assertEquals(only.fields, { pin: "a7", tries: 3 });
    await assertRejects(
      () => print("--level", "loud"),
      Error,
      '--level: found "loud", wanted one of debug, info',
    );
    await assertRejects(() => print("--limit", "-1"), Error, "--limit: found -1, wanted 1 or more");
  },
);
