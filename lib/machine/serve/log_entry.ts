/**
 * Log entries from modules: decodes them to our log records.
 */

import type { LogEntry } from "../../../proto/gen/common_pb.ts";
import { SvcError } from "../../base/error.ts";
import { type Fields, type Level, parseLevel } from "../../base/log/log.ts";
import type { JsonObject } from "../../wire/rpc/proto.ts";
import { toMs } from "../../api/shared/time.ts";
import { logFieldsOf } from "../../base/log/zap_fields.ts";

/** An entry that is older than this on arrival shows its own time. */
const LATE_MS = 1000;

export interface ArrivedEntry {
  readonly level: Level;
  readonly logger: string;
  /** `folder/file.ext:line`, if the sender gives it. */
  readonly caller?: string;
  readonly message: string;
  readonly fields: Fields;
}

/** Throws `invalid_argument` for an unknown level. */
export function readLogEntry(entry: LogEntry, nowMs: number): ArrivedEntry {
  const level = parseLevel(entry.level);
  if (!level) {
    const found = `LogRequest received with invalid level "${entry.level.slice(0, 80)}"`;
    throw new SvcError("invalid_argument", `${found}, wanted debug, info, warn or error`);
  }
  const fields = logFieldsOf(entry);
  const writtenMs = toMs(entry.time);
  if (writtenMs > 0 && nowMs - writtenMs > LATE_MS) fields.log_ts = new Date(writtenMs).toISOString();
  return { level, logger: entry.loggerName, caller: callerOf(entry.caller), message: entry.message, fields };
}

function callerOf({ Defined: defined, File: file, Line: line }: JsonObject = {}): string | undefined {
  if (defined !== true || typeof file !== "string") return undefined;
  return `${file.split("/").slice(-2).join("/")}:${line}`;
}
