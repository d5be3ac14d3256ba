/**
 * DataService: finds, tags, exports and removes captured data, and puts it into datasets.
 *
 * A filter that names a resource needs a role on it; a filter that names none finds everything within the caller's
 * reach.
 *
 * The room owns the calls on captured data: uploads, searches, queries, pipelines, triggers, exports, and usage.
 */

import { type BinaryID, type DataService, type Filter, FilterSchema } from "../../../../proto/gen/data_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import { create, toJson } from "../../../wire/rpc/proto.ts";
import { type CallContext, type ServiceImpl } from "../../../wire/rpc/service.ts";
import { binaryMessage, fittingItems, WANTED } from "../../data/binary_message.ts";
import { sequenceHandlers } from "./sequence_service.ts";
import { pageOf, tabularHandlers } from "./tabular_service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import type { ServiceContext } from "../context.ts";
import { requireWithin } from "../../access/limits.ts";
import { BinaryData, type BinaryItem, checkedLabels, itemCursor } from "../../data/binary_data.ts";
import { binaryConditions, Conditions } from "../../capture/filter.ts";
import type { DataLinks } from "../../data/links.ts";
import { Datasets } from "../../data/datasets.ts";
import type { LabelBox } from "../../../cloud_client/dataset.ts";
import { releaseFile } from "../../store/file_refs.ts";
import type { Role } from "../../access/keys.ts";
import { placeholders, type Sql } from "../../store/store.ts";

const IDS_MAX = 1_000;
const REMOVE_AT_ONCE = 500;
/** Tags that one transaction adds or removes, and the items that it reads, so that others get their turns. */
const TAGS_AT_ONCE = 5_000;
const TAGGED_AT_ONCE = 500;
/** Limit of the ids that the audit log stores for one change. */
const NAMED_MAX = 10;

export function dataHandlers(cloud: ServiceContext, links: DataLinks) {
  return {
    ...findHandlers(cloud, links),
    ...removeHandlers(cloud),
    ...tagHandlers(cloud),
    ...boxHandlers(cloud),
    ...datasetHandlers(cloud),
    ...tabularHandlers(cloud),
    ...sequenceHandlers(cloud),
  } satisfies ServiceImpl<typeof DataService>;
}

