/**
 * DataService, the queries. Thin, as `fleet/fleet_service.ts`.
 */

import { type DataService, TabularDataSourceType } from "../../../proto/gen/data_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { CallContext, ServiceImpl } from "../../wire/service.ts";
import type { CloudContext } from "../context.ts";
import type { ContentOptions } from "../sandbox/content/process.ts";
import { type Query, ReadingQueries } from "./queries.ts";

export function queryHandlers({ store }: CloudContext, content: ContentOptions | undefined) {
  const queries = content && new ReadingQueries(store, content);
  const run = async (organizationId: string, query: Query, { entity, signal }: CallContext) => {
    if (!queries) throw new SvcError("unimplemented", "this control plane runs no queries");
    return { rawData: await queries.run([organizationId, entity ?? ""], query, signal) };
  };
  return {
    tabularDataBySQL({ organizationId, sqlQuery }, ctx) {
      return run(organizationId, { sql: sqlQuery }, ctx);
    },
    async tabularDataByMQL({ organizationId, mqlBinary, dataSource, queryPrefixName }, ctx) {
      // There is one store of readings; a request for the hot one finds the same.
      if (dataSource?.type === TabularDataSourceType.PIPELINE_SINK) {
        throw new SvcError("unimplemented", "data_source: this control plane has no data pipelines");
      }
      if (queryPrefixName) {
        throw new SvcError("unimplemented", "query_prefix_name: this control plane saves no queries");
      }
      return await run(organizationId, { mql: mqlBinary }, ctx);
    },
  } satisfies ServiceImpl<typeof DataService>;
}
