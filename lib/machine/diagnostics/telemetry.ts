/**
 * Telemetry by OpenTelemetry: a span for each call, the spans that modules send, and metrics of calls and of the program.
 *
 * The only file that uses OpenTelemetry's packages, which are loaded when telemetry is enabled. It runs them on our
 * clock, so that nothing keeps running after its end, and writes their output to the log, to a file or to a collector.
 */

import type { Span } from "@opentelemetry/api";
import type { DataPoint, MetricData } from "@opentelemetry/sdk-metrics";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import type { ProcessUsage } from "../../base/host.ts";
import type { LogFiles, ReadFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { LineFile } from "../../base/files/line_file.ts";
import type { Fields, Logger } from "../../base/log/log.ts";
import type { Message } from "../../wire/rpc/proto.ts";
import type { CallContext, Interceptor } from "../../wire/rpc/service.ts";
import { Batches } from "./batches.ts";
import type { ReceivedSpan } from "./received_spans.ts";
import { resourceNamed, type Types } from "../serve/call.ts";

export interface TelemetryOptions {
  /** Writes metrics to the log periodically. */
  readonly metrics: boolean;
  /** Writes spans to the log. */
  readonly console: boolean;
  /** Writes spans to this file: lines of OTLP in JSON. */
  readonly file?: string;
  /** Writes spans to this file as published tools read them (`trace_records.ts`). */
  readonly records?: string;
  /** Sends spans to this collector: OTLP over HTTP in JSON, `http://host:4318` or `host:4318`. */
  readonly endpoint?: string;
}

export interface TelemetryParts {
  readonly host: LogFiles & ReadFiles & ProcessUsage;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  readonly registry: Types;
  readonly fetch?: typeof fetch;
}

export interface Telemetry {
  readonly interceptor: Interceptor;
  /** Takes spans from modules and sends them where this program's spans go. Never throws, never waits. */
  readonly receive?: (spans: readonly ReceivedSpan[]) => void;
  /** Sends the rest, and ends. */
  close(): Promise<void>;
}

/** Interval of metrics (published). */
const METRICS_MS = 10_000;
const FILE_BYTES = 10_000_000;

export async function startTelemetry(options: TelemetryOptions, parts: TelemetryParts): Promise<Telemetry> {
  const [spans, metrics] = await Promise.all([
    createSpans(options, parts),
    options.metrics ? createMetrics(parts) : undefined,
  ]);
  return {
    interceptor: (ctx, request) => {
      const endSpan = spans?.begin(ctx, request);
      const endCall = metrics?.begin(ctx);
      return (error) => {
        endSpan?.(error);
        endCall?.(error);
      };
    },
    receive: spans?.receive,
    close: async () => {
      await metrics?.close();
      await spans?.close();
    },
  };
}

/** Receives the end of a call. */
type End = (error?: SvcError) => void;

async function describeResource(version: string) {
  const { resourceFromAttributes } = await import("@opentelemetry/resources");
  return resourceFromAttributes({ "service.name": "svc-server", "service.version": version });
}

async function createSpans(options: TelemetryOptions, parts: TelemetryParts) {
  const sinks = [
    ...(options.console ? [spanLog(parts.logger)] : []),
    ...(options.file === undefined ? [] : [await spanFile(options.file, parts)]),
    ...(options.records === undefined ? [] : [await spanRecords(options.records, parts)]),
    ...(options.endpoint === undefined ? [] : [await spanPost(options.endpoint, parts)]),
  ];
  if (sinks.length === 0) return undefined;

  const { clock, version, registry } = parts;
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = await import("@opentelemetry/api");
  const { resourceFromAttributes } = await import("@opentelemetry/resources");
  const { TracerProvider } = await import("@opentelemetry/sdk-trace");
  const nothing = () => Promise.resolve();
  const onEnd = (span: ReadableSpan) => sinks.forEach((sink) => sink.add(span));
  const provider = new TracerProvider({
    resource: await describeResource(version),
    spanProcessors: [{ onStart: () => {}, onEnd, forceFlush: nothing, shutdown: nothing }],
  });
  const tracer = provider.getTracer("svc-server", version);
  return {
    begin: (ctx: CallContext, request: Message | undefined): End => {
      const [startMs, begunMs] = [clock.nowMs(), clock.monotonicMs()];
      const parent = parentOf(ctx);
      const context = parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
      const attributes = attributesOf(ctx, resourceNamed(registry, ctx.method, request));
      const about = { kind: SpanKind.SERVER, startTime: startMs, attributes };
      const span: Span = tracer.startSpan(ctx.path.slice(1), about, context);
      return (error) => {
        span.setAttribute("rpc.response.status_code", statusOf(error));
        if (error) span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
        // Somebody may set the system's time meanwhile.
        span.end(startMs + clock.monotonicMs() - begunMs);
      };
    },
    receive: (received: readonly ReceivedSpan[]) => {
      for (const one of received) onEnd(readable(one, resourceFromAttributes));
    },
    close: async () => {
      await Promise.all(sinks.map((sink) => sink.close()));
    },
  };
}

/** A received span in the form of those that this program makes. */
function readable(
  { ids, parent, source, scope, dropped, ...span }: ReceivedSpan,
  resourceFrom: typeof import("@opentelemetry/resources").resourceFromAttributes,
): ReadableSpan {
  return {
    ...span,
    ...(parent ? { parentSpanContext: parent } : {}),
    spanContext: () => ids,
    resource: resourceFrom(source),
    instrumentationScope: scope,
    ended: true,
    droppedAttributesCount: dropped.attributes,
    droppedEventsCount: dropped.events,
    droppedLinksCount: dropped.links,
  };
}

/** The caller's span of which this call is a part (W3C Trace Context). */
function parentOf({ requestHeader }: CallContext) {
  const [, traceId = "", spanId = "", flags = ""] =
    /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(requestHeader.get("traceparent") ?? "") ?? [];
  // Ids of zeros, and none, are invalid.
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

function attributesOf(ctx: CallContext, resource: string | undefined) {
  return {
    "rpc.system.name": "grpc",
    "rpc.method": ctx.path.slice(1),
    "network.transport": ctx.peer.kind,
    ...(ctx.peer.remoteAddress === undefined ? {} : { "client.address": ctx.peer.remoteAddress }),
    ...(resource === undefined ? {} : { "svc.resource": resource }),
  };
}

function statusOf(error: SvcError | undefined): string {
  return error ? error.code.toUpperCase() : "OK";
}

interface SpanSink {
  add(span: ReadableSpan): void;
  close(): Promise<void>;
}

function spanLog(logger: Logger): SpanSink {
  const add = (span: ReadableSpan) => {
    const { traceId: trace_id, spanId: span_id } = span.spanContext();
    const parent_span_id = span.parentSpanContext?.spanId;
    const [seconds, nanos] = span.duration;
    const duration_ms = seconds * 1e3 + nanos / 1e6;
    logger.info(`span ${span.name}`, {
      duration_ms,
      ...span.attributes,
      trace_id,
      span_id,
      ...(parent_span_id ? { parent_span_id } : {}),
    });
  };
  return { add, close: () => Promise.resolve() };
}

async function spanFile(path: string, { host, clock, logger }: TelemetryParts): Promise<SpanSink> {
  const serialize = await otlp();
  const file = new LineFile(host, path);
  // deno-lint-ignore require-await
  const send = async (spans: readonly ReadableSpan[]) => {
    if (file.sizeBytes > FILE_BYTES) {
      file.close();
      host.moveFile(path, `${path}.1`);
    }
    file.append(`${new TextDecoder().decode(serialize(spans))}\n`);
  };
  const batches = new Batches({ what: `spans to "${path}"`, send, clock, logger });
  const close = async () => {
    await batches.close();
    file.close();
  };
  return { add: (span) => batches.add(span), close };
}

async function spanRecords(path: string, { host, clock, logger }: TelemetryParts): Promise<SpanSink> {
  const [{ ProtobufTraceSerializer }, { TraceRecords }] = await Promise.all([
    import("@opentelemetry/otlp-transformer"),
    import("./trace_records.ts"),
  ]);
  const records = await TraceRecords.open(path, host);
  // deno-lint-ignore require-await
  const send = async (spans: readonly ReadableSpan[]) => {
    const request = ProtobufTraceSerializer.serializeRequest([...spans]);
    if (request) records.append(request);
  };
  const batches = new Batches({ what: `spans to "${path}"`, send, clock, logger });
  const close = async () => {
    await batches.close();
    records.close();
  };
  return { add: (span) => batches.add(span), close };
}

async function spanPost(
  endpoint: string,
  { clock, logger, fetch: post = fetch }: TelemetryParts,
): Promise<SpanSink> {
  const serialize = await otlp();
  const url = tracesUrl(endpoint);
  const headers = { "content-type": "application/json" };
  const send = async (spans: readonly ReadableSpan[], signal: AbortSignal) => {
    const answer = await post(url, { method: "POST", headers, body: serialize(spans), signal });
    await answer.body?.cancel();
    if (!answer.ok) throw new SvcError("unavailable", `it answers ${answer.status} ${answer.statusText}`);
  };
  return new Batches({ what: `spans to "${url}"`, send, clock, logger });
}

/** The collectors' default path. */
export function tracesUrl(endpoint: string): string {
  const url = new URL(/^https?:\/\//.test(endpoint) ? endpoint : `http://${endpoint}`);
  if (url.pathname === "/") url.pathname = "/v1/traces";
  return url.href;
}

async function otlp(): Promise<(spans: readonly ReadableSpan[]) => Uint8Array<ArrayBuffer>> {
  const { JsonTraceSerializer } = await import("@opentelemetry/otlp-transformer");
  return (spans) => JsonTraceSerializer.serializeRequest([...spans]) as Uint8Array<ArrayBuffer>;
}

async function createMetrics({ clock, logger, host, version }: TelemetryParts) {
  const { MeterProvider, MetricReader } = await import("@opentelemetry/sdk-metrics");
  /** Collects on demand. */
  class Reader extends MetricReader {
    protected override onShutdown = () => Promise.resolve();
    protected override onForceFlush = () => Promise.resolve();
  }

  const reader = new Reader();
  const provider = new MeterProvider({ resource: await describeResource(version), readers: [reader] });
  const meter = provider.getMeter("svc-server", version);
  const duration = meter.createHistogram("rpc.server.call.duration", { unit: "s" });
  const open = meter.createUpDownCounter("svc.calls.open");
  meter.createObservableGauge("process.memory.usage", { unit: "By" })
    .addCallback((result) => result.observe(host.usage().residentBytes));

  meter.createObservableCounter("process.cpu.time", { unit: "s" })
    .addCallback((result) => result.observe(host.usage().cpuUs / 1e6));
  const print = async () => {
    const { resourceMetrics } = await reader.collect();
    for (const { metrics } of resourceMetrics.scopeMetrics) {
      for (const metric of metrics) printMetric(metric, logger);
    }
  };
  const stop = every(clock, METRICS_MS, () => {
    print().catch((error) => logger.warn(`metrics cannot be collected: ${messageOf(error)}`));
  });
  return {
    begin: (ctx: CallContext): End => {
      const method = ctx.path.slice(1);
      const begunMs = clock.monotonicMs();
      open.add(1);
      return (error) => {
        open.add(-1);
        duration.record((clock.monotonicMs() - begunMs) / 1e3, {
          "rpc.method": method,
          "rpc.response.status_code": statusOf(error),
        });
      };
    },
    close: async () => {
      stop();
      await print();
    },
  };
}

function every(clock: Clock, ms: number, run: () => void): () => void {
  let callOff = () => {};
  const next = () => {
    callOff = clock.after(ms, () => {
      run();
      next();
    });
  };
  next();
  return () => callOff();
}

function printMetric({ descriptor: { name, unit }, dataPoints }: MetricData, logger: Logger): void {
  for (const { value, attributes } of dataPoints as DataPoint<number | Distribution>[]) {
    const shown: Fields = typeof value === "number"
      ? { value }
      : { count: value.count, sum: value.sum, min: value.min, max: value.max };
    logger.info(`metric ${name}`, { ...shown, ...(unit === "" ? {} : { unit }), ...attributes });
  }
}

interface Distribution {
  readonly count: number;
  readonly sum?: number;
  readonly min?: number;
  readonly max?: number;
}
