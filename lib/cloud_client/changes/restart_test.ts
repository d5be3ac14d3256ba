import { assertEquals } from "@std/assert";
import { FakeChanges } from "../../../tests/support/fake_changes.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { followRestartOrders } from "./restart.ts";

function bench() {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const stops: string[] = [];
  const scene = { mustRestart: false, intervalMs: 0, mayRestart: true, away: false, asked: 0, retryMs: 0 };
  const changes = new FakeChanges();
  const end = followRestartOrders({
    changes,
    rareMs: 1_800_000,
    client: {
      needsRestart: () => {
        scene.asked++;
        const { mustRestart, intervalMs, retryMs } = scene;
        if (scene.away) return Promise.reject(new SvcError("unavailable", "nobody there", { retryMs }));
        return Promise.resolve({ mustRestart, intervalMs });
      },
    },
    clock,
    logger: new Logs(clock, [memorySink(records)]).logger("rdk"),
    mayRestart: () => Promise.resolve(scene.mayRestart),
    stop: (reason) => stops.push(reason),
  });
  return { clock, records, stops, scene, changes, end };
}

Deno.test("followRestartOrders: asks every 5 s or at the cloud's interval, at most once a second", async () => {
  const { clock, scene, stops, end } = bench();
  await clock.advance(10_000);
  assertEquals(scene.asked, 2);
  scene.intervalMs = 20_000;
  await clock.advance(5_000);
  await clock.advance(40_000);
  assertEquals(scene.asked, 5);
  scene.intervalMs = 10;
  await clock.advance(20_000);
  await clock.advance(5_000);
  assertEquals([scene.asked, stops], [11, []]);
  await end();
  assertEquals(clock.pending, 0);
});

Deno.test("followRestartOrders: restarts once the machine may restart", async () => {
  const { clock, scene, stops, records, end } = bench();
  Object.assign(scene, { mustRestart: true, mayRestart: false });
  await clock.advance(60_000);
  assertEquals([stops, records.map(({ message }) => message)], [[], [
    "told to restart, waiting until the machine may",
  ]]);
  scene.mayRestart = true;
  await clock.advance(60_000);
  assertEquals([stops, clock.pending], [["app_restart"], 0]);
  await end();
});

Deno.test("followRestartOrders: an unreachable control plane causes no restart", async () => {
  const { clock, scene, stops, end } = bench();
  Object.assign(scene, { mustRestart: true, away: true });
  await clock.advance(60_000);
  assertEquals(stops, []);
  scene.away = false;
  await clock.advance(5_000);
  assertEquals(stops, ["app_restart"]);
  await end();
});

Deno.test("followRestartOrders: keeps an order that is given once, and repeats a failed question soon", async () => {
  const { clock, scene, stops, changes, end } = bench();
  changes.open();
  await clock.advance(5_000);
  await clock.advance(600_000);
  assertEquals(scene.asked, 1, "every order is announced");
  scene.away = true;
  changes.tell("restart");
  await clock.advance(0);
  Object.assign(scene, { away: false, mustRestart: true, mayRestart: false });
  await clock.advance(5_000);
  assertEquals(scene.asked, 3);
  Object.assign(scene, { mustRestart: false, mayRestart: true });
  await clock.advance(5_000);
  assertEquals([scene.asked, stops], [3, ["app_restart"]]);
  await end();
  assertEquals([clock.pending, changes.listeners], [0, 0]);
});

Deno.test("followRestartOrders: asks a busy control plane no earlier than it wants, whatever it announces", async () => {
  const { clock, scene, changes, end } = bench();
  Object.assign(scene, { away: true, retryMs: 30_000 });
  await clock.advance(5_000);
  assertEquals(scene.asked, 1);
  scene.away = false;
  changes.tell("restart");
  await clock.advance(29_000);
  assertEquals(scene.asked, 1);
  await clock.advance(1_000);
  assertEquals(scene.asked, 2);
  Object.assign(scene, { away: true });
  await clock.advance(5_000);
  await end();
  assertEquals([scene.asked, clock.pending], [3, 0], "the end does not wait for the control plane");
});
