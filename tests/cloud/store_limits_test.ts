/**
 * The limits of the store: deadlines of statements, the end of a process that runs them, fair turns.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import type { PipedProcess } from "../../lib/base/process.ts";
import { STATEMENT_MS } from "../../lib/cloud/store/callers.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import { until } from "../support/until.ts";
import { sharedStoreTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { connect } from "../../lib/cloud/store/open_store.ts";

const ENDLESS = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c";

/** The system's time; the deadlines of statements pass when the test says so. */
class HandClock extends SystemClock {
  readonly #deadlines = new Set<() => void>();
  /** How much later it is than the system says. */
  aheadMs = 0;

  override monotonicMs(): number {
    return super.monotonicMs() + this.aheadMs;
  }

  override after(ms: number, run: () => void): () => void {
    if (ms !== STATEMENT_MS) return super.after(ms, run);
    this.#deadlines.add(run);
    return () => this.#deadlines.delete(run);
  }

  get pending(): number {
    return this.#deadlines.size;
  }

  /** The deadlines of all running statements pass. */
  pass(): void {
    for (const run of [...this.#deadlines]) {
      this.#deadlines.delete(run);
      run();
    }
  }
}

interface LimitsBench {
  readonly store: Store;
  readonly clock: HandClock;
  /** Every process so far. */
  readonly processes: PipedProcess[];
  /** Messages to the processes so far. */
  readonly trips: () => number;
  /** The same file as another program has it; its owner closes it. */
  connect(): Store;
  /** What later processes are sent arrives when the returned function is called. */
  hold(): () => void;
}

function limitsTest(name: string, run: (bench: LimitsBench) => Promise<void>): void {
  Deno.test(name, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-store-" });
    const clock = new HandClock();
    const processes: PipedProcess[] = [];
    const { file, start } = sqliteIn(`${folder}/cloud.db`, new DenoHost());
    let trips = 0;
    let free = Promise.resolve();
    const counted = () => {
      const process = start();
      const write = process.write.bind(process);
      const isFree = free;
      process.write = async (bytes) => {
        trips++;
        await isFree;
        return await write(bytes);
      };
      processes.push(process);
      return process;
    };
    const store = connect({ sqlite: { file, start: counted } }, clock);
    try {
      await store.transaction((sql) => sql.query("CREATE TABLE names (name TEXT PRIMARY KEY)"));
      const connectAgain = () => connect({ sqlite: { file, start } }, new SystemClock());
      const hold = () => {
        const held = Promise.withResolvers<void>();
        free = held.promise;
        return held.resolve;
      };
      await run({ store, clock, processes, trips: () => trips, connect: connectAgain, hold });
    } finally {
      await store.close();
      await Deno.remove(folder, { recursive: true });
    }
  });
}

/** Takes a second or less. */
const SLOW = `WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 3000000)
  SELECT COUNT(*) AS amount FROM counted`;
const insert = (sql: Sql, name: string) => sql.query("INSERT INTO names (name) VALUES (?)", name);
const names = async (sql: Sql) =>
  (await sql.query<{ name: string }>("SELECT name FROM names ORDER BY name")).map(({ name }) => name);
limitsTest(
  "SqliteStore: a reading statement is interrupted at its deadline, and others go on",
  async (bench) => {
    const { store, clock, processes } = bench;
    const endless = store.query(ENDLESS);
    endless.catch(() => {});
    assertEquals(await names(store), [], "another reader answers meanwhile");
    assertEquals(clock.pending, 1);
    clock.pass();
    const error = await assertRejects(
      () => endless,
      SvcError,
      "was interrupted: ask for less (WITH RECURSIVE",
    );
    assertEquals(error.code, "deadline_exceeded");
    assertEquals((await processes[1].exited).signal, "SIGKILL");
    assertEquals(await names(store), []);
  },
);

limitsTest(
  "SqliteStore: an interrupted change fails alone; the others of its commit are kept, once",
  async (bench) => {
    const { store, clock } = bench;
    const begun = Promise.withResolvers<void>();
    const stuck = store.transaction(async (sql) => {
      await insert(sql, "b");
      const endless = sql.query(ENDLESS);
      begun.resolve();
      await endless;
    });
    let runs = 0;
    const first = store.transaction(async (sql) => {
      runs++;
      return await insert(sql, "a");
    });
    const last = store.transaction((sql) => insert(sql, "c"));
    await begun.promise;
    clock.pass();
    assertEquals(await awaitOutcome(stuck), "deadline_exceeded");
    await Promise.all([first, last]);
    assertEquals(await names(store), ["a", "c"]);
    assert(runs >= 1);
  },
);

