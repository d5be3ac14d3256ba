/**
 * Log entries as they travel from modules: decoded to records of our own.
 *
 * Their fields are in the published encoding, which is that of the Go library zap: a key, the number of a type, and
 * the value in one of three places depending on the type.
 */

import type { LogEntry } from "../../proto/gen/common_pb.ts";
import { SvcError } from "../base/error.ts";
import { type Fields, type Level, parseLevel } from "../base/log.ts";
import type { JsonObject } from "../wire/proto.ts";
import { toMs } from "../api/time.ts";

/** An entry that took longer than this to arrive tells when it was written. */
const LATE_MS = 1000;

/** Numbers of zap's field types whose value is not simply where one would look for it. */
const ZAP = { bool: 4, float64: 9, float32: 10, string: 15, skip: 27 } as const;
const ZAP_INTEGERS: ReadonlySet<unknown> = new Set([8, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22]);

export interface ArrivedEntry {
  readonly level: Level;
  readonly logger: string;
  /** `folder/file.ext:line`, where the sender tells it. */
  readonly caller?: string;
  readonly message: string;
  readonly fields: Fields;
}

/** Throws `invalid_argument` where the level is none. */
export function readLogEntry(entry: LogEntry, nowMs: number): ArrivedEntry {
  const level = parseLevel(entry.level);
  if (!level) {
    const found = `LogRequest received with invalid level "${entry.level.slice(0, 80)}"`;
    throw new SvcError("invalid_argument", `${found}, wanted debug, info, warn or error`);
  }
  const fields: Record<string, unknown> = {};
  for (const field of entry.fields) {
    if (typeof field.Key === "string" && field.Type !== ZAP.skip) fields[field.Key] = valueOf(field);
  }
  const writtenMs = toMs(entry.time);
  if (writtenMs > 0 && nowMs - writtenMs > LATE_MS) fields.log_ts = new Date(writtenMs).toISOString();
  return { level, logger: entry.loggerName, caller: callerOf(entry.caller), message: entry.message, fields };
}

function callerOf({ Defined: defined, File: file, Line: line }: JsonObject = {}): string | undefined {
  if (defined !== true || typeof file !== "string") return undefined;
  return `${file.split("/").slice(-2).join("/")}:${line}`;
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
