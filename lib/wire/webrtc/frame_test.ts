import { assertEquals } from "@std/assert";
import { ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { Metadata } from "../metadata.ts";
import { fromBinary } from "../proto.ts";
import { responseTrailers } from "./frame.ts";

Deno.test("responseTrailers: the sign of a cut text is in ASCII", () => {
  const message = `found "${"x".repeat(20)}…, wanted a number`;
  const { type } = fromBinary(ResponseSchema, responseTrailers(1n, { code: 3, message }, new Metadata()));
  assertEquals(type.case === "trailers" && type.value.status?.message, message.replace("…", "..."));
});
