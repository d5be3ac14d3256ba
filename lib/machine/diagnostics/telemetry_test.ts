import { assert, assertEquals, assertMatch } from "@std/assert";
import { MotorService } from "../../../proto/gen/motor_pb.ts";
import { ResourceSpansSchema } from "../../../proto/gen/trace_pb.ts";
import { MotorApi } from "../../api/actuators/motor.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { Registry } from "../../resource/registry.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { startTelemetry, type TelemetryOptions, tracesUrl } from "./telemetry.ts";
import { fakeCall } from "../../../tests/support/fake_call.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { create, fromBinary } from "../../wire/rpc/proto.ts";

const PATH = "/viam.component.motor.v1.MotorService/GoFor";

async function scene(
  { before, ...options }: Partial<TelemetryOptions> & { before?: Uint8Array },
  post?: typeof fetch,
) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const files = new FakeHost({ usage: { residentBytes: 4096, heapUsedBytes: 0, cpuUs: 1_500_000 } });
  if (before) files.put(options.records!, before);
  const telemetry = await startTelemetry({ metrics: false, console: false, ...options }, {
    host: files,
    clock,
    logger: new Logs(clock, [memorySink(records)]).logger("rdk.telemetry"),
    version: "1.2.3",
    registry: new Registry([MotorApi], []),
    fetch: post,
  });
  /** One call of `ms`. */
  const call = async (ms: number, error?: SvcError, header = new Metadata()) => {
    const peer = { kind: "grpc", remoteAddress: "192.0.2.7" } as const;
    const method = MotorService.method.goFor;
    const ctx = fakeCall({ method, path: PATH, requestHeader: header, peer });
    const end = await telemetry.interceptor(ctx, create(method.input, { name: "m" }));
    await clock.advance(ms);
    end!(error);
  };
  return { clock, records, files, telemetry, call };
}

Deno.test("each call is a span with its subject, duration and result", async () => {
  const { clock, records, telemetry, call } = await scene({ console: true });
  await call(250);
  await call(5, new SvcError("not_found", "no such motor"));
  await telemetry.close();
  assertEquals(records.map(({ message }) => message), Array(2).fill(`span ${PATH.slice(1)}`));
  const { trace_id, span_id, ...fields } = records[0].fields;
  assertMatch(`${trace_id} ${span_id}`, /^[0-9a-f]{32} [0-9a-f]{16}$/);
  assertEquals(fields, {
    duration_ms: 250,
    "rpc.system.name": "grpc",
    "rpc.method": PATH.slice(1),
    "network.transport": "grpc",
    "client.address": "192.0.2.7",
    "svc.resource": "m",
    "rpc.response.status_code": "OK",
  });
  assertEquals(records[1].fields["rpc.response.status_code"], "NOT_FOUND");
  assertEquals(clock.pending, 0);
});

