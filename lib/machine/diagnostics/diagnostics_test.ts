import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import type { CallContext } from "../../wire/rpc/service.ts";
import { SvcError } from "../../base/error.ts";
import { CallStats } from "../serve/call_stats.ts";
import type { MachineConfig } from "../config/config.ts";
import { Diagnostics, type DiagnosticsOptions } from "./diagnostics.ts";
import { decodeCapture } from "./ftdc_format.ts";
import type { Node } from "../graph/pass/node.ts";
import { fakeCall } from "../../../tests/support/fake_call.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { Registry } from "../../resource/registry.ts";
import { ResourceSpansSchema } from "../../../proto/gen/trace_pb.ts";
import { create } from "../../wire/rpc/proto.ts";
import { MotorService } from "../../../proto/gen/motor_pb.ts";

const MACHINE = {
  nodes: (["ready", "ready", "unhealthy"] as const).map((state) => ({ state }) as Node),
  config: undefined,
  registry: new Registry([], []),
};

/** Diagnostics on a fake host that runs with `env`. */
function diagnosticsOn(
  host: FakeHost,
  options: Partial<DiagnosticsOptions> = {},
) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const parts = {
    machine: MACHINE,
    host,
    clock,
    logs: new Logs(clock, [memorySink(records)]),
    version: "1.2.3",
  };
  return {
    clock,
    /** The spans in the log. */
    logged: () => records.map(({ message }) => message).filter((message) => message.startsWith("span ")),
    diagnostics: new Diagnostics({ ftdc: true, webProfile: false, telemetry: false, ...options }, parts),
  };
}

function configOf(more: Partial<MachineConfig> = {}): MachineConfig {
  return { tracing: { enabled: false, disk: false, console: false }, ...more } as MachineConfig;
}

/** A call that has begun; the function ends it. */
async function begun({ interceptors }: Diagnostics): Promise<() => void> {
  const ctx = fakeCall({ method: MotorService.method.stop, path: "/a.B/C" });
  const ends = await Promise.all(interceptors.map((around) => around(ctx, undefined)));
  return () => ends.forEach((end) => end?.());
}

Deno.test("Diagnostics: the FTDC capture contains process, resource and call metrics under the part's id", async () => {
  const files = new FakeHost({ env: { SVC_HOME: "/svc", HOME: "/root" } });
  const { clock, diagnostics } = diagnosticsOn(files);
  await diagnostics.begin(configOf({ cloud: { id: "part-1" } as MachineConfig["cloud"] }));
  const end = await begun(diagnostics);
  await clock.advance(1_000);
  end();
  await clock.advance(1_500);
  await diagnostics.close();
  await diagnostics.close();
  const capture = "/svc/diagnostics.data/part-1/000001-2023-11-14T22-13-22.500Z";
  assertEquals(files.paths.toSorted(), [`${capture}.ftdc`, `${capture}.jsonl.gz`]);
  const { metrics } = decodeCapture(await files.readFile(`${capture}.jsonl.gz`));
  assertEquals(Object.fromEntries(metrics), {
    "loop.lag_max_us": [0, 0],
    "process.resident_bytes": [1000, 1000],
    "process.heap_used_bytes": [500, 500],
    "process.cpu_total_us": [70, 70],
    "resources.unconfigured": [0, 0],
    "resources.configuring": [0, 0],
    "resources.ready": [2, 2],
    "resources.unhealthy": [1, 1],
    "resources.removing": [0, 0],
    "calls.open": [1, 0],
    "calls.a.B/C.ended_total": [NaN, 1],
    "calls.a.B/C.failed_total": [NaN, 0],
    "calls.a.B/C.time_total_us": [NaN, 1_000_000],
  });
  assertEquals(clock.pending, 0);
});

Deno.test("disabled diagnostics start no timer and write no file", async () => {
  const files = new FakeHost({ env: { HOME: "/root" } });
  const { clock, diagnostics } = diagnosticsOn(files, { ftdc: false });
  await diagnostics.begin(configOf());
  (await begun(diagnostics))();
  assertEquals(clock.pending, 0);
  await clock.advance(60_000);
  await diagnostics.close();
  assertEquals(files.paths, []);
});

