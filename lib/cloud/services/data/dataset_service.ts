/**
 * DatasetService. Thin, as `fleet_service.ts`.
 */

import { type DatasetService, DatasetType as Type } from "../../../../proto/gen/dataset_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { type Dataset, Datasets, type DatasetType } from "../../data/datasets.ts";
import { requireWithin } from "../../access/limits.ts";
import { requireQuota } from "../../access/quota.ts";

const TYPES: { readonly [K in DatasetType]: Type } = {
  images: Type.BINARY_DATA,
  sequences: Type.SEQUENCE_DATA,
};

export function datasetHandlers({ store, access, audit, limits }: CloudContext) {
  const datasets = new Datasets(store);
  return {
    async createDataset({ organizationId: on, name, type }, ctx) {
      const id = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: on },
        async (sql, nowMs) => {
          const id = await new Datasets(sql).create(on, name, typeOf(type) ?? "images", nowMs);
          await requireQuota(sql, limits, "datasetsPerOrganization", on);
          return id;
        },
      );
      return { id };
    },
    async renameDataset({ id, name }, ctx) {
      await audit.change(actorOf(ctx), { kind: "dataset", id }, (sql) => new Datasets(sql).rename(id, name));
      return {};
    },
    async deleteDataset({ id }, ctx) {
      await audit.change(actorOf(ctx), { kind: "dataset", id }, (sql) => new Datasets(sql).delete(id));
      return {};
    },
    async listDatasetsByOrganizationID({ organizationId, type }) {
      return { datasets: (await datasets.list(organizationId, typeOf(type))).map(datasetMessage) };
    },
    async listDatasetsByIDs({ ids }, ctx) {
      requireWithin(limits, "datasetsPerOrganization", ids.length);
      if (ids.length > 0) {
        return { datasets: (await Promise.all(ids.map((id) => datasets.get(id)))).map(datasetMessage) };
      }
      const reach = await access.reach(ctx.entity, "viewer");
      const whole = reach.filter(({ kind }) => kind === "organization").map(({ resourceId }) => resourceId);
      const partly = await access.readOrganizations(ctx.entity, "owner");
      const all = await datasets.listOf(
        [...new Set([...whole, ...partly])],
        limits.datasetsPerOrganization + 1,
      );
      requireWithin(limits, "datasetsPerOrganization", all.length);
      return { datasets: all.map(datasetMessage) };
    },
    async mergeDatasets({ organizationId: on, datasetIds, name }, ctx) {
      const datasetId = await audit.change(
        actorOf(ctx),
        { kind: "organization", id: on },
        async (sql, nowMs) => {
          const id = await new Datasets(sql).merge(datasetIds, on, name, nowMs);
          await requireQuota(sql, limits, "datasetsPerOrganization", on);
          return id;
        },
      );
      return { datasetId };
    },
  } satisfies ServiceImpl<typeof DatasetService>;
}

function typeOf(type: Type | undefined): DatasetType | undefined {
  if (type === undefined) return undefined;
  return type === Type.SEQUENCE_DATA ? "sequences" : "images";
}

function datasetMessage({ id, name, organizationId, createdMs, type }: Dataset) {
  return { id, name, organizationId, timeCreated: toTimestamp(createdMs), type: TYPES[type] };
}