limitsTest(
  "SqliteStore: the end of a process loses no acknowledged change and no other caller",
  async (bench) => {
    const { store, processes } = bench;
    await store.transaction((sql) => insert(sql, "a"));
    const begun = Promise.withResolvers<void>();
    const stuck = store.transaction(async (sql) => {
      await insert(sql, "b");
      const endless = sql.query(ENDLESS);
      begun.resolve();
      await endless;
    });
    const other = store.transaction((sql) => insert(sql, "c"));
    await begun.promise;
    processes[0].signal("SIGKILL");
    const error = await assertRejects(() => stuck, SvcError, "ended while it ran WITH RECURSIVE");
    assertEquals(error.code, "unavailable");
    await other;
    assertEquals(await names(store), ["a", "c"]);
    // A reader that ends while nobody needs it is replaced, too.
    const reader = processes.at(-1)!;
    reader.signal("SIGKILL");
    await reader.exited;
    await until(async () => (await names(store).catch(() => [])).length === 2);
  },
);

limitsTest(
  "SqliteStore: a batch that is interrupted fails alone; the others of its commit are kept, once",
  async (bench) => {
    const { store, clock } = bench;
    const add = (name: string) => ({ text: "INSERT INTO names (name) VALUES (?)", values: [name] });
    const begun = Promise.withResolvers<void>();
    const stuck = store.transaction(async (sql) => {
      await insert(sql, "b");
      const endless = sql.query(ENDLESS);
      begun.resolve();
      await endless;
    });
    const batches = [store.batch([add("a"), add("c")]), store.batch([add("d")])];
    await begun.promise;
    clock.pass();
    assertEquals(await awaitOutcome(stuck), "deadline_exceeded");
    assertEquals(await Promise.all(batches), [[], []]);
    assertEquals(await names(store), ["a", "c", "d"]);
  },
);

limitsTest(
  "SqliteStore: batches, their beginning and their commit are one trip; none is lost or doubled if it cannot begin",
  async ({ store, processes, trips, connect }) => {
    const add = (name: string) => ({ text: "INSERT INTO names (name) VALUES (?)", values: [name] });
    await store.batch([add("a")]);
    const before = trips();
    await Promise.all([store.batch([add("b"), add("c")]), store.batch([add("d")])]);
    assertEquals(trips() - before, 1);

    // Another program has the file.
    const other = connect();
    const [begun, enough] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = other.transaction(async (sql) => {
      await insert(sql, "e");
      begun.resolve();
      await enough.promise;
    });
    await begun.promise;
    const waiting = [
      store.batch([add("f")]),
      store.transaction((sql) => insert(sql, "g")),
      store.batch([add("h")]),
    ];
    const refused = assertRejects(() => store.batch([add("i"), add("a")]), SvcError);
    // The batches were refused and wait again.
    await until(() => trips() - before > 3);
    enough.resolve();
    await Promise.all([holding, ...waiting, refused]);
    await other.close();
    assertEquals(await names(store), ["a", "b", "c", "d", "e", "f", "g", "h"]);

    // The process ends before it has read anything.
    processes[0].signal("SIGKILL");
    await Promise.all([store.batch([add("j")]), store.batch([add("k")])]);
    assertEquals((await names(store)).slice(-2), ["j", "k"]);
  },
);

limitsTest(
  "SqliteStore: what a call asks at once is one trip, and each statement has its own outcome",
  async (bench) => {
    const { store, processes, trips } = bench;
    await store.transaction((sql) => insert(sql, "a"));
    const long =
      "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9000) SELECT * FROM c";
    const ask = () => {
      const all = ["SELECT name FROM names", "SELECT wrong", long, "SELECT 1 AS one WHERE 1 = 2"];
      return store.forCaller(
        { group: "one" },
        () => Promise.allSettled(all.map((text) => store.query(text))),
      );
    };
    await ask();
    const before = trips();
    const [found, wrong, rows, none] = await ask();
    assertEquals([trips() - before, processes.length], [1, 2], "one message to the only reader");
    assertEquals(found, { status: "fulfilled", value: [{ name: "a" }] });
    assertEquals(wrong.status, "rejected");
    assert(rows.status === "fulfilled" && rows.value.length === 9000);
    assertEquals(none, { status: "fulfilled", value: [] });

    const others = await Promise.all(
      ["x", "y"].map((group) => store.forCaller({ group }, () => Promise.all([names(store), names(store)]))),
    );
    assertEquals(others, [[["a"], ["a"]], [["a"], ["a"]]]);
  },
);

