/**
 * DataService, the queries. Thin, as `fleet_service.ts`.
 */

import { type DataService, TabularDataSourceType } from "../../../../proto/gen/data_pb.ts";
import { SvcError } from "../../../base/error.ts";
import type { CallContext, ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { DataPipelines } from "../../pipelines/pipelines.ts";
import { SavedQueries } from "../../pipelines/saved_queries.ts";
import type { Query, QuerySource, ReadingQueries } from "../../data/queries/queries.ts";

export function queryHandlers({ store, access }: CloudContext, queries: ReadingQueries | undefined) {
  const run = async (
    organizationId: string,
    query: Query,
    ctx: CallContext,
    ofOrganization?: QuerySource,
  ) => {
    if (!queries) throw new SvcError("unimplemented", "this control plane runs no queries");
    const { entity, signal } = ctx;
    const source = ofOrganization ?? (isOfWhole(ctx) ? {} : { reach: await access.reach(entity, "viewer") });
    return { rawData: await queries.run([organizationId, entity ?? ""], query, signal, source) };
  };
  const isOfWhole = (ctx: CallContext) => access.admissionOf(ctx).has("viewer");
  /** What belongs to the whole organization may tell of machines that the caller does not see. */
  const requireWhole = (ctx: CallContext, organizationId: string, what: string) => {
    if (isOfWhole(ctx)) return;
    const wanted = `an API key that is viewer of organization "${organizationId}"`;
    throw new SvcError("permission_denied", `${what} needs ${wanted}`);
  };
  /** The results of a pipeline of the organization. */
  const sinkOf = async (organizationId: string, id: string): Promise<QuerySource> => {
    const pipelines = new DataPipelines(store);
    const pipeline = await pipelines.get(id);
    // Pipelines of other organizations stay hidden.
    if (pipeline.organizationId === organizationId) return { documents: pipelines.documents(id) };
    throw new SvcError("not_found", `there is no pipeline "${id}"`);
  };
  return {
    tabularDataBySQL({ organizationId, sqlQuery }, ctx) {
      return run(organizationId, { sql: sqlQuery }, ctx);
    },
    async tabularDataByMQL({ organizationId, mqlBinary, dataSource, queryPrefixName }, ctx) {
      // There is only one store of readings, so a request for the hot store finds the same readings.
      const isSink = dataSource?.type === TabularDataSourceType.PIPELINE_SINK;
      if (isSink) requireWhole(ctx, organizationId, "data_source PIPELINE_SINK");
      if (queryPrefixName) requireWhole(ctx, organizationId, "query_prefix_name");
      const source = isSink ? await sinkOf(organizationId, dataSource.pipelineId ?? "") : undefined;
      const before = queryPrefixName
        ? (await new SavedQueries(store).named(organizationId, queryPrefixName)).mql
        : [];
      return await run(organizationId, { mql: [...before, ...mqlBinary] }, ctx, source);
    },
  } satisfies ServiceImpl<typeof DataService>;
}