function findHandlers(cloud: CloudContext, links: DataLinks) {
  const { store, files } = cloud;
  const binary = new BinaryData(store);
  /** Clients such as the published command line fetch a content that exceeds an answer from the link in its description. */
  const described = async (items: readonly BinaryItem[], { peer }: CallContext) => {
    const linkTo = await links.forAnswer(peer);
    return await Promise.all(items.map((item) => binaryMessage(files, item, false, linkTo(item.id))));
  };
  const answered = (items: readonly BinaryItem[], includeBinary: boolean, ctx: CallContext) => {
    if (!includeBinary) return described(items, ctx);
    return Promise.all(items.map((item) => binaryMessage(files, item, true)));
  };
  return {
    async binaryDataByFilter({ dataRequest, includeBinary, countOnly }, ctx) {
      const found = await filtered(cloud, ctx, dataRequest?.filter, "viewer");
      if (countOnly) {
        const { count, bytes } = await binary.count(found);
        return { count: BigInt(count), totalSizeBytes: BigInt(bytes) };
      }
      const items = await binary.page(found, pageOf(dataRequest));
      // The next page starts with the contents that do not fit into this answer.
      const page = includeBinary ? items.slice(0, Math.max(1, fittingItems(items))) : items;
      const data = await answered(page, includeBinary, ctx);
      const totalSizeBytes = BigInt(page.reduce((sum, { bytes }) => sum + bytes, 0));
      const last = page.at(-1);
      return { data, count: BigInt(data.length), totalSizeBytes, last: last ? itemCursor(last) : "" };
    },
    async binaryDataByIDs({ binaryDataIds, binaryIds, includeBinary }, ctx) {
      const items = await binary.get(idsOf(binaryDataIds, binaryIds));
      if (includeBinary && fittingItems(items) < items.length) {
        const bytes = items.reduce((sum, one) => sum + one.bytes, 0);
        const found = `the contents of ${items.length} items have ${bytes} bytes`;
        throw new SvcError("resource_exhausted", `${found}, ${WANTED}`);
      }
      const data = await answered(items, includeBinary, ctx);
      return { data, count: BigInt(data.length) };
    },
    async createBinaryDataSignedURL({ binaryDataId, expirationMinutes }, { peer }) {
      const { url, expiresMs } = await links.make(binaryDataId, expirationMinutes, peer);
      return { signedUrl: url, expiresAt: toTimestamp(expiresMs) };
    },
    async tagsByFilter({ filter }, ctx) {
      const tags = await binary.tags(
        await filtered(cloud, ctx, filter, "viewer"),
        cloud.limits.labelsPerAnswer + 1,
      );
      requireWithin(cloud.limits, "labelsPerAnswer", tags.length);
      return { tags };
    },
    async boundingBoxLabelsByFilter({ filter }, ctx) {
      const found = await filtered(cloud, ctx, filter, "viewer");
      const labels = await binary.labels(found, cloud.limits.labelsPerAnswer + 1);
      requireWithin(cloud.limits, "labelsPerAnswer", labels.length);
      return { labels };
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function removeHandlers(cloud: CloudContext) {
  const { store, files, audit } = cloud;
  const remove = async (ctx: CallContext, id: string, found: () => Conditions | Promise<Conditions>) => {
    let deletedCount = 0n;
    for (;;) {
      const conditions = await found();
      const contents = await audit.change(
        actorOf(ctx),
        { kind: "data", id },
        (sql) => new BinaryData(sql).remove(conditions, REMOVE_AT_ONCE),
      );
      for (const sha256 of new Set(contents)) await releaseFile(store, files, sha256);
      deletedCount += BigInt(contents.length);
      if (contents.length < REMOVE_AT_ONCE) return { deletedCount };
    }
  };
  return {
    deleteBinaryDataByFilter({ filter }, ctx) {
      return remove(ctx, describe(filter), () => filtered(cloud, ctx, filter, "owner"));
    },
    deleteBinaryDataByIDs({ binaryDataIds, binaryIds }, ctx) {
      const ids = idsOf(binaryDataIds, binaryIds);
      return remove(ctx, describe(ids), () => these(ids));
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function tagHandlers(cloud: CloudContext) {
  const { store, limits } = cloud;
  const change = changer(cloud);

  /**
   * Changes the tags of everything that is found, in transactions of a bounded size; each item completely or not at
   * all. Returns the sum of what `work` returns.
   */
  const inPieces = async (
    ctx: CallContext,
    on: string,
    found: Conditions,
    tags: readonly string[],
    work: (data: BinaryData, ids: readonly string[]) => Promise<number>,
  ): Promise<number> => {
    checkedLabels("tag", tags);
    const size = Math.max(1, Math.min(TAGGED_AT_ONCE, Math.floor(TAGS_AT_ONCE / tags.length)));
    let count = 0;
    for (let last: string | undefined = "";;) {
      const ids = await new BinaryData(store).ids(found, size, last);
      if (ids.length > 0) count += await change(ctx, on, (sql) => work(new BinaryData(sql), ids));
      if (ids.length < size) return count;
      last = ids.at(-1);
    }
  };

  const add = async (ctx: CallContext, on: string, found: Conditions, tags: readonly string[]) => {
    requireWithin(limits, "tagsPerImage", new Set(tags).size);
    await inPieces(ctx, on, found, tags, async (data, ids) => {
      await data.addTags(these(ids), tags);
      requireWithin(limits, "tagsPerImage", await data.tagCount(ids));
      return ids.length;
    });
    return {};
  };

  const remove = async (ctx: CallContext, on: string, found: Conditions, tags: readonly string[]) => {
    const count = await inPieces(ctx, on, found, tags, (data, ids) => data.removeTags(these(ids), tags));
    return { deletedCount: BigInt(count) };
  };

  return {
    async addTagsToBinaryDataByIDs({ binaryDataIds, binaryIds, tags }, ctx) {
      const ids = idsOf(binaryDataIds, binaryIds);
      return await add(ctx, describe(ids), these(ids), tags);
    },
    async addTagsToBinaryDataByFilter({ filter, tags }, ctx) {
      const found = await filtered(cloud, ctx, filter, "operator");
      return await add(ctx, describe(filter), found, tags);
    },
    async removeTagsFromBinaryDataByIDs({ binaryDataIds, binaryIds, tags }, ctx) {
      const ids = idsOf(binaryDataIds, binaryIds);
      return await remove(ctx, describe(ids), these(ids), tags);
    },
    async removeTagsFromBinaryDataByFilter({ filter, tags }, ctx) {
      const found = await filtered(cloud, ctx, filter, "operator");
      return await remove(ctx, describe(filter), found, tags);
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function boxHandlers(cloud: CloudContext) {
  const change = changer(cloud);
  return {
    async addBoundingBoxToImageByID({ binaryDataId, binaryId, ...box }, ctx) {
      const id = idOf(binaryDataId, binaryId);
      const added = { ...corners(box), label: box.label, confidence: box.confidence };
      return { bboxId: await change(ctx, id, (sql) => new BinaryData(sql).addBox(id, added)) };
    },
    async updateBoundingBox({ binaryDataId, binaryId, bboxId, ...box }, ctx) {
      const id = idOf(binaryDataId, binaryId);
      const given = { ...corners(box), label: box.label, confidence: box.confidence };
      const changed = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
      await change(ctx, id, (sql) => new BinaryData(sql).updateBox(id, bboxId, changed as Partial<LabelBox>));
      return {};
    },
    async removeBoundingBoxFromImageByID({ binaryDataId, binaryId, bboxId }, ctx) {
      const id = idOf(binaryDataId, binaryId);
      await change(ctx, id, (sql) => new BinaryData(sql).removeBox(id, bboxId));
      return {};
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function datasetHandlers({ audit }: CloudContext) {
  return {
    async addBinaryDataToDatasetByIDs({ binaryDataIds, binaryIds, datasetId: id }, ctx) {
      const ids = idsOf(binaryDataIds, binaryIds);
      await audit.change(actorOf(ctx), { kind: "dataset", id }, (sql) => new Datasets(sql).add(id, ids));
      return {};
    },
    async removeBinaryDataFromDatasetByIDs({ binaryDataIds, binaryIds, datasetId: id }, ctx) {
      const ids = idsOf(binaryDataIds, binaryIds);
      await audit.change(actorOf(ctx), { kind: "dataset", id }, (sql) => new Datasets(sql).remove(id, ids));
      return {};
    },
  } satisfies ServiceImpl<typeof DataService>;
}

function changer({ audit }: CloudContext) {
  return <T>(ctx: CallContext, id: string, work: (sql: Sql) => Promise<T>): Promise<T> =>
    audit.change(actorOf(ctx), { kind: "data", id }, work);
}

async function filtered(
  { access }: CloudContext,
  ctx: CallContext,
  filter: Filter | undefined,
  need: Role,
): Promise<Conditions> {
  return binaryConditions(filter, await access.reach(ctx.entity, need));
}

function these(ids: readonly string[]): Conditions {
  return new Conditions().only(`d.id IN (${placeholders(ids)})`, ...ids);
}

/** Ids in both forms; of the older form, which has several members, one member suffices. */
function idsOf(ids: readonly string[], older: readonly BinaryID[]): readonly string[] {
  const all = [...new Set([...ids, ...older.map(({ fileId }) => fileId)])];
  if (all.length <= IDS_MAX) return all;
  throw new SvcError("invalid_argument", `found ${all.length} ids, wanted at most ${IDS_MAX} in one call`);
}

function idOf(id: string, older: BinaryID | undefined): string {
  return id || older?.fileId || "";
}

/** The objects of a change, for the audit log. */
function describe(about: Filter | readonly string[] | undefined): string {
  if (!Array.isArray(about)) {
    return `matching ${JSON.stringify(toJson(FilterSchema, (about as Filter) ?? create(FilterSchema)))}`;
  }
  const more = about.length > NAMED_MAX ? ` and ${about.length - NAMED_MAX} more` : "";
  return about.slice(0, NAMED_MAX).join(" ") + more;
}

interface Corners {
  readonly xMinNormalized?: number;
  readonly yMinNormalized?: number;
  readonly xMaxNormalized?: number;
  readonly yMaxNormalized?: number;
}

function corners<C extends Corners>(box: C) {
  return {
    xMin: box.xMinNormalized as C["xMinNormalized"],
    yMin: box.yMinNormalized as C["yMinNormalized"],
    xMax: box.xMaxNormalized as C["xMaxNormalized"],
    yMax: box.yMaxNormalized as C["yMaxNormalized"],
  };
}
