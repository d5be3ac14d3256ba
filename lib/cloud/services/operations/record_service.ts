/**
 * RecordService: the logs of many machines, and the audit log. Thin, as `fleet_service.ts`.
 */

import type {
  ListLogsResponseSchema,
  LogSelection,
  PartLogSchema,
  RecordService,
} from "../../../../proto/gen/records_pb.ts";
import { SharedPool } from "../../../base/async/shared_pool.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { Accounts } from "../../accounts/accounts.ts";
import type { AuditCursor } from "../../access/audit.ts";
import { CALLER_LEVELS } from "../../access/limits.ts";
import { actorsNamed, namedEntries } from "../../logs/audit_names.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { CloudContext } from "../../access/context.ts";
import { boundMs, cutPage } from "../context.ts";
import type { LogStore } from "../../logs/logs.ts";
import {
  type LoggedPart,
  loggedParts,
  newestLogs,
  type PartLog,
  type PartLogCursor,
  type PartLogs,
} from "../../logs/many_logs.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;
/** Limit of the parts whose logs one call searches or follows. */
const PARTS_MAX = 200;
/** Limit of the words in each list of a selection. */
const LISTED_MAX = 1_000;
const TEXT_MAX = 256;
/** Limits of followers of many logs: of all, of one organization, and of one key. Each asks the database every second. */
const FOLLOWER_SHARES = [500, 50, 10];

type ListedLogs = Omit<MessageInitShape<typeof ListLogsResponseSchema>, "$typeName">;

interface ChosenParts {
  readonly parts: readonly LoggedPart[];
  /** How many more there are. */
  readonly leftOut: number;
}

export function recordHandlers(
  logs: Pick<LogStore, "find" | "heads" | "followParts">,
  cloud: Pick<CloudContext, "store" | "clock" | "access" | "audit">,
) {
  const { store, clock, access } = cloud;
  const followers = new SharedPool(
    { shares: FOLLOWER_SHARES, levels: CALLER_LEVELS, what: "followers of many logs" },
    clock,
  );

  const partsOf = async (
    selection: LogSelection | undefined,
    { entity }: CallContext,
  ): Promise<ChosenParts> => {
    const { organizationId = "", locationIds, machineIds, tags } = selection ?? {};
    for (const list of [locationIds, machineIds, tags]) {
      if (!list || list.length <= LISTED_MAX) continue;
      throw new SvcError("invalid_argument", `found a list of ${list.length}, wanted at most ${LISTED_MAX}`);
    }
    const organizationIds = organizationId === "" ? await access.readOrganizations(entity) : [organizationId];
    const all = await loggedParts(
      store,
      { organizationIds, locationIds, machineIds, tags },
      await access.reach(entity, "viewer"),
    );
    return { parts: all.slice(0, PARTS_MAX), leftOut: Math.max(0, all.length - PARTS_MAX) };
  };
  return {
    ...auditHandlers(cloud),
    async listLogs({ selection, limit, pageToken }, ctx) {
      const chosen = await partsOf(selection, ctx);
      const paging = { limit: limitOf(limit), after: pageToken ? parseLogCursor(pageToken) : undefined };
      return listMessage(
        chosen,
        await newestLogs(logs, chosen.parts, filterOf(selection), paging, ctx.signal),
      );
    },
    async *followLogs({ selection, limit }, ctx) {
      const share = [selection?.organizationId ?? "", ctx.entity ?? ""];
      const place = followers.take(share, (reason) => ctx.cancel(reason));
      try {
        let chosen = await partsOf(selection, ctx);
        const after = await logs.heads(chosen.parts.map(({ id }) => id));
        const paging = { limit: limitOf(limit) };
        const { entries, more } = await newestLogs(
          logs,
          chosen.parts,
          filterOf(selection),
          paging,
          ctx.signal,
        );
        // Those that have arrived meanwhile come by following.
        const known = entries.filter(({ partId, number }) => number <= (after.get(partId) ?? 0));
        yield listMessage(chosen, { entries: known, more }, "oldest first");
        const select = async () => {
          chosen = await partsOf(selection, ctx);
          return chosen.parts.map(({ id }) => id);
        };
        const { filter, levels } = filterOf(selection);
        for await (const arrived of logs.followParts(select, { filter, levels, after }, ctx.signal)) {
          yield { logs: logMessages(chosen.parts, arrived) };
        }
      } finally {
        place.release();
      }
    },
  } satisfies ServiceImpl<typeof RecordService>;
}

