import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { silentLogs } from "../base/log/log.ts";
import { healthPages } from "./health_pages.ts";

function pagesOf(
  query: () => Promise<unknown>,
  freeBytes: number | Promise<number> = 100,
  requireReachable = () => Promise.resolve(),
) {
  const clock = new FakeClock();
  const store = { query };
  const files = {
    diskState: async () => ({ freeBytes: await freeBytes, reserveBytes: 10, totalBytes: 1, heldBytes: 0 }),
    requireReachable,
  };
  const parts = { store, files, clock, logger: silentLogs(clock).logger("cloud") };
  const pages = healthPages(parts as unknown as Parameters<typeof healthPages>[0]);
  const ask = async (path: string, method = "GET") => {
    const { status, body } = await pages.get(path)!({ method } as never);
    return `${status} ${body}`.trim();
  };
  return { ask, clock };
}

Deno.test("health pages: ready while the database answers and the disk has room", async () => {
  let asked = 0;
  const { ask, clock } = pagesOf(() => Promise.resolve([{ one: ++asked }]));
  assertEquals([await ask("/healthz"), await ask("/readyz")], ["200 ok", "200 ok"]);
  await ask("/readyz");
  assertEquals(asked, 1, "an answer holds for a second");
  await clock.advance(1_000);
  await ask("/readyz");
  assertEquals(asked, 2);
  assertStringIncludes(await ask("/readyz", "POST"), "405");
  assertEquals(await pagesOf(() => Promise.resolve([{}]), 10).ask("/readyz"), "503 the disk is full");
});

Deno.test("health pages: a database that fails, or never answers, is not ready; the program is well all the same", async () => {
  const failing = pagesOf(() => Promise.reject(new Error("secret detail")));
  assertEquals(await failing.ask("/readyz"), "503 the database does not answer");
  const hanging = pagesOf(() => new Promise(() => {}));
  const asked = hanging.ask("/readyz");
  await hanging.clock.advance(3_000);
  assertEquals(await asked, "503 the database does not answer");
  assertEquals(await hanging.ask("/healthz"), "200 ok");
});

Deno.test("health pages: a folder that is gone is not called a full disk", async () => {
  const gone = pagesOf(() => Promise.resolve([{}]), Promise.reject(new Error("no such folder")));
  assertEquals(await gone.ask("/readyz"), "503 the folder of the files cannot be read");
});

const answering = () => Promise.resolve([{}]);

Deno.test("health pages: an object store is asked every ten seconds, however many ask for the page", async () => {
  let asked = 0;
  let isAway = true;
  const { ask, clock } = pagesOf(answering, 100, async () => {
    asked++;
    if (await Promise.resolve(isAway)) throw new Error("connection refused");
  });
  for (let second = 0; second < 10; second++) {
    for (let caller = 0; caller < 5; caller++) {
      assertEquals(await ask("/readyz"), "503 the object store cannot be used");
    }
    await clock.advance(1_000);
  }
  assertEquals(asked, 1);
  isAway = false;
  assertEquals([await ask("/readyz"), asked], ["200 ok", 2]);
});

Deno.test("health pages: a silent object store is not ready, and has one request at a time", async () => {
  let asked = 0;
  const silent = Promise.withResolvers<void>();
  const { ask, clock } = pagesOf(answering, 100, () => {
    asked++;
    return silent.promise;
  });
  for (let time = 0; time < 10; time++) {
    const page = ask("/readyz");
    await clock.advance(3_000);
    assertEquals(await page, "503 the object store cannot be used");
  }
  assertEquals(asked, 1);
  silent.resolve();
  await clock.advance(10_000);
  assertEquals([await ask("/readyz"), asked], ["200 ok", 2]);
});
