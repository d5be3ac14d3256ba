/**
 * AppService, the logs of parts. Thin, as `fleet/fleet_service.ts`.
 */

import { type AppService, type GetRobotPartLogsRequest, LogOrder } from "../../../proto/gen/app_pb.ts";
import type { LogEntry } from "../../../proto/gen/common_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { parseDurationMs } from "../../base/schema/schema.ts";
import type { ServiceImpl } from "../../wire/service.ts";
import { boundMs } from "../context.ts";
import type { LogPlace } from "./log_search.ts";
import type { LogStore } from "./logs.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;
const NO_CALLER = { Defined: false, File: "", Line: 0 };
const ERRORS = ["error", "dpanic", "panic", "fatal"];

export function logHandlers(logs: LogStore, clock: Clock) {
  return {
    async getRobotPartLogs(request, ctx) {
      const { id, filter, levels, errorsOnly, source, limit, order, pageToken } = request;
      const { entries, more } = await logs.find(id, {
        filter,
        levels: errorsOnly ? ERRORS : levels,
        logger: source,
        ...boundsOf(request, clock.nowMs()),
        order: order === LogOrder.ASCENDING ? "oldest first" : "newest first",
        after: pageToken ? placeIn(pageToken) : undefined,
        limit: Math.min(Math.max(Number(limit ?? 0n), 0) || PAGE, PAGE_MAX),
      }, ctx.signal);
      const nextPageToken = more ? placeText(entries[entries.length - 1]) : "";
      return { logs: entries.map(({ entry }) => withCaller(entry)), nextPageToken };
    },
    async *tailRobotPartLogs({ id, filter, errorsOnly }, ctx) {
      const levels = errorsOnly ? ERRORS : [];
      for await (const entries of logs.follow(id, { filter, levels }, ctx.signal)) {
        yield { logs: entries.map(withCaller) };
      }
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The published Python library writes the caller of each entry to a file, and fails on an entry that has none. */
function withCaller(entry: LogEntry): LogEntry {
  return entry.caller ? entry : { ...entry, caller: NO_CALLER };
}

/** The bounds of a request: `range` is the time from its start on, or the time until its end, or until now. */
function boundsOf({ start, end, range }: GetRobotPartLogsRequest, nowMs: number) {
  const [fromMs, untilMs] = [boundMs(start), boundMs(end)];
  if (!range) return { fromMs, untilMs };
  const lengthMs = lengthOf(range);
  if (fromMs === undefined) return { fromMs: (untilMs ?? nowMs) - lengthMs, untilMs };
  if (untilMs === undefined) return { fromMs, untilMs: fromMs + lengthMs };
  throw new SvcError("invalid_argument", `found start, end and range "${range}", wanted at most two of them`);
}

/** A duration in Go's syntax, in which days may stand, too. */
function lengthOf(range: string): number {
  const inHours = range.replace(/(\d+(?:\.\d*)?)d/g, (_, days) => `${Number(days) * 24}h`);
  const ms = parseDurationMs(inHours);
  if (ms !== undefined && ms > 0) return ms;
  throw new SvcError("invalid_argument", `found range "${range}", wanted a duration such as "24h" or "10d"`);
}

function placeText({ writtenMs, number }: LogPlace): string {
  return `${writtenMs}:${number}`;
}

function placeIn(token: string): LogPlace {
  const [, writtenMs, number] = /^(-?\d{1,16}):(\d{1,16})$/.exec(token) ?? [];
  if (number !== undefined) return { writtenMs: Number(writtenMs), number: Number(number) };
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}
