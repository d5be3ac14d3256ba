/**
 * The stored form of a reading's content: a message, because some numbers, such as NaN, have no JSON form.
 */

import { SensorDataSchema } from "../../../proto/gen/datasync_pb.ts";
import { create, fromBinary, type JsonObject, toBinary } from "../../wire/rpc/proto.ts";

export function payloadBytes(payload: JsonObject): Uint8Array {
  return toBinary(SensorDataSchema, create(SensorDataSchema, { data: { case: "struct", value: payload } }));
}

/** The content of a payload from `payloadBytes`. */
export function payloadIn(bytes: Uint8Array): JsonObject {
  const { data } = fromBinary(SensorDataSchema, bytes);
  return data.case === "struct" ? data.value : {};
}
