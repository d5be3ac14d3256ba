/** Records of a log as the messages that machines send to a control plane. */

import type { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { toTimestamp } from "../api/shared/time.ts";
import type { LogRecord } from "../base/log/log.ts";
import { zapField } from "../base/log/zap_fields.ts";
import type { Json } from "../base/schema/schema.ts";
import type { MessageInitShape } from "../wire/rpc/proto.ts";

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
    fields: Object.entries(fields).map(([key, value]) => zapField(key, value)),
  };
}
