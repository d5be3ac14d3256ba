/** A PostgreSQL server that can no longer be heard, although no connection to it ends. */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import { Link } from "../chaos/link.ts";
import { FakeClock, passing } from "../support/fake_clock.ts";
import { needingTest } from "../support/needing.ts";
import { createPostgresDatabase, neededPostgres } from "../support/postgres.ts";
import { moving, until } from "../support/until.ts";
import { serveCloud } from "./program.ts";

const HOUR_MS = 3600_000;
const SERVER = neededPostgres();

/** Runs with a store whose server is reached over a link. */
async function withLink(run: (store: Store, link: Link, clock: FakeClock) => Promise<void>): Promise<void> {
  const database = createPostgresDatabase();
  const url = new URL(database.url);
  const server = { hostname: url.hostname, port: Number(url.port) };
  const link = new Link(() => Deno.connect(server));
  const clock = new FakeClock();
  url.host = link.host;
  const store = await openStore({ url: url.href }, clock);
  try {
    await run(store, link, clock);
  } finally {
    link.mend();
    await store.close();
    await link.close();
    database.drop();
  }
}

async function requireUnavailable(work: () => Promise<unknown>, words: string): Promise<void> {
  const error = await assertRejects(work, SvcError);
  assertEquals(error.code, "unavailable");
  assertStringIncludes(error.message, words);
}

/** Requires the loss of a transaction that calls `silence`. Time passes only from there: the server before it is real. */
async function requireLost(
  store: Store,
  link: Link,
  clock: FakeClock,
  work: (sql: Sql, silence: () => void) => Promise<void>,
): Promise<void> {
  const { promise: silent, resolve } = Promise.withResolvers<void>();
  const silence = () => {
    link.silence();
    resolve();
  };
  const transaction = store.transaction((sql) => work(sql, silence));
  await Promise.race([silent, transaction]);
  await requireUnavailable(() => passing(clock, HOUR_MS, transaction), "lost");
  link.mend();
}

needingTest(
  "postgres: a statement that the server does not answer ends, and the next one gets another connection",
  SERVER,
  () =>
    withLink(async (store, link, clock) => {
      link.silence();
      await requireUnavailable(
        () => passing(clock, HOUR_MS, store.query("SELECT 1 AS one")),
        "did not answer",
      );
      link.mend();
      const [{ one }] = await store.query("SELECT 1 AS one");
      assertEquals(one, 1);
    }),
);

needingTest(
  "postgres: a transaction that the server does not answer ends, at each of its steps",
  SERVER,
  () =>
    withLink(async (store, link, clock) => {
      link.silence();
      const beginning = store.transaction((sql) => sql.query("SELECT 1"));
      await requireUnavailable(() => passing(clock, HOUR_MS, beginning), "lost");
      link.mend();

      await requireLost(store, link, clock, async (sql, silence) => {
        await sql.query("SELECT 1");
        silence();
        await sql.query("SELECT 2");
      });
      await requireLost(store, link, clock, async (sql, silence) => {
        await sql.query("SELECT 1");
        silence();
      });
      const [{ three }] = await store.transaction((sql) => sql.query("SELECT 3 AS three"));
      assertEquals(three, 3);
    }),
);

needingTest(
  "postgres: listeners of a silent connection listen again on another one",
  SERVER,
  () =>
    withLink(async (store, link, clock) => {
      let missed = 0;
      const stop = await store.notices.hear("changes", () => {}, () => missed++);
      link.silence();
      // Long enough for the line to ask and to wait for the answer.
      for (let second = 0; second < 120; second++) await clock.advance(1_000);
      link.mend();
      await until(() => Promise.resolve(missed > 0), { meanwhile: moving(clock, 100) });
      await stop();
    }),
);

needingTest("postgres: svc-cloud serve waits for a database that comes up after it", SERVER, async () => {
  const database = createPostgresDatabase();
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const url = new URL(database.url);
  const server = { hostname: url.hostname, port: Number(url.port) };
  const link = new Link(() => Deno.connect(server));
  link.cut();
  url.host = link.host;
  const waits = Promise.withResolvers<void>();
  const serving = serveCloud(
    ["--data", folder, "--database", url.href],
    {
      heard: (text) => {
        if (text.includes("waiting for the database")) waits.resolve();
      },
    },
  );
  try {
    await waits.promise;
    link.mend();
    const cloud = await serving;
    const answer = await fetch(`${cloud.url}/readyz`);
    assertEquals([answer.status, (await answer.text()).trim()], [200, "ok"]);
    assertEquals(await cloud.stop(), 0);
  } finally {
    await link.close();
    database.drop();
    await Deno.remove(folder, { recursive: true });
  }
});
