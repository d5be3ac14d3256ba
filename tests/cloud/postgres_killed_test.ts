/** PostgreSQL is killed, whole or one of its processes: control planes go on without a restart. */

import { assert, assertEquals } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { needingTest } from "../support/needing.ts";
import { neededPostgres, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { connect } from "../../lib/cloud/store/open_store.ts";

const clock = new SystemClock();
const needed = neededPostgres();

needingTest(
  "control planes hear each other again after PostgreSQL was killed and stayed away for a while",
  needed,
  async () => {
    const server = startPostgres();
    const url = `postgres://svc@127.0.0.1:${server.port}/postgres`;
    const [one, other] = [connect({ url }, clock), connect({ url }, clock)];
    const keys = { valid: () => Promise.resolve(["secret"]), warn: () => {} };
    for (const store of [one, other]) store.notices.useKeys(keys);
    const heard: string[] = [];
    let missed = 0;
    const outcome = () => awaitOutcome(one.query("SELECT 1 AS answer"));
    try {
      const stop = await other.notices.hear("changes", (text) => void heard.push(text), () => void missed++);
      await one.notices.tell("changes", "before");
      await until(() => heard.includes("before"));

      server.kill();
      // Several tries to connect are refused.
      for (let refused = 0; refused < 5; refused++) {
        await until(async () => {
          const found = await outcome();
          assert(["ok", "unavailable"].includes(found), found);
          return found === "unavailable";
        });
      }
      await server.start();
      await until(async () => await outcome() === "ok");
      await until(() => missed >= 1);
      await one.notices.tell("changes", "after");
      await until(() => heard.includes("after"));

      const [{ pid }] = await one.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      const before = missed;
      Deno.kill(pid, "SIGKILL");
      await until(() => missed > before, {
        meanwhile: async () => {
          const found = await outcome();
          assert(["ok", "unavailable"].includes(found), found);
        },
      });
      await until(async () => await outcome() === "ok");
      await one.notices.tell("changes", "at last");
      await until(() => heard.includes("at last"));
      assertEquals(heard, ["before", "after", "at last"]);
      await stop();
    } finally {
      await Promise.all([one.close(), other.close()]);
      server.stop();
    }
  },
);

needingTest(
  "processes of PostgreSQL die under transactions: each is stored whole or not at all, and none stops the program",
  needed,
  async () => {
    const server = startPostgres();
    const url = `postgres://svc@127.0.0.1:${server.port}/postgres`;
    const [store, killer] = [connect({ url }, clock), connect({ url }, clock)];
    const stored = new Set<string>();
    const kinds = new Set<string>();
    let isOver = false;

    const write = async (writer: number) => {
      for (let count = 0; !isOver; count++) {
        const id = `${writer}-${count}`;
        try {
          await store.transaction(async (sql) => {
            await sql.query("INSERT INTO pairs (id, half) VALUES (?, 1)", id);
            // One whose work goes on while its connection dies, and one that hides a failure.
            if (count % 3 === 0) await clock.sleep(1);
            const second = sql.query("INSERT INTO pairs (id, half) VALUES (?, 2)", id);
            await (count % 3 === 1 ? second.catch(() => sql.query("SELECT 1")) : second);
          });
          stored.add(id);
          kinds.add("ok");
        } catch (error) {
          kinds.add(SvcError.from(error).code);
        }
      }
    };

    try {
      await store.exclusive((sql) =>
        sql.query("CREATE TABLE pairs (id TEXT, half BIGINT, PRIMARY KEY (id, half))")
      );
      const writers = Array.from({ length: 8 }, (_, writer) => write(writer));
      for (let kill = 0; kill < 10; kill++) {
        const before = stored.size;
        await until(() => stored.size > before + 20);
        const processes = await store.query<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity WHERE application_name = 'svc-cloud' AND state <> 'idle'
             AND pid <> pg_backend_pid()`,
        ).catch(() => []);
        if (processes.length === 0) continue;
        // One connection ends with a farewell; and with the death of a process, all connections end.
        const { pid } = processes[kill % processes.length];
        if (kill % 2 === 0) Deno.kill(pid, "SIGKILL");
        else await killer.query("SELECT pg_terminate_backend(?)", pid).catch(() => {});
      }
      isOver = true;
      await Promise.all(writers);
      assertEquals([...kinds].toSorted(), ["ok", "unavailable"]);

      await until(async () => await store.query("SELECT 1").then(() => true, () => false));
      const found = await store.query<{ id: string; halves: number }>(
        "SELECT id, COUNT(*) AS halves FROM pairs GROUP BY id",
      );
      assertEquals(found.filter(({ halves }) => halves !== 2), []);
      const ids = new Set(found.map(({ id }) => id));
      assertEquals([...stored].filter((id) => !ids.has(id)), []);
    } finally {
      isOver = true;
      await Promise.all([store.close(), killer.close()]);
      server.stop();
    }
  },
);
