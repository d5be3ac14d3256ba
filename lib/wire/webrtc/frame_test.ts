import { assertEquals } from "@std/assert";
import { RequestHeadersSchema, RequestSchema, ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { Metadata } from "../rpc/metadata.ts";
import { create, fromBinary } from "../rpc/proto.ts";
import { isViaProxy, requestHeaders, responseTrailers, timeoutMsOf } from "./frame.ts";

Deno.test("responseTrailers: the text of an error is percent-encoded for a caller by the Python library's proxy only", () => {
  const message = (header: Record<string, string>) => {
    const md = Object.fromEntries(Object.entries(header).map(([key, value]) => [key, { values: [value] }]));
    const headers = create(RequestHeadersSchema, { metadata: { md } });
    const status = { code: 2, message: "no motor é at 100%" };
    const bytes = responseTrailers(1n, status, new Metadata(), isViaProxy(headers));
    const { type } = fromBinary(ResponseSchema, bytes);
    return type.case === "trailers" && type.value.status?.message;
  };
  assertEquals(
    message({ te: "trailers", "user-agent": "grpc-python-grpclib/0.4.9" }),
    "no motor %C3%A9 at 100%25",
  );
  assertEquals(message({ "user-agent": "connect-es/1.6.1" }), "no motor é at 100%");
});

Deno.test("requestHeaders: a time limit arrives, with less than a second of nanoseconds", () => {
  const sent = (timeoutMs?: number) => {
    const { type } = fromBinary(RequestSchema, requestHeaders(1n, "/a.B/C", new Metadata(), timeoutMs));
    return type.case === "headers" ? type.value : undefined;
  };
  const cases: [ms: number, seconds: bigint, nanos: number][] = [
    [0, 0n, 0],
    [-5, 0n, 0],
    [0.5, 0n, 500_000],
    [999, 0n, 999_000_000],
    [1_000, 1n, 0],
    [1_999.999_999_9, 1n, 999_999_999],
    [3_600_250, 3_600n, 250_000_000],
  ];
  for (const [ms, seconds, nanos] of cases) {
    const { timeout } = sent(ms)!;
    assertEquals([timeout?.seconds, timeout?.nanos], [seconds, nanos], `${ms} ms`);
  }
  assertEquals(timeoutMsOf(sent(1_500)!), 1_500);
  assertEquals([sent()!.timeout, timeoutMsOf(sent()!)], [undefined, undefined], "no limit");
});
