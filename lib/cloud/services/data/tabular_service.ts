/**
 * DataService, the readings. Thin, as `fleet_service.ts`.
 */

import {
  type CaptureInterval,
  type CaptureMetadataSchema,
  type DataRequest,
  type DataService,
  DeleteTabularFilterSchema,
  Order,
} from "../../../../proto/gen/data_pb.ts";
import { toMs, toTimestamp } from "../../../api/shared/time.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { create, type MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf } from "../../access/context.ts";
import type { ServiceContext } from "../context.ts";
import type { BinaryPage } from "../../data/binary_data.ts";
import { type Conditions, tabularConditions, toMicros } from "../../capture/filter.ts";
import { captureMetadata } from "../../capture/origins.ts";
import { ReadingRemoval } from "../../readings/removal.ts";
import type { Sql } from "../../store/store.ts";
import { type ReadingQuery, TabularData } from "../../data/tabular_data.ts";

const PAGE = 50;
const PAGE_MAX = 1_000;
const DAY_MS = 24 * 3600 * 1000;
const REMOVE_AT_ONCE = 5_000;

/** The requested page, newest first by default. */
export function pageOf(request: DataRequest | undefined): BinaryPage {
  return {
    limit: Math.min(Number(request?.limit ?? 0n) || PAGE, PAGE_MAX),
    order: request?.sortOrder === Order.ASCENDING ? "oldest first" : "newest first",
    last: request?.last ?? "",
  };
}

export function tabularHandlers(context: ServiceContext) {
  const { store, files, access, audit, clock } = context;
  const tabular = new TabularData(store, files);
  const removal = new ReadingRemoval(context);
  return {
    async tabularDataByFilter({ dataRequest, countOnly }, ctx) {
      const found = tabularConditions(dataRequest?.filter ?? {}, await access.reach(ctx.entity, "viewer"));
      if (countOnly) {
        const { count, bytes } = await tabular.count(found);
        return { count: BigInt(count), totalSizeBytes: BigInt(bytes) };
      }
      const { readings, last } = await tabular.page(found, pageOf(dataRequest));
      const metadata = new Indexed<MessageInitShape<typeof CaptureMetadataSchema>>();
      const data = readings.map((one) => ({
        data: one.payload,
        metadataIndex: metadata.add(one.id.slice(0, one.id.indexOf(":")) + one.tags, {
          ...captureMetadata(one),
          tags: [...one.tags],
        }),
        timeRequested: toTimestamp(one.capturedUs / 1000),
        timeReceived: toTimestamp(one.receivedUs / 1000),
      }));
      const totalSizeBytes = BigInt(readings.reduce((sum, { bytes }) => sum + bytes, 0));
      return { metadata: metadata.all, data, count: BigInt(readings.length), totalSizeBytes, last };
    },
    async getLatestTabularData(request) {
      const found = await tabular.latest(queryOf(request));
      return found === undefined ? {} : {
        timeCaptured: toTimestamp(found.capturedUs / 1000),
        timeSynced: toTimestamp(found.storedMs),
        payload: found.payload,
      };
    },
    async *exportTabularData(request) {
      for await (const one of tabular.export(queryOf(request))) {
        yield {
          partId: one.partId,
          resourceName: one.componentName,
          resourceSubtype: one.componentType,
          methodName: one.methodName,
          timeCaptured: toTimestamp(one.capturedUs / 1000),
          organizationId: one.organizationId,
          locationId: one.locationId,
          robotName: one.machineName,
          robotId: one.machineId,
          partName: one.partName,
          methodParameters: JSON.parse(one.parameters),
          tags: [...one.tags],
          payload: one.payload,
        };
      }
    },
    async deleteTabularData({ organizationId: id, deleteOlderThanDays, filter }, ctx) {
      const only = filter ?? create(DeleteTabularFilterSchema);
      const untilMs = clock.nowMs() - deleteOlderThanDays * DAY_MS;
      const reach = await access.reach(ctx.entity, "owner");
      const found = tabularConditions({ ...only, organizationIds: [id] }, reach);
      if (deleteOlderThanDays > 0) found.within("captured", { untilUs: toMicros(untilMs) - 1 });
      const change = <T>(work: (sql: Sql) => Promise<T>) =>
        audit.change(actorOf(ctx), { kind: "organization", id }, work);
      const own = await removeOwn(found, change);
      // After the table: readings move from there into files.
      const moved = await removal.remove(found, [id, ctx.entity ?? ""], ctx.signal, change);
      return { deletedCount: BigInt(own + moved) };
    },
  } satisfies ServiceImpl<typeof DataService>;
}

/** Removes readings from the table. Returns how many. */
async function removeOwn(
  found: Conditions,
  change: (work: (sql: Sql) => Promise<number>) => Promise<number>,
): Promise<number> {
  let [removed, gone] = [0, REMOVE_AT_ONCE];
  while (gone >= REMOVE_AT_ONCE) {
    gone = await change((sql) => new TabularData(sql).remove(found, REMOVE_AT_ONCE));
    removed += gone;
  }
  return removed;
}

function queryOf(request: {
  readonly partId: string;
  readonly resourceName: string;
  readonly resourceSubtype: string;
  readonly methodName: string;
  readonly additionalParameters?: JsonObject;
  readonly interval?: CaptureInterval;
}): ReadingQuery {
  const { partId, resourceName, resourceSubtype, methodName, additionalParameters, interval } = request;
  return {
    partId,
    resourceName,
    resourceSubtype,
    methodName,
    parameters: additionalParameters,
    fromMs: interval?.start && toMs(interval.start),
    untilMs: interval?.end && toMs(interval.end),
  };
}

/** A list without duplicates, with lookup by value. */
class Indexed<T> {
  readonly all: T[] = [];
  readonly #places = new Map<string, number>();

  add(key: string, value: T): number {
    const place = this.#places.get(key) ?? this.all.length;
    if (place === this.all.length) this.all.push(value);
    this.#places.set(key, place);
    return place;
  }
}
