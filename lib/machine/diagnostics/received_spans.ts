/**
 * Spans from modules: checked, and cut to a bounded size, so that a misbehaving module cannot flood the records.
 *
 * Pure. It leaves out impossible spans, which have no ids or end before they begin. It cuts long lists and texts, and
 * counts the rest as dropped where the format has a counter.
 */

import type { AnyValue, KeyValue } from "../../../proto/gen/trace_common_pb.ts";
import type { ResourceSpans, Span } from "../../../proto/gen/trace_pb.ts";

/** Limit of spans in one request; further ones are left out. */
const SPANS_MAX = 512;
const ATTRIBUTES_MAX = 64;
const EVENTS_MAX = 32;
const LINKS_MAX = 32;
const VALUES_MAX = 64;
/** Lists in lists. */
const DEPTH_MAX = 4;
const CHARS_MAX = 1_000;
const NANOS = 1_000_000_000n;

export type AttributeValue = string | number | boolean | (string | number | boolean)[];

export interface Attributes {
  [name: string]: AttributeValue;
}

/** Seconds since 1970, and nanoseconds. */
export type SpanTime = [seconds: number, nanos: number];

export interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly isRemote: boolean;
}

/** A span in the form of a module. */
export interface ReceivedSpan {
  readonly name: string;
  /** As the programming interface of OpenTelemetry counts: 0 is internal. */
  readonly kind: number;
  readonly ids: SpanIds;
  readonly parent?: SpanIds;
  readonly startTime: SpanTime;
  readonly endTime: SpanTime;
  readonly duration: SpanTime;
  readonly status: { readonly code: number; readonly message?: string };
  readonly attributes: Attributes;
  readonly events: { readonly name: string; readonly time: SpanTime; readonly attributes: Attributes }[];
  readonly links: { readonly context: SpanIds; readonly attributes: Attributes }[];
  readonly dropped: { readonly attributes: number; readonly events: number; readonly links: number };
  readonly scope: { readonly name: string; readonly version?: string };
  /** Attributes of the source: the module and its program. */
  readonly source: Attributes;
}

/** The spans of a request, and how many of them are left out. */
export function receivedSpans(
  request: readonly ResourceSpans[],
): { readonly spans: ReceivedSpan[]; readonly leftOut: number } {
  const spans: ReceivedSpan[] = [];
  let leftOut = 0;
  for (const { resource, scopeSpans } of request) {
    const source = attributesOf(resource?.attributes ?? []);
    for (const { scope, spans: reported } of scopeSpans) {
      const version = scope?.version ? { version: cut(scope.version) } : {};
      const about = { scope: { name: cut(scope?.name ?? ""), ...version }, source };
      for (const one of reported) {
        const span = spans.length < SPANS_MAX ? spanOf(one, about) : undefined;
        if (span) spans.push(span);
        else leftOut++;
      }
    }
  }

  return { spans, leftOut };
}

function spanOf(span: Span, about: Pick<ReceivedSpan, "scope" | "source">): ReceivedSpan | undefined {
  const { startTimeUnixNano: start, endTimeUnixNano: end, attributes, events, links, status } = span;
  const ids = idsOf(span.traceId, span.spanId, span.flags);
  if (!ids || end < start || start === 0n) return undefined;

  const parent = idsOf(span.traceId, span.parentSpanId, span.flags);
  const message = status?.message ? { message: cut(status.message) } : {};
  return {
    ...about,
    name: cut(span.name),
    // On the wire 0 is unspecified and 1 is internal.
    kind: Math.max(0, Math.min(4, span.kind - 1)),
    ids,
    ...(parent ? { parent: { ...parent, isRemote: true } } : {}),
    startTime: timeOf(start),
    endTime: timeOf(end),
    duration: timeOf(end - start),
    status: { code: Math.max(0, Math.min(2, status?.code ?? 0)), ...message },
    attributes: attributesOf(attributes),
    events: events.slice(0, EVENTS_MAX).map((event) => ({
      name: cut(event.name),
      time: timeOf(event.timeUnixNano),
      attributes: attributesOf(event.attributes),
    })),
    links: links.slice(0, LINKS_MAX).flatMap((link) => {
      const context = idsOf(link.traceId, link.spanId, link.flags);
      return context ? [{ context, attributes: attributesOf(link.attributes) }] : [];
    }),
    dropped: {
      attributes: span.droppedAttributesCount + Math.max(0, attributes.length - ATTRIBUTES_MAX),
      events: span.droppedEventsCount + Math.max(0, events.length - EVENTS_MAX),
      links: span.droppedLinksCount + Math.max(0, links.length - LINKS_MAX),
    },
  };
}

function idsOf(trace: Uint8Array, span: Uint8Array, flags: number): SpanIds | undefined {
  const isId = (bytes: Uint8Array, length: number) =>
    bytes.length === length && bytes.some((one) => one !== 0);
  if (!isId(trace, 16) || !isId(span, 8)) return undefined;
  return { traceId: trace.toHex(), spanId: span.toHex(), traceFlags: flags & 0xff, isRemote: false };
}

function timeOf(nanos: bigint): SpanTime {
  return [Number(nanos / NANOS), Number(nanos % NANOS)];
}

function attributesOf(pairs: readonly KeyValue[], depth = 0): Attributes {
  const all = pairs.slice(0, ATTRIBUTES_MAX).flatMap(({ key, value }) => {
    const found = valueOf(value, depth);
    return found === undefined ? [] : [[cut(key), found] as const];
  });
  return Object.fromEntries(all);
}

/** What attributes cannot hold, such as a list of lists, is text. */
function valueOf(value: AnyValue | undefined, depth: number): AttributeValue | undefined {
  const reported = depth > DEPTH_MAX ? undefined : value?.value;
  switch (reported?.case) {
    case "stringValue":
      return cut(reported.value);
    case "boolValue":
    case "doubleValue":
      return reported.value;
    case "intValue":
      return Number(reported.value);
    case "bytesValue":
      return reported.value.subarray(0, CHARS_MAX / 2).toHex();
    case "arrayValue":
      return reported.value.values.slice(0, VALUES_MAX).flatMap((one) => {
        const found = valueOf(one, depth + 1);
        return found === undefined ? [] : [Array.isArray(found) ? cut(found.join(" ")) : found];
      });
    case "kvlistValue":
      return cut(JSON.stringify(attributesOf(reported.value.values, depth + 1)));
    default:
      return undefined;
  }
}

function cut(text: string): string {
  return text.slice(0, CHARS_MAX);
}
