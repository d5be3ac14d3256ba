import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { type HealthReport, reportHealth } from "./health_reports.ts";

function bench() {
  const clock = new FakeClock();
  const good: HealthReport = { revision: "1", unhealthy: [], heldBack: false };
  const scene = { state: undefined as HealthReport | undefined, refusal: undefined as SvcError | undefined };
  const asked: unknown[] = [];
  const end = reportHealth({
    client: {
      report: (health) => {
        asked.push(structuredClone(health));
        return scene.refusal ? Promise.reject(scene.refusal) : Promise.resolve();
      },
    },
    state: () => scene.state,
    repeatMs: 60_000,
    clock,
    logger: new Logs(clock, []).logger("rdk"),
    random: () => 0,
  });
  return { clock, good, scene, asked, end };
}

Deno.test("reportHealth: each change once, and the same again after a while", async () => {
  const { clock, good, scene, asked, end } = bench();
  await clock.advance(20_000);
  assertEquals(asked, [], "nothing before the machine runs");
  scene.state = good;
  await clock.advance(30_000);
  assertEquals(asked, [good]);
  scene.state = { ...good, unhealthy: ["arm: gone"] };
  await clock.advance(5_000);
  assertEquals(asked.at(-1), scene.state);
  await clock.advance(60_000);
  assertEquals(asked.length, 3);
  await end();
  assertEquals(clock.pending, 0);
});

Deno.test("reportHealth: bounded, repeated after a failure, and rare where nobody asks", async () => {
  const { clock, good, scene, asked, end } = bench();
  scene.state = { ...good, unhealthy: Array(100).fill("x".repeat(1_000)) };
  scene.refusal = new SvcError("unavailable", "nobody there");
  await clock.advance(5_000);
  const [{ unhealthy }] = asked as HealthReport[];
  assertEquals([unhealthy.length, unhealthy[0].length], [50, 300]);
  await clock.advance(5_000);
  assertEquals(asked.length, 2);
  scene.refusal = new SvcError("unimplemented", "no such call");
  await clock.advance(300_000);
  const count = asked.length;
  await clock.advance(1_500_000);
  assertEquals(asked.length, count);
  scene.refusal = undefined;
  await clock.advance(3_600_000);
  assertEquals(asked.length > count, true);
  await end();
});

Deno.test("reportHealth: waits for as long as a busy control plane wants", async () => {
  const { clock, good, scene, asked, end } = bench();
  scene.state = good;
  scene.refusal = new SvcError("unavailable", "busy", { retryMs: 20_000 });
  await clock.advance(5_000);
  scene.refusal = undefined;
  await clock.advance(19_000);
  assertEquals(asked.length, 1);
  await clock.advance(1_000);
  assertEquals(asked.length, 2);
  await end();
});
