/**
 * Log entries as messages: converts records to messages, and their fields back to plain values and text.
 *
 * Fields have the published encoding, that of the Go library zap: a key, the number of a type, and the value in one of
 * three places depending on the type.
 */

import type { LogEntry, LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { toTimestamp } from "../api/shared/time.ts";
import type { LogRecord } from "../base/log/log.ts";
import type { Json } from "../base/schema/schema.ts";
import type { JsonObject, MessageInitShape } from "../wire/rpc/proto.ts";

/** The zap field types that this program writes, or whose value is stored in an unusual place. */
const ZAP = { bool: 4, float64: 9, float32: 10, int64: 11, string: 15, reflect: 23, skip: 27 } as const;
const ZAP_INTEGERS: ReadonlySet<unknown> = new Set([8, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22]);

const NANOS_PER_MS = 1_000_000;

export interface SentLog extends LogRecord {
  readonly fields: { readonly [key: string]: Json };
  /** Ends with the entry's number in a queue, if it comes from one. */
  readonly id?: string;
}

/**
 * An entry in the published encoding. Encoding is repeatable, and no two entries are equal: below the millisecond the
 * time holds a running number.
 */
export function logEntryMessage(
  { id = "", timeMs, level, logger, caller, message, fields }: SentLog,
  host: string,
): MessageInitShape<typeof LogEntrySchema> {
  const { seconds, nanos } = toTimestamp(Math.floor(timeMs));
  const number = Number(id.slice(id.lastIndexOf("-") + 1)) || 0;
  const [, file, line] = /^(.*):(\d+)$/.exec(caller ?? "") ?? [];
  return {
    host,
    level,
    time: { seconds, nanos: nanos + number % NANOS_PER_MS },
    loggerName: logger,
    message,
    caller: file === undefined ? undefined : { Defined: true, File: file, Line: Number(line), Function: "" },
    fields: Object.entries(fields).map(([key, value]) => fieldMessage(key, value)),
  };
}

/** The values of an entry's fields by their keys. */
export function logFieldsOf({ fields }: Pick<LogEntry, "fields">): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    if (typeof field.Key === "string" && field.Type !== ZAP.skip) values[field.Key] = valueOf(field);
  }
  return values;
}

/** The fields as people read them and filters search them: `{"pin":"a","tries":3}`; empty without fields. */
export function fieldsText(entry: Pick<LogEntry, "fields">): string {
  const values = logFieldsOf(entry);
  return Object.keys(values).length > 0 ? JSON.stringify(values) : "";
}

function fieldMessage(Key: string, value: Json): JsonObject {
  switch (typeof value) {
    case "boolean":
      return { Key, Type: ZAP.bool, Integer: value ? 1 : 0 };
    case "number":
      return Number.isSafeInteger(value)
        ? { Key, Type: ZAP.int64, Integer: value }
        : { Key, Type: ZAP.float64, String: String(value) };
    case "string":
      return { Key, Type: ZAP.string, String: value };
  }
  return { Key, Type: ZAP.reflect, Interface: value };
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