Deno.test("Telemetry: a call with a valid traceparent header joins its caller's trace", async () => {
  const { records, telemetry, call } = await scene({ console: true });
  const header = (value: string) => Metadata.from([["traceparent", value]]);
  await call(1, undefined, header("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  await call(1, undefined, header(`00-${"0".repeat(32)}-b7ad6b7169203331-01`));
  await call(1, undefined, header("nonsense"));
  await telemetry.close();
  assertEquals(records[0].fields.trace_id, "0af7651916cd43dd8448eb211c80319c");
  assertEquals(records[0].fields.parent_span_id, "b7ad6b7169203331");
  assertEquals(records.slice(1).map(({ fields }) => fields.parent_span_id), [undefined, undefined]);
});

Deno.test("Telemetry: spans of a module go to the same outputs as spans of calls", async () => {
  const { records, files, telemetry } = await scene({
    console: true,
    file: "/svc/trace/a/traces.jsonl",
    records: "/svc/trace/a/traces",
  });
  telemetry.receive!([{
    name: "camera::GetImages",
    kind: 0,
    ids: { traceId: "ab".repeat(16), spanId: "cd".repeat(8), traceFlags: 1, isRemote: false },
    startTime: [1_700_000_000, 0],
    endTime: [1_700_000_000, 5_000_000],
    duration: [0, 5_000_000],
    status: { code: 0 },
    attributes: { side: "left" },
    events: [],
    links: [],
    dropped: { attributes: 0, events: 0, links: 0 },
    scope: { name: "module" },
    source: { "service.name": "weather" },
  }]);
  await telemetry.close();
  const [{ message, fields }] = records;
  assertEquals([message, fields.side, fields.duration_ms, fields.trace_id], [
    "span camera::GetImages",
    "left",
    5,
    "ab".repeat(16),
  ]);
  const [line] = files.text("/svc/trace/a/traces.jsonl").trimEnd().split("\n").map((one) => JSON.parse(one));
  const [{ resource, scopeSpans: [{ scope, spans: [span] }] }] = line.resourceSpans;
  assertEquals([resource.attributes[0].value.stringValue, scope.name, span.spanId, span.endTimeUnixNano], [
    "weather",
    "module",
    "cd".repeat(8),
    "1700000000005000000",
  ]);
});

Deno.test("Telemetry: writes metrics every ten seconds and once on close", async () => {
  const { clock, records, telemetry, call } = await scene({ metrics: true });
  await call(200);
  await call(400);
  await clock.advance(9_500);
  const found = new Map(records.map(({ message, fields }) => [message, fields]));
  assertEquals([...found.keys()].sort(), [
    "metric process.cpu.time",
    "metric process.memory.usage",
    "metric rpc.server.call.duration",
    "metric svc.calls.open",
  ]);
  const { sum, ...duration } = found.get("metric rpc.server.call.duration")!;
  assertEquals((sum as number).toFixed(3), "0.600");
  assertEquals(duration, {
    count: 2,
    min: 0.2,
    max: 0.4,
    unit: "s",
    "rpc.method": PATH.slice(1),
    "rpc.response.status_code": "OK",
  });
  assertEquals(found.get("metric process.memory.usage"), { value: 4096, unit: "By" });
  assertEquals(found.get("metric process.cpu.time"), { value: 1.5, unit: "s" });
  await clock.advance(20_000);
  assertEquals(records.length, 12);
  await telemetry.close();
  assertEquals([records.length, clock.pending], [16, 0]);
});

Deno.test("Telemetry: the trace file holds lines of OTLP JSON", async () => {
  const { clock, files, telemetry, call } = await scene({ file: "/svc/trace/a/traces.jsonl" });
  await call(10);
  await call(10);
  await clock.advance(5_000);
  await call(10);
  await telemetry.close();
  assertEquals([files.paths, files.opened, clock.pending], [["/svc/trace/a/traces.jsonl"], 0, 0]);
  const lines = files.text(files.paths[0]).trimEnd().split("\n").map((line) => JSON.parse(line));
  const spans = lines.map(({ resourceSpans: [{ scopeSpans: [{ spans }] }] }) => spans);
  assertEquals(spans.map((some) => some.length), [2, 1]);
  assertEquals(spans[0][0].name, PATH.slice(1));
  const nanos = BigInt(spans[0][0].endTimeUnixNano) - BigInt(spans[0][0].startTimeUnixNano);
  assertEquals(nanos, 10_000_000n);
  const { attributes } = lines[0].resourceSpans[0].resource;
  assert(attributes.some((one: { key: string }) => one.key === "service.name"));
});

Deno.test("Telemetry: the binary trace file holds OTLP records, and a truncated file is moved aside", async () => {
  const path = "/svc/trace/a/traces";
  const { clock, files, telemetry, call } = await scene({ records: path });
  await call(10);
  await call(10);
  await clock.advance(5_000);
  await call(20);
  await telemetry.close();
  const found = recordsIn(await files.readFile(path));
  const spans = found.map(({ scopeSpans: [{ spans }] }) => spans);
  assertEquals(spans.map((some) => some.length), [2, 1]);
  assertEquals(spans[1][0].endTimeUnixNano - spans[1][0].startTimeUnixNano, 20_000_000n);
  assertEquals([files.paths, files.opened, clock.pending], [[path], 0, 0]);

  // The next process adds to it, unless the last one was killed while it wrote.
  const again = async (before: Uint8Array) => {
    const bench = await scene({ records: path, before });
    await bench.call(10);
    await bench.telemetry.close();
    return bench.files;
  };
  const whole = await files.readFile(path);
  const more = await again(whole);
  assertEquals(recordsIn(await more.readFile(path)).length, 3);
  for (const bytes of [whole.subarray(0, -1), whole.subarray(0, 3), new Uint8Array(100).fill(255)]) {
    const mended = await again(bytes);
    assertEquals(recordsIn(await mended.readFile(path)).length, 1);
    assertEquals(await mended.readFile(`${path}.1`), bytes.slice());
  }
});

/** The records of a file, parsed as published tools do. */
function recordsIn(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const found = [];
  for (let at = 0; at < bytes.length;) {
    const length = view.getUint32(at, true);
    found.push(fromBinary(ResourceSpansSchema, bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return found;
}

Deno.test("Telemetry: logs an unreachable collector once, and sends it the waiting spans when it is back", async () => {
  const bodies: string[] = [];
  let there = false;
  const post = (async (url: string, { body }: RequestInit) => {
    assertEquals(url, "http://collector:4318/v1/traces");
    if (!there) throw new TypeError("connection refused");
    bodies.push(await new Response(body).text());
    return new Response("{}");
  }) as typeof fetch;
  const { clock, records, telemetry, call } = await scene({ endpoint: "collector:4318" }, post);
  await call(10);
  await clock.advance(5_000);
  await call(10);
  await clock.advance(5_000);
  assertEquals(records.map(({ message }) => message), [
    'spans to "http://collector:4318/v1/traces" cannot be sent: connection refused',
  ]);
  there = true;
  await call(10);
  await telemetry.close();
  assertEquals(bodies.map((body) => body.match(/"traceId"/g)?.length), [3]);
  assertEquals(records.length, 2);
  assertEquals(clock.pending, 0);
});

Deno.test("Telemetry: a collector that never answers delays close by at most 10 s, and the queue is bounded", async () => {
  const post = (() => new Promise(() => {})) as typeof fetch;
  const { clock, records, telemetry, call } = await scene({ endpoint: "http://c" }, post);
  for (let at = 0; at < 3_000; at++) await call(0);
  await clock.advance(20_000);
  assertEquals(records.map(({ message }) => message), [
    'spans to "http://c/v1/traces" cannot be sent: it was not done within 10 s',
  ]);
  const closed = telemetry.close();
  await clock.advance(10_000);
  await closed;
  assertEquals(clock.pending, 0);
});

Deno.test("tracesUrl: completes a collector's address with scheme and path", () => {
  assertEquals(tracesUrl("localhost:4318"), "http://localhost:4318/v1/traces");
  assertEquals(tracesUrl("https://c.example.com"), "https://c.example.com/v1/traces");
  assertEquals(tracesUrl("http://c/otlp/traces"), "http://c/otlp/traces");
});
