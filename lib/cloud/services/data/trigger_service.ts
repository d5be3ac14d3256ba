/**
 * TriggerService. Thin, as `fleet_service.ts`.
 */

import type { TriggerDeliverySchema, TriggerService } from "../../../../proto/gen/triggers_pb.ts";
import { toTimestamp } from "../../../api/shared/time.ts";
import { SvcError } from "../../../base/error.ts";
import type { MessageInitShape } from "../../../wire/rpc/proto.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import { actorOf, type CloudContext } from "../../access/context.ts";
import { Parts } from "../../tenants/parts.ts";
import { queryByIds, type Sql } from "../../store/store.ts";
import {
  Deliveries,
  type Delivery,
  DELIVERY_STATES,
  type DeliveryCursor,
  shownTarget,
} from "../../notifications/deliveries.ts";
import { noteEvent, selectTriggers, triggersPage } from "../../triggers/outbox.ts";
import { cutPage } from "../context.ts";

const PAGE = 100;
const PAGE_MAX = 1_000;
/** Limit of the dead notifications that one call sends again. */
const AGAIN_MAX = 1_000;
/** Limit of the letters of a receiver and of notes. */
const SHOWN_MAX = 300;

interface PartNames {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
}

type TriggerContext = Pick<CloudContext, "store" | "audit" | "limits">;

export function triggerHandlers({ store, audit, limits }: TriggerContext) {
  return {
    async listTriggers({ organizationId, pageToken }) {
      if (!/^[\w-]{0,100}$/.test(pageToken)) throw unknownPage(pageToken);
      const { parts, next: nextPageToken } = await triggersPage(store, organizationId, pageToken);
      const all = parts.flatMap(({ triggers, ...part }) =>
        triggers.map(({ name, event, notes = "", notifications }) => ({
          ...part,
          name,
          event: event.type,
          notes: shortened(notes),
          receivers: notifications.map(({ value }) => shortened(shownTarget(value))),
        }))
      );
      const wanted = all.map(({ partId, name: trigger }) => ({ partId, trigger }));
      const newest = new Map<string, Delivery>();
      for (const one of await new Deliveries(store).newest(organizationId, wanted)) {
        newest.set(JSON.stringify([one.partId, one.trigger]), one);
      }
      const triggers = all.map((one) => {
        const last = newest.get(JSON.stringify([one.partId, one.name]));
        return { ...one, last: last && deliveryMessage(last, one) };
      });
      return { triggers, nextPageToken };
    },
    async listDeliveries({ organizationId, state: wanted, limit, pageToken }) {
      const state = DELIVERY_STATES.find((one) => one === wanted);
      if (wanted !== "" && !state) {
        throw new SvcError(
          "invalid_argument",
          `found state "${wanted}", wanted one of ${DELIVERY_STATES.join(", ")}`,
        );
      }
      const count = Math.min(limit || PAGE, PAGE_MAX);
      const after = pageToken === "" ? undefined : parseDeliveryCursor(pageToken);
      const found = await new Deliveries(store).list({ organizationId, state, after, limit: count + 1 });
      const { page, nextPageToken } = cutPage(found, count, ({ createdMs, id }) => `${createdMs}:${id}`);
      const names = await partNames(store, organizationId, page);
      return { deliveries: page.map((one) => deliveryMessage(one, names.get(one.partId))), nextPageToken };
    },
    async testTrigger({ partId, trigger }, ctx) {
      const part = await new Parts(store).get(partId);
      const known = (await selectTriggers(store, partId)).some(({ name }) => name === trigger);
      if (!known) throw new SvcError("not_found", `the part has no trigger "${trigger}"`);
      const on = { kind: "part", id: partId } as const;
      await audit.change(
        actorOf(ctx),
        on,
        (sql, nowMs) => noteEvent(sql, part, { kind: "test", trigger }, nowMs),
      );
      return {};
    },
    async retryDeliveries({ organizationId, id }, ctx) {
      const some = id === "" ? { limit: AGAIN_MAX } : { id };
      const on = { kind: "organization", id: organizationId } as const;
      const again = await audit.change(
        actorOf(ctx),
        on,
        (sql, nowMs) => new Deliveries(sql).retry({ organizationId, ...some }, nowMs, limits),
      );
      if (again > 0 || id === "") return { again };
      throw new SvcError("not_found", `there is no dead notification "${id}" in this organization`);
    },
  } satisfies ServiceImpl<typeof TriggerService>;
}

function deliveryMessage(
  one: Delivery,
  { partName = "", machineId = "", machineName = "" }: Partial<PartNames> = {},
): Omit<MessageInitShape<typeof TriggerDeliverySchema>, "$typeName"> {
  return {
    id: one.id,
    partId: one.partId,
    partName,
    machineId,
    machineName,
    trigger: one.trigger,
    receiver: shortened(shownTarget(one.target)),
    state: one.state,
    attempts: one.attempts,
    error: one.error,
    created: toTimestamp(one.createdMs),
    next: one.state === "pending" ? toTimestamp(one.nextMs) : undefined,
    ended: one.endedMs === null ? undefined : toTimestamp(one.endedMs),
  };
}

/** The names of the parts that still belong to the organization. */
async function partNames(
  sql: Sql,
  organizationId: string,
  deliveries: readonly Delivery[],
): Promise<ReadonlyMap<string, PartNames>> {
  const ids = [...new Set(deliveries.map(({ partId }) => partId))];
  const found = await queryByIds<PartNames & { readonly organizationId: string }>(
    sql,
    ids,
    (places) =>
      `SELECT p.id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName",
         l.organization_id AS "organizationId"
       FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
       WHERE p.id IN (${places})`,
  );
  return new Map(
    found.filter((one) => one.organizationId === organizationId).map((one) => [one.partId, one]),
  );
}

function shortened(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

function parseDeliveryCursor(token: string): DeliveryCursor {
  const [, createdMs, id] = /^(\d{1,15}):([\w-]{1,100})$/.exec(token) ?? [];
  if (id !== undefined) return { createdMs: Number(createdMs), id };
  throw unknownPage(token);
}

function unknownPage(token: string): SvcError {
  return new SvcError("invalid_argument", `found page token "${token}", wanted one from an earlier page`);
}