limitsTest(
  "SqliteStore: a slow statement delays the others of its call, and takes none with it",
  async (bench) => {
    const { store, clock } = bench;
    const [endless, others] = store.forCaller(
      { group: "one" },
      () => [store.query(ENDLESS), Promise.all([names(store), names(store)])] as const,
    );
    endless.catch(() => {});
    await until(() => clock.pending === 1);
    clock.pass();
    assertEquals(await others, [[], []]);
    await until(() => clock.pending === 1);
    clock.pass();
    assertEquals(await awaitOutcome(endless), "deadline_exceeded");
  },
);

limitsTest(
  "SqliteStore: no statement waits for a process that is starting while another one is free",
  async ({ store, processes, hold }) => {
    assertEquals([await names(store), processes.length], [[], 2]);
    const release = hold();
    const slow = store.query(SLOW);
    const behind = [names(store)];
    await until(() => processes.length === 3);
    for (let more = 0; more < 5; more++) behind.push(names(store));
    assertEquals(await slow, [{ amount: 3_000_000 }]);
    assertEquals(await Promise.all(behind), Array(6).fill([]));
    release();
    // From now on it answers, too.
    await store.forCaller({ group: "slow" }, async () => {
      const slow = store.query(SLOW);
      assertEquals(await store.forCaller({ group: "other" }, () => names(store)), []);
      await slow;
    });
    assertEquals(processes.length, 3);
  },
);

limitsTest("SqliteStore: one group never occupies every reader", async ({ store, processes }) => {
  const slow = Array.from(
    { length: 8 },
    () =>
      store.forCaller(
        { group: "slow" },
        () => store.query(ENDLESS).catch((error) => SvcError.from(error).code),
      ),
  );
  for (let turn = 0; turn < 20; turn++) {
    assertEquals(await store.forCaller({ group: "other" }, () => names(store)), []);
  }
  assert(processes.length > 3, "a writer, two slow readers and one for the others");
  await store.close();
  assertEquals(new Set<unknown>(await Promise.all(slow)), new Set(["unavailable"]));
});

limitsTest("SqliteStore: a statement that has waited for more than a minute is refused", async (bench) => {
  const { store, clock } = bench;
  const ask = (text: string) => store.forCaller({ group: "slow" }, () => store.query(text));
  const endless = [ENDLESS, ENDLESS].map(ask), behind = ask("SELECT 1");
  for (const one of [...endless, behind]) one.catch(() => {});
  await until(() => clock.pending === 2);
  clock.aheadMs = 61_000;
  clock.pass();
  const error = await assertRejects(() => behind, SvcError);
  assertMatch(error.message, /^database: the statement waited 6\d s for its turn: try again later$/);
  assertEquals(error.code, "unavailable");
});

limitsTest("SqliteStore: a caller that has gone gives up what waits, and still cleans up", async (bench) => {
  const { store, clock } = bench;
  const gone = new AbortController();
  const ask = <T>(work: () => Promise<T>) => store.forCaller({ group: "slow", signal: gone.signal }, work);
  const waiting = [ENDLESS, ENDLESS, "SELECT 1"].map((text) => ask(() => store.query(text)));
  for (const one of waiting) one.catch(() => {});
  const late = ask(async () => {
    await new Promise((resolve) => gone.signal.addEventListener("abort", resolve));
    return await names(store);
  });
  await until(() => clock.pending === 2);
  gone.abort(new SvcError("canceled", "gone"));
  clock.pass();
  const codes = await Promise.all(waiting.map(awaitOutcome));
  assertEquals(codes, ["deadline_exceeded", "deadline_exceeded", "canceled"]);
  assertEquals(await late, []);
});

sharedStoreTest("a statement that takes too long ends with deadline_exceeded", async ({ open }) => {
  const store = await open();
  const slow = store.transaction(async (sql) => {
    await sql.query("SET LOCAL statement_timeout = 20");
    await sql.query("SELECT pg_sleep(60)");
  });
  assertEquals(await awaitOutcome(slow), "deadline_exceeded");
});
