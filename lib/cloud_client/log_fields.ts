/**
 * The fields of log entries as they travel: decoded to plain values, and written as text.
 *
 * Their encoding is the published one, that of the Go library zap: a key, the number of a type, and the value in one
 * of three places depending on the type.
 */

import type { LogEntry } from "../../proto/gen/common_pb.ts";
import type { JsonObject } from "../wire/proto.ts";

/** Numbers of zap's field types whose value is not simply where one would look for it. */
const ZAP = { bool: 4, float64: 9, float32: 10, string: 15, skip: 27 } as const;
const ZAP_INTEGERS: ReadonlySet<unknown> = new Set([8, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22]);

/** The values of an entry's fields by their keys. */
export function fieldsOf({ fields }: Pick<LogEntry, "fields">): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    if (typeof field.Key === "string" && field.Type !== ZAP.skip) values[field.Key] = valueOf(field);
  }
  return values;
}

/** The fields as people read them, and as filters search them: `{"pin":"a","tries":3}`; empty without fields. */
export function fieldsText(entry: Pick<LogEntry, "fields">): string {
  const values = fieldsOf(entry);
  return Object.keys(values).length > 0 ? JSON.stringify(values) : "";
}

function valueOf({ Type: type, Integer: integer, String: text, Interface: value }: JsonObject): unknown {
  if (type === ZAP.bool) return integer === 1;
  if (type === ZAP.float64) return Number(text);
  if (type === ZAP.float32) return floatOfBits(Number(integer));
  if (ZAP_INTEGERS.has(type)) return integer;
  return type === ZAP.string ? text ?? "" : value ?? text ?? integer;
}

function floatOfBits(bits: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bits);
  return view.getFloat32(0);
}
