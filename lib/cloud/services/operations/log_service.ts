/**
 * AppService, the logs of parts. Thin, as `fleet_service.ts`.
 */

import { type AppService, type GetRobotPartLogsRequest, LogOrder } from "../../../../proto/gen/app_pb.ts";
import type { LogEntry } from "../../../../proto/gen/common_pb.ts";
import { SharedPool } from "../../../base/async/shared_pool.ts";
import { SvcError } from "../../../base/error.ts";
import { parseDurationMs } from "../../../base/schema/schema.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { CALLER_LEVELS } from "../../access/limits.ts";
import type { CloudContext } from "../../access/context.ts";
import { boundMs } from "../context.ts";
import { Parts } from "../../tenants/parts.ts";
import type { LogCursor } from "../../logs/log_search.ts";
import type { LogStore } from "../../logs/logs.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;
const NO_CALLER = { Defined: false, File: "", Line: 0 };
const ERRORS = ["error", "dpanic", "panic", "fatal"];

/** Limits of followers of logs: of all, of the parts of one organization, and of one key. */
const FOLLOWER_SHARES = [4_000, 1_000, 100];

export function logHandlers(
  logs: Pick<LogStore, "find" | "follow">,
  { store, clock }: Pick<CloudContext, "store" | "clock">,
  shares: readonly number[] = FOLLOWER_SHARES,
) {
  const followers = new SharedPool({ shares, levels: CALLER_LEVELS, what: "followers of logs" }, clock);
  return {
    async getRobotPartLogs(request, ctx) {
      const { id, filter, levels, errorsOnly, source, limit, order, pageToken } = request;
      const { entries, more } = await logs.find(id, {
        filter,
        levels: errorsOnly ? ERRORS : levels,
        logger: source,
        ...boundsOf(request, clock.nowMs()),
        order: order === LogOrder.ASCENDING ? "oldest first" : "newest first",
        after: pageToken ? parseLogCursor(pageToken) : undefined,
        limit: Math.min(Math.max(Number(limit ?? 0n), 0) || PAGE, PAGE_MAX),
      }, ctx.signal);
      const last = entries.at(-1);
      const nextPageToken = more && last ? formatLogCursor(last) : "";
      return { logs: entries.map(({ entry }) => withCaller(entry)), nextPageToken };
    },
    async *tailRobotPartLogs({ id, filter, errorsOnly }, ctx) {
      const levels = errorsOnly ? ERRORS : [];
      const { organizationId } = await new Parts(store).get(id);
      const place = followers.take([organizationId, ctx.entity ?? ""], (reason) => ctx.cancel(reason));
      try {
        for await (const entries of logs.follow(id, { filter, levels }, ctx.signal)) {
          yield { logs: entries.map(withCaller) };
        }
      } finally {
        place.release();
      }
    },
  } satisfies ServiceImpl<typeof AppService>;
}

/** The published Python library writes the caller of each entry to a file, and fails on an entry that has none. */
function withCaller(entry: LogEntry): LogEntry {
  return entry.caller ? entry : { ...entry, caller: NO_CALLER };
}

/** The bounds of a request: `range` counts from its start, or back from its end, or back from now. */
function boundsOf({ start, end, range }: GetRobotPartLogsRequest, nowMs: number) {
  const [fromMs, untilMs] = [boundMs(start), boundMs(end)];
  if (!range) return { fromMs, untilMs };
  const lengthMs = lengthOf(range);
  if (fromMs === undefined) return { fromMs: (untilMs ?? nowMs) - lengthMs, untilMs };
  if (untilMs === undefined) return { fromMs, untilMs: fromMs + lengthMs };
  throw new SvcError("invalid_argument", `found start, end and range "${range}", wanted at most two of them`);
}

/** A duration in Go's syntax, which may contain days, too. */
function lengthOf(range: string): number {
  const inHours = range.replace(/(\d+(?:\.\d*)?)d/g, (_, days) => `${Number(days) * 24}h`);
  const ms = parseDurationMs(inHours);
  if (ms !== undefined && ms > 0) return ms;
  throw new SvcError("invalid_argument", `found range "${range}", wanted a duration such as "24h" or "10d"`);
}

function formatLogCursor({ writtenMs, number }: LogCursor): string {
  return `${writtenMs}:${number}`;
}

function parseLogCursor(token: string): LogCursor {
  const [, writtenMs, number] = /^(-?\d{1,16}):(\d{1,16})$/.exec(token) ?? [];
  if (number !== undefined) return { writtenMs: Number(writtenMs), number: Number(number) };
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}
