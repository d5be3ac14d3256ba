import { assertEquals } from "@std/assert";
import { MetricHistory } from "./metric_history.ts";

const METHOD = "calls.viam.robot.v1.RobotService/GetVersion";

Deno.test("MetricHistory: samples have sums over all methods, methods have their own figures", () => {
  const history = new MetricHistory();
  history.add({
    timeMs: 1000,
    values: {
      "process.resident_bytes": 5,
      "calls.open": 2,
      [`${METHOD}.ended_total`]: 3,
      [`${METHOD}.failed_total`]: 1,
      [`${METHOD}.time_total_us`]: 40,
      "calls.a.B/C.ended_total": 4,
      "calls.a.B/C.failed_total": 0,
      "calls.a.B/C.time_total_us": 400,
    },
  });
  assertEquals(history.since(0), [{
    timeMs: 1000,
    values: {
      "process.resident_bytes": 5,
      "calls.open": 2,
      "calls.ended_total": 7,
      "calls.failed_total": 1,
      "calls.time_total_us": 440,
    },
  }]);
  assertEquals(history.since(1000), []);
  assertEquals(history.methods(), [
    { name: "a.B/C", endedTotal: 4, failedTotal: 0, timeTotalUs: 400 },
    { name: "viam.robot.v1.RobotService/GetVersion", endedTotal: 3, failedTotal: 1, timeTotalUs: 40 },
  ]);
});

Deno.test("MetricHistory: keeps a bounded number of samples, metrics and methods", () => {
  const history = new MetricHistory();
  const values = Object.fromEntries(
    Array.from({ length: 500 }, (_, at) => [`proc.modules.m${at}.resident_bytes`, at]),
  );
  const calls = Object.fromEntries(
    Array.from({ length: 500 }, (_, at) => [`calls.a.B/C${at}.ended_total`, at]),
  );
  for (let at = 0; at < 1000; at++) history.add({ timeMs: at, values: { ...values, ...calls } });
  const samples = history.since(-1);
  assertEquals([samples.length, samples[0].timeMs, history.methods().length], [300, 700, 200]);
  assertEquals(Object.keys(samples[0].values).length, 201);
});
