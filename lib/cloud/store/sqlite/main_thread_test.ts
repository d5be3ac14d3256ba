import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { settle, SystemClock } from "../../../base/clock.ts";
import { lookup } from "../lookups.ts";
import { MainThreadLookups, unboundedSteps } from "./main_thread.ts";

/** Time passes only by looking at it, each time as much as the test says. */
class CountedClock extends SystemClock {
  stepMs = 0;
  #nowMs = 0;

  override monotonicMs(): number {
    return this.#nowMs += this.stepMs;
  }
}

const BY_NAME = lookup("SELECT size FROM things WHERE name = ?");
const OF_COLOUR = lookup("SELECT name FROM things WHERE colour = ?", 2);

/** Things on a file that another connection writes to. */
async function withThings(
  run: (lookups: MainThreadLookups, writer: DatabaseSync, clock: CountedClock) => void | Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-store-" });
  const writer = new DatabaseSync(`${folder}/cloud.db`);
  writer.exec("PRAGMA journal_mode = WAL");
  writer.exec("CREATE TABLE things (name TEXT PRIMARY KEY, colour TEXT NOT NULL, size BIGINT NOT NULL)");
  writer.exec("CREATE INDEX things_by_colour ON things (colour)");
  writer.exec(
    "INSERT INTO things VALUES ('a', 'red', 1), ('b', 'red', 2), ('c', 'red', 3), ('d', 'blue', 4)",
  );
  const clock = new CountedClock();
  const lookups = new MainThreadLookups(`${folder}/cloud.db`, clock);
  try {
    await run(lookups, writer, clock);
  } finally {
    lookups.close();
    writer.close();
    await Deno.remove(folder, { recursive: true });
  }
}

const plain = (rows: readonly object[] | undefined) => rows?.map((row) => ({ ...row }));

Deno.test("MainThreadLookups: a lookup sees each commit, and none that is under way", () =>
  withThings((lookups, writer) => {
    const size = () => plain(lookups.read(BY_NAME, ["a"]));
    assertEquals(size(), [{ size: 1 }]);
    writer.exec("BEGIN IMMEDIATE; UPDATE things SET size = 10 WHERE name = 'a'");
    assertEquals(size(), [{ size: 1 }]);
    writer.exec("COMMIT");
    assertEquals(size(), [{ size: 10 }]);
    // It holds no snapshot in between, which would keep the write-ahead log from being emptied.
    assertEquals(writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()!.busy, 0);
  }));

Deno.test("MainThreadLookups: what may take long or fails is left to a process", () =>
  withThings((lookups) => {
    const read = (text: string, rowsMax = 10) => lookups.read(lookup(text, rowsMax), []);
    assertEquals(plain(lookups.read(OF_COLOUR, ["blue"])), [{ name: "d" }]);
    assertEquals(lookups.read(OF_COLOUR, ["red"]), undefined, "more rows than declared");
    assertEquals(read("SELECT name FROM things WHERE size = 1"), undefined, "a scan");
    assertEquals(
      read("SELECT DISTINCT size FROM things WHERE colour = 'red'"),
      undefined,
      "a table in between",
    );
    assertEquals(read("SELECT name FROM things WHERE colour > 'a'"), undefined, "a range");
    assertEquals(read("DELETE FROM things WHERE name = 'a' RETURNING name"), undefined, "a change");
    assertEquals(read("SELECT nothing FROM things WHERE name = 'a'"), undefined, "an error");
    lookups.close();
    assertEquals(lookups.read(BY_NAME, ["a"]), undefined, "closed");
  }));

Deno.test("MainThreadLookups: lookups have a share of each turn of the event loop, and of all time", () =>
  withThings(async (lookups, _writer, clock) => {
    const count = (tries: number) =>
      Array.from({ length: tries }, () => lookups.read(BY_NAME, ["a"])).filter((rows) => rows).length;
    clock.stepMs = 1;
    assertEquals(count(50), 10);
    await settle();
    assertEquals(count(50), 10, "the next turn has its own share");
    for (let turn = 0; turn < 10; turn++) await settle().then(() => count(1));
    // A disk on which each takes 40 ms: three are allowed, then they rest, and begin again.
    clock.stepMs = 40;
    const turns: number[] = [];
    for (let turn = 0; turn < 12; turn++) {
      await settle();
      turns.push(count(1));
    }
    assertEquals(turns, [1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0]);
  }));

Deno.test("MainThreadLookups: a file that cannot be opened is left to a process", () => {
  const lookups = new MainThreadLookups("/nowhere/cloud.db", new SystemClock());
  assertEquals(lookups.read(BY_NAME, ["a"]), undefined);
  lookups.close();
});

Deno.test("unboundedSteps: names the steps that are no search by an index with equal values", () => {
  const text = "WITH RECURSIVE above (id, level) AS (SELECT …) SELECT id FROM above";
  assertEquals(
    unboundedSteps(text, [
      "CO-ROUTINE above",
      "SETUP",
      "SCAN CONSTANT ROW",
      "RECURSIVE STEP",
      "SCAN above",
      "SEARCH l USING INDEX sqlite_autoindex_locations_1 (id=?)",
      "SEARCH g USING COVERING INDEX grants_by_resource (kind=? AND resource_id=?) LEFT-JOIN",
      "CORRELATED SCALAR SUBQUERY 3",
    ]),
    [],
  );
  const others = [
    "SCAN locations",
    "SEARCH l USING AUTOMATIC COVERING INDEX (id=?)",
    "SEARCH l USING INDEX by_time (part_id=? AND at_ms>?)",
    "USE TEMP B-TREE FOR ORDER BY",
    "SEARCH l USING INTEGER PRIMARY KEY (rowid>?)",
  ];
  assertEquals(unboundedSteps(text, others), others);
});
