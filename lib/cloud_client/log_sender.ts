/**
 * Sends a program's log records to its control plane, in the published encoding.
 *
 * The queue stores unsent records on disk, also for the next start; this file only decides what is sent, and where.
 */

import type { MachineName } from "../base/host.ts";
import type { Clock } from "../base/clock.ts";
import { LEVELS, type Logs } from "../base/log/log.ts";
import { LogQueue, type LogQueueParts } from "../base/log/queue.ts";
import type { CloudClient } from "./client.ts";
import { logEntryMessage } from "./log_message.ts";
import type { Traffic } from "./changes/traffic.ts";

export interface CloudLogsParts {
  readonly client: Pick<CloudClient, "log" | "partId">;
  /** The program's home folder. */
  readonly home: string;
  readonly host: LogQueueParts["host"] & MachineName;
  readonly clock: Clock;
  readonly logs: Logs;
  readonly traffic: Pick<Traffic, "collectMs" | "level">;
}

/** Starts sending new records and those that earlier runs left; close the queue at the end. */
export async function sendLogs(
  { client, home, host, clock, logs, traffic }: CloudLogsParts,
): Promise<LogQueue> {
  const hostname = host.hostname();
  const queue = await LogQueue.open({
    host,
    clock,
    folder: `${home}/cloud_logs/${client.partId.replaceAll(/[^\w-]/g, "_")}`,
    logger: logs.logger("rdk.NetAppender"),
    collectMs: traffic.collectMs,
    send: (batch, signal) => client.log(batch.map((entry) => logEntryMessage(entry, hostname)), { signal }),
  });
  const least = LEVELS[traffic.level];
  logs.addSink((record) => LEVELS[record.level] >= least && queue.sink(record));
  return queue;
}
