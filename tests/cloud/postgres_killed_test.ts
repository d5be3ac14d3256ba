/** PostgreSQL is killed, whole or one of its processes: control planes go on without a restart. */

import { assert, assertEquals } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { connect } from "../../lib/cloud/store/store.ts";
import { needingTest } from "../support/needing.ts";
import { postgresPrograms, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const clock = new SystemClock();
const programs = postgresPrograms();
const needed = programs === undefined ? { missing: "PostgreSQL is not installed here" } : { found: programs };

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
    const outcome = () =>
      one.query("SELECT 1 AS answer").then(() => "ok", (error) => SvcError.from(error).code);
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