function auditHandlers({ store, audit }: Pick<CloudContext, "store" | "audit">) {
  return {
    async listAuditEntries({ organizationId, who, action, start, end, limit, pageToken }) {
      for (const text of [who, action]) {
        if (text.length <= TEXT_MAX) continue;
        throw new SvcError("invalid_argument", `found ${text.length} letters, wanted at most ${TEXT_MAX}`);
      }
      const members = new Map(
        (await new Accounts(store).members(organizationId)).map((one) => [one.id, one.email]),
      );
      const selection = {
        organizationId,
        who,
        whoIds: who === "" ? [] : await actorsNamed(store, organizationId, members, who),
        action,
        sinceMs: boundMs(start),
        untilMs: boundMs(end),
      };
      const count = limitOf(limit);
      const after = pageToken ? parseAuditCursor(pageToken) : undefined;
      const found = await audit.newest(count + 1, selection, after);
      const { page, nextPageToken } = cutPage(found, count, ({ atMs, id }) => `${atMs}:${id}`);
      const named = await namedEntries(store, organizationId, members, page);
      const entries = named.map(({ atMs, id: _, ...entry }) => ({ ...entry, at: toTimestamp(atMs) }));
      return { entries, nextPageToken };
    },
  } satisfies Partial<ServiceImpl<typeof RecordService>>;
}

function parseAuditCursor(token: string): AuditCursor {
  const [, atMs, id] = /^(\d{1,16}):([\w-]{1,100})$/.exec(token) ?? [];
  if (id !== undefined) return { atMs: Number(atMs), id };
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}

function limitOf(limit: number): number {
  return Math.min(limit || PAGE, PAGE_MAX);
}

function listMessage(
  { parts, leftOut }: ChosenParts,
  { entries, more }: PartLogs,
  order: "newest first" | "oldest first" = "newest first",
): ListedLogs {
  const last = entries.at(-1);
  const nextPageToken = more && last ? formatLogCursor(last) : "";
  const shown = logMessages(parts, order === "newest first" ? entries : entries.toReversed());
  return { logs: shown, nextPageToken, parts: parts.length, partsLeftOut: leftOut };
}

function filterOf(selection: LogSelection | undefined) {
  const { filter, levels, start, end } = selection ?? {};
  return { filter, levels, fromMs: boundMs(start), untilMs: boundMs(end) };
}

function logMessages(
  parts: readonly LoggedPart[],
  entries: readonly Pick<PartLog, "partId" | "entry">[],
): MessageInitShape<typeof PartLogSchema>[] {
  const known = new Map(parts.map((part) => [part.id, part]));
  return entries.map(({ partId, entry }) => {
    const { name = "", machineId = "", machineName = "" } = known.get(partId) ?? {};
    return { partId, partName: name, machineId, machineName, entry };
  });
}

function formatLogCursor({ writtenMs, number, partId }: PartLogCursor): string {
  return `${writtenMs}:${number}:${partId}`;
}

function parseLogCursor(token: string): PartLogCursor {
  const [, writtenMs, number, partId] = /^(-?\d{1,16}):(\d{1,16}):([\w-]{1,100})$/.exec(token) ?? [];
  if (partId !== undefined) return { writtenMs: Number(writtenMs), number: Number(number), partId };
  throw new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}
