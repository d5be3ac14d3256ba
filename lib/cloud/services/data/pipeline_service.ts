/**
 * DataPipelinesService. Thin, as `fleet_service.ts`.
 */

import { TabularDataSourceType } from "../../../../proto/gen/data_pb.ts";
import type { DataPipelineSchema, DataPipelinesService } from "../../../../proto/gen/data_pipelines_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { pageStart } from "../context.ts";
import type { ReadingQueries } from "../../data/queries/queries.ts";
import { type DataPipelineRow, DataPipelines, requireUsable } from "../../pipelines/pipelines.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;

export function pipelineHandlers(
  { store, audit, limits }: CloudContext,
  queries: ReadingQueries | undefined,
) {
  const pipelines = new DataPipelines(store);
  const enable = async (id: string, isEnabled: boolean, ctx: CallContext) => {
    await audit.change(actorOf(ctx), { kind: "pipeline", id }, (sql, nowMs) => {
      return new DataPipelines(sql).enable(id, isEnabled, nowMs);
    });
    return {};
  };
  return {
    async getDataPipeline({ id }) {
      return { dataPipeline: messageFor(await pipelines.get(id)) };
    },
    async listDataPipelines({ organizationId }) {
      return { dataPipelines: (await pipelines.list(organizationId)).map(messageFor) };
    },
    async createDataPipeline(
      { organizationId, name, mqlBinary, schedule, enableBackfill, dataSourceType },
      ctx,
    ) {
      const sourceType = dataSourceType || TabularDataSourceType.STANDARD;
      const sources = [TabularDataSourceType.STANDARD, TabularDataSourceType.HOT_STORAGE];
      if (!sources.includes(sourceType)) {
        const found = `data_source_type: found ${TabularDataSourceType[sourceType] ?? sourceType}`;
        throw new SvcError("invalid_argument", `${found}, wanted STANDARD or HOT_STORAGE`);
      }
      if (!queries) throw new SvcError("unimplemented", "this control plane runs no queries");
      const made = {
        organizationId,
        name,
        mql: mqlBinary,
        schedule,
        hasBackfill: enableBackfill ?? false,
        sourceType,
      };
      requireUsable(made);
      await queries.check([organizationId, ctx.entity ?? ""], mqlBinary, ctx.signal);
      const id = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: organizationId },
        async (sql, nowMs) => {
          const id = await new DataPipelines(sql).create(made, nowMs);
          await requireQuota(sql, limits, "pipelinesPerOrganization", organizationId);
          return id;
        },
      );
      return { id };
    },
    async renameDataPipeline({ id, name }, ctx) {
      await audit.change(actorOf(ctx), { kind: "pipeline", id }, (sql, nowMs) => {
        return new DataPipelines(sql).rename(id, name, nowMs);
      });
      return {};
    },
    async deleteDataPipeline({ id }, ctx) {
      await audit.change(actorOf(ctx), { kind: "pipeline", id }, (sql) => new DataPipelines(sql).delete(id));
      return {};
    },
    enableDataPipeline({ id }, ctx) {
      return enable(id, true, ctx);
    },
    disableDataPipeline({ id }, ctx) {
      return enable(id, false, ctx);
    },
    ...pipelineRunCalls(pipelines),
  } satisfies ServiceImpl<typeof DataPipelinesService>;
}

function pipelineRunCalls(pipelines: DataPipelines) {
  return {
    async listDataPipelineRuns({ id, pageSize, pageToken }) {
      const { sourceType } = await pipelines.get(id);
      const offset = pageToken === "" ? 0 : Math.max(0, pageStart(pageToken));
      const limit = Math.min(pageSize || PAGE, PAGE_MAX);
      const runs = await pipelines.runs(id, offset, limit + 1);
      return {
        pipelineId: id,
        runs: runs.slice(0, limit).map((run) => ({
          id: run.id,
          startTime: run.startedMs === null ? undefined : toTimestamp(run.startedMs),
          endTime: run.endedMs === null ? undefined : toTimestamp(run.endedMs),
          dataStartTime: toTimestamp(run.fromMs),
          dataEndTime: toTimestamp(run.untilMs),
          status: run.status,
          errorMessage: run.error,
          dataSourceType: sourceType,
        })),
        nextPageToken: runs.length > limit ? String(offset + limit) : "",
      };
    },
  } satisfies Partial<ServiceImpl<typeof DataPipelinesService>>;
}

function messageFor(one: DataPipelineRow): MessageInitShape<typeof DataPipelineSchema> {
  return {
    id: one.id,
    organizationId: one.organizationId,
    name: one.name,
    mqlBinary: one.mql as Uint8Array<ArrayBuffer>[],
    schedule: one.schedule,
    enabled: one.isEnabled,
    createdOn: toTimestamp(one.createdMs),
    updatedAt: toTimestamp(one.updatedMs),
    dataSourceType: one.sourceType,
  };
}
