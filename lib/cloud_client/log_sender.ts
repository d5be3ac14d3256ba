/**
 * A program's logs on their way to its control plane: everything that is logged, in the published encoding.
 *
 * The queue keeps what cannot be sent now, on disk, also for the next start; here is only what it sends and where.
 */

import type { LogEntrySchema } from "../../proto/gen/common_pb.ts";
import { toTimestamp } from "../api/shared/time.ts";
import type { MachineName } from "../base/host.ts";
import type { Clock } from "../base/clock.ts";
import type { Logs } from "../base/log/log.ts";
import { LogQueue, type LogQueueParts, type QueuedLog } from "../base/log/queue.ts";
import type { Json, JsonObject } from "../base/schema/schema.ts";
import type { CloudClient } from "./client.ts";
import type { MessageInitShape } from "../wire/proto.ts";

/** Numbers of zap's field types. */
const ZAP = { bool: 4, float64: 9, int64: 11, string: 15, reflect: 23 } as const;
const NANOS_PER_MS = 1_000_000;

export interface CloudLogsParts {
  readonly client: Pick<CloudClient, "log" | "partId">;
  /** The program's home folder. */
  readonly home: string;
  readonly host: LogQueueParts["host"] & MachineName;
  readonly clock: Clock;
  readonly logs: Logs;
}

/** Begins to send what is logged from now on, and what earlier runs left; close the queue at the end. */
export async function sendLogs(
  { client, home, host, clock, logs }: CloudLogsParts,
): Promise<LogQueue> {
  const hostname = host.hostname();
  const queue = await LogQueue.open({
    host,
    clock,
    folder: `${home}/cloud_logs/${client.partId.replaceAll(/[^\w-]/g, "_")}`,
    logger: logs.logger("rdk.NetAppender"),
    send: (batch, signal) => client.log(batch.map((entry) => logEntryMessage(entry, hostname)), { signal }),
  });
  logs.addSink(queue.sink);
  return queue;
}

/**
 * An entry in the published encoding. It is the same whenever it is sent, and another one than all others: below the
 * millisecond its time is a running number.
 */
export function logEntryMessage(
  { id, timeMs, level, logger, caller, message, fields }: QueuedLog,
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
    fields: Object.entries(fields).map(([key, value]) => fieldOf(key, value)),
  };
}

function fieldOf(Key: string, value: Json): JsonObject {
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
