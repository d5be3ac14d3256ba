/**
 * DataService, the saved queries. Thin, as `fleet_service.ts`.
 */

import type { DataService, QuerySchema } from "../../../../proto/gen/data_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import type { ReadingQueries } from "../../data/queries/queries.ts";
import { checkedQueryName, mqlText } from "../../pipelines/pipelines.ts";
import { SavedQueries, type SavedQuery } from "../../pipelines/saved_queries.ts";

const LIST_MAX = 1_000;

export function savedQueryHandlers(
  { store, audit, limits }: CloudContext,
  queries: ReadingQueries | undefined,
) {
  const saved = new SavedQueries(store);
  const check = async (organizationId: string, mql: Uint8Array[], { entity, signal }: CallContext) => {
    if (!queries) throw new SvcError("unimplemented", "this control plane runs no queries");
    await queries.check([organizationId, entity ?? ""], mql, signal);
  };
  return {
    async createSavedQuery({ organizationId, name, mqlBinary }, ctx) {
      checkedQueryName(name);
      mqlText(mqlBinary);
      await check(organizationId, mqlBinary, ctx);
      const on = { kind: "organization", id: organizationId } as const;
      const id = await audit.change(actorOf(ctx), on, async (sql, nowMs) => {
        const id = await new SavedQueries(sql).create(organizationId, name, mqlBinary, nowMs);
        await requireQuota(sql, limits, "savedQueriesPerOrganization", organizationId);
        return id;
      });
      return { id };
    },
    async updateSavedQuery({ id, name, mqlBinary }, ctx) {
      if (mqlBinary.length > 0) await check((await saved.get(id)).organizationId, mqlBinary, ctx);
      await audit.change(actorOf(ctx), { kind: "saved_query", id }, (sql, nowMs) => {
        return new SavedQueries(sql).update(id, name, mqlBinary, nowMs);
      });
      return {};
    },
    async getSavedQuery({ id }) {
      return { savedQuery: messageOf(await saved.get(id)) };
    },
    async deleteSavedQuery({ id }, ctx) {
      await audit.change(
        actorOf(ctx),
        { kind: "saved_query", id },
        (sql) => new SavedQueries(sql).delete(id),
      );
      return {};
    },
    async listSavedQueries({ organizationId, limit }) {
      const most = limit > 0n && limit < BigInt(LIST_MAX) ? Number(limit) : LIST_MAX;
      return { queries: (await saved.list(organizationId, most)).map(messageOf) };
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function messageOf(one: SavedQuery): MessageInitShape<typeof QuerySchema> {
  return {
    id: one.id,
    organizationId: one.organizationId,
    name: one.name,
    mqlBinary: one.mql as Uint8Array<ArrayBuffer>[],
    createdOn: toTimestamp(one.createdMs),
    updatedAt: toTimestamp(one.updatedMs),
  };
}
