import { assertEquals } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { moving } from "../../../tests/support/until.ts";
import { outlastOutages, readThroughOutages } from "./outages.ts";

const MINUTE_MS = 60_000;
const away = () => new SvcError("unavailable", "the store is away");

/** Runs while a clock moves on. */
async function during<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let isOver = false;
  const done = work.finally(() => isOver = true);
  done.catch(() => {});
  const move = moving(clock, 5_000);
  while (!isOver) await move();
  return await done;
}

/** A store of one content in pieces, which fails before some of them, once each. */
function storeOf(pieces: readonly number[][], failures: Set<number>, error = away) {
  const bytes = pieces.flat();
  return {
    async *read(_sha256: string, offset = 0) {
      for (let at = offset; at < bytes.length; at += 2) {
        if (failures.delete(at)) throw error();
        yield Uint8Array.from(bytes.slice(at, at + 2));
      }
    },
  };
}

async function bytesOf(content: AsyncIterable<Uint8Array>): Promise<number[]> {
  return (await Array.fromAsync(content)).flatMap((piece) => [...piece]);
}

Deno.test("a content is read from where it was when the store comes back, each byte once", async () => {
  const clock = new FakeClock();
  const store = storeOf([[1, 2], [3, 4], [5, 6]], new Set([0, 2, 4]));
  const read = bytesOf(readThroughOutages(store, "a", clock, new AbortController().signal));
  assertEquals(await during(clock, read), [1, 2, 3, 4, 5, 6]);
});

Deno.test("an outage of more than ten minutes ends the work with its error, and one of nine does not", async () => {
  const clock = new FakeClock();
  const { signal } = new AbortController();
  const backAfter = (minutes: number) => {
    const backMs = clock.monotonicMs() + minutes * MINUTE_MS;
    return outlastOutages(clock, signal, async () => {
      await Promise.resolve();
      if (clock.monotonicMs() < backMs) throw away();
      return "done";
    });
  };
  assertEquals(await during(clock, backAfter(9)), "done");
  await assertRefused("unavailable", "the store is away", () => during(clock, backAfter(60)));
});

Deno.test("what does not pass is not repeated, and an aborted job waits for no store", async () => {
  const clock = new FakeClock();
  const over = new AbortController();
  const damaged = storeOf([[1, 2]], new Set([0]), () => new SvcError("data_loss", "the file is damaged"));
  await assertRefused(
    "data_loss",
    "damaged",
    () => bytesOf(readThroughOutages(damaged, "a", clock, over.signal)),
  );
  const waiting = outlastOutages(clock, over.signal, () => Promise.reject(away()));
  over.abort(new SvcError("canceled", "canceled on request"));
  await assertRefused("canceled", "on request", () => waiting);
});
