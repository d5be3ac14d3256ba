/** DatasetService, the exports of datasets of sequences. Thin, as `fleet_service.ts`. */

import type { DatasetService } from "../../../../proto/gen/dataset_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { Datasets } from "../../data/datasets.ts";
import type { DataLinks } from "../../data/links.ts";
import { EXPORT_STATUS, SequenceExports } from "../../exports/sequence_exports.ts";

export function sequenceExportHandlers({ store, audit, limits }: CloudContext, links: DataLinks) {
  return {
    async startSequenceDatasetExport({ datasetId }, ctx) {
      const { type, organizationId, name } = await new Datasets(store).get(datasetId);
      if (type !== "sequences") {
        const found = `dataset "${name}" is one of images`;
        throw new SvcError("failed_precondition", `${found}, wanted a dataset of sequences`);
      }
      const jobId = await audit.change(
        actorOf(ctx),
        { kind: "dataset", id: datasetId },
        async (sql, nowMs) => {
          const id = await new SequenceExports(sql).start(datasetId, organizationId, nowMs);
          await requireQuota(sql, limits, "sequenceExportsPerOrganization", organizationId);
          return id;
        },
      );
      return { jobId };
    },
    async getSequenceDatasetExport({ jobId }, { peer }) {
      const { id, status, error, createdMs, completedMs } = await new SequenceExports(store).get(jobId);
      const link = status === EXPORT_STATUS.completed ? await links.make(id, undefined, peer) : undefined;
      return {
        jobId: id,
        status,
        downloadUrl: link?.url ?? "",
        expiresAt: link && toTimestamp(link.expiresMs),
        errorMessage: error,
        createdAt: toTimestamp(createdMs),
        completedAt: completedMs === null ? undefined : toTimestamp(completedMs),
      };
    },
  } satisfies ServiceImpl<typeof DatasetService>;
}
