import { assertEquals } from "@std/assert";
import { RequestHeadersSchema, ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { Metadata } from "../rpc/metadata.ts";
import { create, fromBinary } from "../rpc/proto.ts";
import { isViaProxy, responseTrailers } from "./frame.ts";

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
