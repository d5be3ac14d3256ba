// What modules send as spans: taken as it is, cut, or left out.
import { assertEquals } from "@std/assert";
import { ResourceSpansSchema } from "../../../proto/gen/trace_pb.ts";
import { create, type MessageInitShape } from "../../wire/rpc/proto.ts";
import { receivedSpans } from "./received_spans.ts";

const TRACE = new Uint8Array(16).fill(0xab);
const SPAN = new Uint8Array(8).fill(0xcd);
const GOOD = {
  traceId: TRACE,
  spanId: SPAN,
  name: "camera::GetImages",
  kind: 2,
  startTimeUnixNano: 1_700_000_000_250_000_000n,
  endTimeUnixNano: 1_700_000_001_000_000_000n,
} as const;

type Reported = NonNullable<MessageInitShape<typeof ResourceSpansSchema>["scopeSpans"]>[number]["spans"];

function received(spans: Reported) {
  const value = { case: "stringValue" as const, value: "weather" };
  return receivedSpans([create(ResourceSpansSchema, {
    resource: { attributes: [{ key: "service.name", value: { value } }] },
    scopeSpans: [{ scope: { name: "module", version: "1" }, spans }],
  })]);
}

Deno.test("receivedSpans: a module's span keeps its ids, times, kind, source and values", () => {
  const text = { value: { case: "stringValue" as const, value: "x" } };
  const list = { value: { case: "arrayValue" as const, value: { values: [text, text] } } };
  const pairs = { value: { case: "kvlistValue" as const, value: { values: [{ key: "k", value: list }] } } };
  const number = { value: { case: "intValue" as const, value: 7n } };
  const { spans: [span], leftOut } = received([{
    ...GOOD,
    parentSpanId: SPAN,
    flags: 257,
    attributes: [{ key: "a", value: text }, { key: "b", value: list }, { key: "c", value: pairs }, {
      key: "d",
      value: number,
    }, { key: "none" }],
    events: [{ name: "e", timeUnixNano: 1_700_000_000_500_000_000n }],
    links: [{ traceId: TRACE, spanId: SPAN }, { traceId: SPAN, spanId: SPAN }],
    status: { code: 2, message: "broken" },
  }]);
  assertEquals(leftOut, 0);
  assertEquals(span, {
    name: "camera::GetImages",
    kind: 1,
    ids: { traceId: "ab".repeat(16), spanId: "cd".repeat(8), traceFlags: 1, isRemote: false },
    parent: { traceId: "ab".repeat(16), spanId: "cd".repeat(8), traceFlags: 1, isRemote: true },
    startTime: [1_700_000_000, 250_000_000],
    endTime: [1_700_000_001, 0],
    duration: [0, 750_000_000],
    status: { code: 2, message: "broken" },
    attributes: { a: "x", b: ["x", "x"], c: '{"k":["x","x"]}', d: 7 },
    events: [{ name: "e", time: [1_700_000_000, 500_000_000], attributes: {} }],
    links: [{
      context: { traceId: "ab".repeat(16), spanId: "cd".repeat(8), traceFlags: 0, isRemote: false },
      attributes: {},
    }],
    dropped: { attributes: 0, events: 0, links: 0 },
    scope: { name: "module", version: "1" },
    source: { "service.name": "weather" },
  });
});

Deno.test("receivedSpans: drops invalid and excess spans, and cuts long ones", () => {
  const wrong: Reported = [
    {},
    { ...GOOD, traceId: new Uint8Array(16) },
    { ...GOOD, spanId: new Uint8Array(9).fill(1) },
    { ...GOOD, endTimeUnixNano: 1n },
    { ...GOOD, startTimeUnixNano: 0n },
  ];
  assertEquals(received(wrong), { spans: [], leftOut: 5 });
  const many = received(Array.from({ length: 10_000 }, () => GOOD));
  assertEquals([many.spans.length, many.leftOut], [512, 9_488]);
  const long = { value: { case: "stringValue" as const, value: "x".repeat(1_000_000) } };
  type Value = { value: { case: "arrayValue"; value: { values: (Value | typeof long)[] } } };
  let deep: Value | typeof long = long;
  for (let depth = 0; depth < 60; depth++) {
    deep = { value: { case: "arrayValue", value: { values: [deep] } } };
  }
  const { spans: [span] } = received([{
    ...GOOD,
    name: "n".repeat(1_000_000),
    kind: 99 as typeof GOOD.kind,
    attributes: [
      { key: "deep", value: deep },
      ...Array.from({ length: 5_000 }, (_, index) => ({ key: `${index}`, value: long })),
    ],
    events: Array.from({ length: 500 }, () => ({ name: "e" })),
    links: Array.from({ length: 500 }, () => ({ traceId: TRACE, spanId: SPAN })),
  }]);
  assertEquals(JSON.stringify(span).length < 100_000, true);
  assertEquals([span.kind, span.attributes.deep, span.dropped], [4, [""], {
    attributes: 4_937,
    events: 468,
    links: 468,
  }]);
});