Deno.test("CallStats: counts calls by method, with their failures and total time", async () => {
  const clock = new FakeClock();
  const stats = new CallStats(clock);
  const call = (path: string) =>
    stats.interceptor({ path } as CallContext, undefined) as (error?: SvcError) => void;
  const [one, two, three] = [call("/a.B/C"), call("/a.B/C"), call("/a.B/D")];
  await clock.advance(20);
  one();
  await clock.advance(30);
  two(new SvcError("internal", "broken"));
  assertEquals(stats.metrics(), {
    "calls.open": 1,
    "calls.a.B/C.ended_total": 2,
    "calls.a.B/C.failed_total": 1,
    "calls.a.B/C.time_total_us": 70_000,
  });
  three();
  assertEquals(stats.metrics()["calls.open"], 0);
});

Deno.test("Diagnostics: tracing starts, changes and stops with the configuration", async () => {
  const files = new FakeHost({ env: { SVC_HOME: "/svc" } });
  const { clock, diagnostics, logged } = diagnosticsOn(files, { ftdc: false });
  await diagnostics.begin(configOf());
  const disk = configOf({ tracing: { enabled: true, disk: true, console: false, otlpendpoint: undefined } });
  diagnostics.adopt(disk);
  diagnostics.adopt(disk);
  diagnostics.adopt(configOf());
  diagnostics.adopt(disk);
  // What runs before the packages are loaded is not traced.
  (await begun(diagnostics))();
  while (files.paths.length === 0) {
    (await begun(diagnostics))();
    await clock.advance(1_000);
  }
  await diagnostics.close();
  assertEquals(files.paths, ["/svc/trace/local-config/traces", "/svc/trace/local-config/traces.jsonl"]);
  assertEquals(logged(), [], "only the file was asked for");
  diagnostics.adopt(disk);
  await diagnostics.close();
  assertEquals([clock.pending, files.opened], [0, 0]);
});

Deno.test("Diagnostics: spans go to the log if the configuration asks for the console", async () => {
  for (const console of [false, true]) {
    const files = new FakeHost({ env: { SVC_HOME: "/svc" } });
    const { diagnostics, logged } = diagnosticsOn(files, { ftdc: false });
    await diagnostics.begin(
      configOf({ tracing: { enabled: true, disk: true, console, otlpendpoint: undefined } }),
    );
    (await begun(diagnostics))();
    await diagnostics.close();
    assertEquals(logged().length > 0, console);
  }
});

Deno.test("Diagnostics: records at most 500 module spans per connection and second while tracing is on", async () => {
  const host = new FakeHost({ env: { SVC_HOME: "/svc" } });
  const { diagnostics } = diagnosticsOn(host, { ftdc: false });
  const span = {
    traceId: new Uint8Array(16).fill(1),
    spanId: new Uint8Array(8).fill(1),
    startTimeUnixNano: 1n,
    endTimeUnixNano: 2n,
  };
  const request = [create(ResourceSpansSchema, { scopeSpans: [{ spans: Array(400).fill(span) }] })];
  const [one, other] = [{ kind: "grpc" }, { kind: "grpc" }] as const;
  // Nobody wants any.
  diagnostics.receiveSpans(request, one);
  const tracing = { enabled: true, disk: true, console: false, otlpendpoint: undefined };
  await diagnostics.begin(configOf({ tracing }));
  for (const peer of [one, one, one, other]) diagnostics.receiveSpans(request, peer);
  await diagnostics.close();
  const lines = host.text("/svc/trace/local-config/traces.jsonl").trimEnd().split("\n").map((line) =>
    JSON.parse(line)
  );
  const all = lines.flatMap(({ resourceSpans }) => resourceSpans)
    .flatMap(({ scopeSpans }) => scopeSpans).flatMap(({ spans }) => spans);
  assertEquals(all.length, 900);
});
