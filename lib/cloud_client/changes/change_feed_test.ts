import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { create } from "../../wire/rpc/proto.ts";
import { FollowResponseSchema } from "../../../proto/gen/changes_pb.ts";
import { race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { ChangeFeed } from "./change_feed.ts";

function bench(random = () => 1) {
  const clock = new FakeClock();
  const heard: string[] = [];
  /** The connection that is open, if one is. */
  let open: {
    send: (change: { config?: boolean; restart?: boolean }) => void;
    lose: (error: SvcError) => void;
  };
  const app = { connections: 0, isAway: undefined as SvcError | undefined };
  const client = {
    address: "https://cloud",
    async *changes(signal: AbortSignal) {
      app.connections++;
      if (app.isAway) throw app.isAway;
      const waiting = Array.from({ length: 0 }, () => ({ config: false, restart: false }));
      waiting.push({ config: false, restart: false });
      let { promise, resolve, reject } = Promise.withResolvers<void>();
      open = {
        send: ({ config = false, restart = false }) => {
          waiting.push({ config, restart });
          resolve();
        },
        lose: (error) => reject(error),
      };
      for (;;) {
        for (const one of waiting.splice(0)) yield create(FollowResponseSchema, one);
        await race(promise, signal);
        ({ promise, resolve, reject } = Promise.withResolvers<void>());
      }
    },
  };
  const logger = new Logs(clock, []).logger("changes");
  const feed = new ChangeFeed({ client, clock, logger, random });
  return {
    clock,
    app,
    feed,
    heard,
    hear: (what: "config" | "restart") => feed.hear(what, () => heard.push(what)),
    send: async (change: { config?: boolean; restart?: boolean }) => {
      open.send(change);
      await clock.advance(0);
    },
    lose: async () => {
      open.lose(new SvcError("unavailable", "the connection was lost"));
      await clock.advance(0);
    },
    took: () => heard.splice(0),
  };
}

Deno.test("ChangeFeed: connects with its first listener and calls each listener for its own changes", async () => {
  const { clock, app, feed, hear, send, took } = bench();
  await clock.advance(10_000);
  assertEquals(app.connections, 0);
  const [config] = [hear("config"), hear("restart")];
  await clock.advance(0);
  assertEquals([app.connections, took()], [1, []], "what is there at the start is asked for anyway");
  await send({ config: true });
  await send({ restart: true });
  await send({ config: true, restart: true });
  assertEquals(took(), ["config", "restart", "config", "restart"]);
  config();
  await send({ config: true });
  assertEquals(took(), []);
  await feed.close();
  assertEquals(clock.pending, 0);
});

Deno.test("ChangeFeed: reconnects after growing pauses and then reports every kind of change", async () => {
  const { clock, app, feed, hear, lose, took } = bench();
  hear("config");
  hear("restart");
  await clock.advance(0);
  await lose();
  app.isAway = new SvcError("unavailable", "no answer");
  const pauses: number[] = [];
  for (let n = 0, at = clock.nowMs(); n < 8; n++) {
    const { connections } = app;
    while (app.connections === connections) await clock.advance(100);
    pauses.push(clock.nowMs() - at);
    at = clock.nowMs();
  }
  assertEquals(pauses, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  assertEquals(took(), []);
  app.isAway = undefined;
  await clock.advance(60_000);
  assertEquals(took(), ["config", "restart"]);
  // It was a good one: the next pause is short again.
  await clock.advance(60_000);
  await lose();
  await clock.advance(2_000);
  assertEquals(took(), ["config", "restart"]);
  await feed.close();
});

Deno.test("ChangeFeed: the first pause is random between 1 and 2 s", async () => {
  const firsts = new Set<number>();
  for (const random of [0, 0.25, 0.5, 0.75]) {
    const { clock, app, feed, hear, lose } = bench(() => random);
    hear("config");
    await clock.advance(0);
    await lose();
    const began = clock.nowMs();
    while (app.connections === 1) await clock.advance(10);
    firsts.add(clock.nowMs() - began);
    await feed.close();
  }
  assertEquals(firsts.size, 4);
  assert([...firsts].every((ms) => ms >= 1_000 && ms <= 2_000));
});

Deno.test("ChangeFeed: retries an hour after an unimplemented answer", async () => {
  const { clock, app, feed, hear, took } = bench();
  app.isAway = new SvcError("unimplemented", "no such service");
  hear("config");
  await clock.advance(3_599_000);
  assertEquals(app.connections, 1);
  app.isAway = undefined;
  await clock.advance(2_000);
  assertEquals([app.connections, took()], [2, ["config"]]);
  await feed.close();
  assertEquals(clock.pending, 0);
});

Deno.test("ChangeFeed: connects to a busy control plane no earlier than it wants", async () => {
  const { clock, app, feed, hear } = bench();
  app.isAway = new SvcError("unavailable", "busy", { retryMs: 30_000 });
  hear("config");
  await clock.advance(29_000);
  assertEquals(app.connections, 1);
  await clock.advance(1_000);
  assertEquals(app.connections, 2);
  await feed.close();
});

Deno.test("ChangeFeed: numbers its connections, and says when one ends", async () => {
  const { clock, feed, hear, heard, send, lose } = bench();
  hear("restart");
  feed.hear("end", () => heard.push("end"));
  assertEquals(feed.connection, undefined);
  await clock.advance(0);
  assertEquals(feed.connection, 1);
  await send({ config: true });
  await send({ config: true });
  assertEquals([feed.connection, heard], [1, []]);
  await lose();
  assertEquals([feed.connection, heard], [undefined, ["end"]]);
  await clock.advance(2_000);
  assertEquals([feed.connection, heard], [2, ["end", "restart"]]);
  await feed.close();
});
