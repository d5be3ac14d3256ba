/**
 * The content of a reading as it is stored: a message, because numbers may have no JSON form, such as NaN.
 */

import { SensorDataSchema } from "../../../proto/gen/datasync_pb.ts";
import { create, fromBinary, type JsonObject, toBinary } from "../../wire/rpc/proto.ts";

export function payloadBytes(payload: JsonObject): Uint8Array {
  return toBinary(SensorDataSchema, create(SensorDataSchema, { data: { case: "struct", value: payload } }));
}

/** The content in what `payloadBytes` made. */
export function payloadIn(bytes: Uint8Array): JsonObject {
  const { data } = fromBinary(SensorDataSchema, bytes);
  return data.case === "struct" ? data.value : {};
}
