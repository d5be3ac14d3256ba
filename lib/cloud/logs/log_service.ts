/**
 * AppService, the logs of parts. Thin, as `fleet/fleet_service.ts`.
 */

import { type AppService, LogOrder } from "../../../proto/gen/app_pb.ts";
import { toMs } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { parseDurationMs } from "../../base/schema/schema.ts";
import type { ServiceImpl } from "../../wire/service.ts";
import { pageStart } from "../context.ts";
import type { LogStore } from "./logs.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;
const ERRORS = ["error", "dpanic", "panic", "fatal"];

export function logHandlers(logs: LogStore, clock: Clock) {
  return {
    async getRobotPartLogs(request) {
      const { id, filter, levels, errorsOnly, source, start, end, limit, order, range, pageToken } = request;
      const size = Math.min(Number(limit ?? 0n) || PAGE, PAGE_MAX);
      const found = await logs.find(id, {
        filter,
        levels: errorsOnly ? ERRORS : levels,
        logger: source,
        fromMs: start ? toMs(start) : range ? clock.nowMs() - lengthOf(range) : undefined,
        untilMs: end && toMs(end),
        order: order === LogOrder.ASCENDING ? "oldest first" : "newest first",
        after: pageToken ? pageStart(pageToken) : undefined,
        limit: size + 1,
      });
      const page = found.slice(0, size);
      const nextPageToken = found.length > size ? String(page[page.length - 1].number) : "";
      return { logs: page.map(({ entry }) => entry), nextPageToken };
    },
    async *tailRobotPartLogs({ id, filter, errorsOnly }, ctx) {
      const levels = errorsOnly ? ERRORS : [];
      for await (const entries of logs.follow(id, { filter, levels }, ctx.signal)) yield { logs: entries };
    },
  } satisfies ServiceImpl<typeof AppService>;
}

function lengthOf(range: string): number {
  const ms = parseDurationMs(range);
  if (ms !== undefined && ms > 0) return ms;
  throw new SvcError("invalid_argument", `found range "${range}", wanted a duration such as "24h"`);
}
