/** An entry of a log as pages show it. Pure. */

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { fieldsText } from "../../../base/log/zap_fields.ts";
import { millisOf } from "../../machine/link/wire.ts";
import type { SourceRecord } from "../../shared/logs/log_records.svelte.ts";
import type { CallTime } from "../account/call_time.ts";

export interface ShownLogEntry {
  readonly level: string;
  readonly time?: CallTime;
  readonly loggerName: string;
  readonly message: string;
  readonly stack: string;
  readonly fields: readonly { toJson(): JsonValue }[];
}

export function recordOf(
  { level, time, loggerName, message, fields, stack }: ShownLogEntry,
  origin?: string,
): SourceRecord {
  return {
    level: level.toLowerCase(),
    timeMs: millisOf(time),
    logger: loggerName,
    message: stack ? `${message}\n${stack}` : message,
    fields: fieldsText({ fields: fields.map((one) => one.toJson() as JsonObject) }),
    caller: "",
    origin,
  };
}
