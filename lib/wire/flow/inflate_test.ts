/** Messages are inflated a few at once, in small steps with everybody else between them. */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { gzipSync } from "node:zlib";
import { nextTurn } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Semaphore } from "../../base/async/semaphore.ts";
import { Inflater } from "./inflate.ts";

const MESSAGE_BYTES = 4_000_000;
const MESSAGE = gzipSync(new Uint8Array(MESSAGE_BYTES));

Deno.test("inflate: connections share the slots, and each connection inflates a single message at a time", async () => {
  const shared = new Semaphore(2);
  const inflaters = Array.from({ length: 4 }, () => new Inflater(shared));
  const active = new Map<string, number>();
  let most = 0;
  await Promise.all(inflaters.flatMap((inflater, connection) =>
    [0, 1].map(async (message) => {
      const name = `${connection}.${message}`;
      const append = ({ length }: Uint8Array) => {
        const bytes = (active.get(name) ?? 0) + length;
        active.set(name, bytes);
        most = Math.max(most, active.size);
        assert(!active.has(`${connection}.${1 - message}`), "two messages of one connection");
        if (bytes === MESSAGE_BYTES) active.delete(name);
      };
      await inflater.inflate(MESSAGE, "gzip", { wanted: () => true, append });
    })
  ));
  assertEquals([most, active.size], [2, 0]);
});

Deno.test("inflate: the event loop runs between two pieces", async () => {
  let turns = 0, pieces = 0, over = false;
  const count = () => void nextTurn(() => (turns++, over || count()));
  count();
  await new Inflater().inflate(MESSAGE, "gzip", { wanted: () => true, append: () => pieces++ });
  over = true;
  assert(pieces > 50 && turns >= pieces, `${turns} turns, ${pieces} pieces`);
  await new Promise<void>((resolve) => void nextTurn(resolve));
});

Deno.test("inflate: stops when the rest is unwanted or too large, and frees its slot", async () => {
  const inflater = new Inflater(new Semaphore(1));
  let bytes = 0;
  const unwanted = {
    wanted: () => bytes < 500_000,
    append: ({ length }: Uint8Array) => void (bytes += length),
  };
  assertEquals(
    (await assertRejects(() => inflater.inflate(MESSAGE, "gzip", unwanted), SvcError)).code,
    "canceled",
  );
  assert(bytes < 1_000_000, `${bytes} bytes`);
  const append = () => {
    throw new SvcError("resource_exhausted", "too much");
  };
  await assertRejects(
    () => inflater.inflate(MESSAGE, "gzip", { wanted: () => true, append }),
    SvcError,
    "too much",
  );
  let whole = 0;
  await inflater.inflate(MESSAGE, "gzip", {
    wanted: () => true,
    append: ({ length }) => void (whole += length),
  });
  assertEquals(whole, MESSAGE_BYTES);
});
