/**
 * DataService, the sequences. Thin, as `fleet_service.ts`.
 */

import type {
  DataService,
  Sequence as SequenceMessage,
  SequenceSchema,
  UpdateSequenceRequest,
} from "../../../../proto/gen/data_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { Limits } from "../../access/limits.ts";
import { requireQuota } from "../../access/quota.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import type { Sql } from "../../store/store.ts";
import { type Part, Parts } from "../../tenants/parts.ts";
import { BinaryData, itemCursor, parseItemCursor } from "../../data/binary_data.ts";
import { binaryMessage } from "../../data/binary_message.ts";
import { binaryConditions, keptMicros } from "../../capture/filter.ts";
import {
  ofSequence,
  type Sequence,
  type SequenceFields,
  type SequencePage,
  Sequences,
} from "../../data/sequences.ts";
import { cutPage } from "../context.ts";

const PAGE = 50;
const PAGE_MAX = 1_000;
const IDS_MAX = 1_000;

export function sequenceHandlers({ store, files, access, audit, limits }: CloudContext) {
  const sequences = new Sequences(store);
  return {
    async createSequence({ partId: id, resources, sequenceTags: tags, startTime, endTime }, ctx) {
      const [startUs, endUs] = [microsOf("start_time", startTime), microsOf("end_time", endTime)];
      const fields = { resources, tags, startUs, endUs };
      const isMachine = !await access.isPersonal(ctx.entity);
      return await audit.change(actorOf(ctx), { kind: "part", id }, async (sql, nowMs) => {
        const part = await new Parts(sql).get(id);
        return { id: await createWithin(sql, limits, part, fields, { isMachine, nowMs }) };
      });
    },
    async getSequence({ id }) {
      return { sequence: messageOf(await sequences.get(id)) };
    },
    async updateSequence({ id, ...request }, ctx) {
      const changes = changesIn(request);
      await audit.change(actorOf(ctx), { kind: "sequence", id }, async (sql, nowMs) => {
        await new Sequences(sql).update(id, changes, nowMs);
      });
      return {};
    },
    async deleteSequence({ id }, ctx) {
      await audit.change(actorOf(ctx), { kind: "sequence", id }, (sql) => new Sequences(sql).delete(id));
      return {};
    },
    async listSequences({ organizationId, pageSize, pageToken }) {
      return pageMessage(await sequences.page({ organizationId }, sizeOf(pageSize), pageToken));
    },
    async sequencesByDatasetID({ datasetId, pageSize, pageToken, countOnly }) {
      const count = BigInt(await sequences.countIn(datasetId));
      if (countOnly) return { count };
      const page = await sequences.page({ datasetId }, sizeOf(pageSize), pageToken);
      return { ...pageMessage(page), count };
    },
    /** The facts about each image or file; `BinaryDataByIDs` returns the contents. */
    async getSequenceBinaryData({ sequenceId, pageSize, pageToken: last }, ctx) {
      const sequence = await sequences.get(sequenceId);
      const found = ofSequence(
        binaryConditions(undefined, await access.reach(ctx.entity, "viewer")),
        sequence,
      ).only("o.organization_id = ?", sequence.organizationId);
      if (last !== "") parseItemCursor(last, "page_token");
      const limit = sizeOf(pageSize);
      const items = await new BinaryData(store).page(found, {
        limit: limit + 1,
        order: "oldest first",
        last,
      });
      const { page, nextPageToken } = cutPage(items, limit, itemCursor);
      const data = await Promise.all(page.map((item) => binaryMessage(files, item, false)));
      return { data, nextPageToken };
    },
    async addSequencesToDataset({ datasetId: id, sequenceIds }, ctx) {
      const ids = idsOf(sequenceIds);
      await audit.change(actorOf(ctx), { kind: "dataset", id }, (sql) => new Sequences(sql).addTo(id, ids));
      return {};
    },
    async removeSequencesFromDataset({ datasetId: id, sequenceIds }, ctx) {
      const ids = idsOf(sequenceIds);
      await audit.change(
        actorOf(ctx),
        { kind: "dataset", id },
        (sql) => new Sequences(sql).removeFrom(id, ids),
      );
      return {};
    },
  } satisfies ServiceImpl<typeof DataService>;
}

/** Creates a sequence, if the organization may have another one; returns its id. */
async function createWithin(
  sql: Sql,
  limits: Limits,
  part: Part,
  fields: SequenceFields,
  { isMachine, nowMs }: { readonly isMachine: boolean; readonly nowMs: number },
): Promise<string> {
  const sequences = new Sequences(sql);
  // A machine that hears nothing sends again.
  const same = isMachine ? await sequences.findSame(part, fields) : undefined;
  if (same !== undefined) return same;

  const id = await sequences.create(part, fields, nowMs);
  await requireQuota(sql, limits, "sequencesPerOrganization", part.organizationId);
  return id;
}

function sizeOf(pageSize: number): number {
  return Math.min(pageSize || PAGE, PAGE_MAX);
}

function idsOf(ids: readonly string[]): readonly string[] {
  if (ids.length <= IDS_MAX) return ids;
  throw new SvcError("invalid_argument", `found ${ids.length} ids, wanted at most ${IDS_MAX} in one call`);
}

/** The fields that a request's mask names. */
function changesIn(
  { fieldMask, resources, sequenceTags, startTime, endTime }: Omit<UpdateSequenceRequest, "id">,
): Partial<SequenceFields> {
  const known: { readonly [path: string]: () => Partial<SequenceFields> } = {
    resources: () => ({ resources }),
    sequence_tags: () => ({ tags: sequenceTags }),
    start_time: () => ({ startUs: microsOf("start_time", startTime) }),
    end_time: () => ({ endUs: microsOf("end_time", endTime) }),
  };
  const wanted = `wanted one or more of ${Object.keys(known).join(", ")}`;
  const paths = fieldMask?.paths ?? [];
  if (paths.length === 0) throw new SvcError("invalid_argument", `field_mask is empty, ${wanted}`);
  const changes = paths.map((path) => {
    const change = Object.hasOwn(known, path) ? known[path] : undefined;
    if (change) return change();
    throw new SvcError("invalid_argument", `field_mask: found "${path}", ${wanted}`);
  });
  return Object.assign({}, ...changes);
}

function microsOf(what: string, time: SequenceMessage["startTime"]): number {
  if (!time) throw new SvcError("invalid_argument", `${what} is not given, wanted a time`);
  return keptMicros(what, time);
}

function pageMessage({ sequences, next }: SequencePage) {
  return { sequences: sequences.map(messageOf), nextPageToken: next };
}

function messageOf(sequence: Sequence): MessageInitShape<typeof SequenceSchema> {
  const { id, partId, tags, resources, startUs, endUs, createdMs, updatedMs, datasetIds } = sequence;
  return {
    id,
    partId,
    sequenceTags: [...tags],
    resources: [...resources],
    startTime: toTimestamp(startUs / 1000),
    endTime: toTimestamp(endUs / 1000),
    createdAt: toTimestamp(createdMs),
    updatedAt: toTimestamp(updatedMs),
    datasetIds: [...datasetIds],
  };
}
