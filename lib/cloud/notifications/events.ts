/**
 * Turns events into notifications: finds the triggers that wait for an event, checks their conditions, and stores the
 * notifications in the transaction that removes the event.
 */

import { type LogEntry, LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toMs } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { logFieldsOf } from "../../base/log/zap_fields.ts";
import { fromBinary } from "../../wire/rpc/proto.ts";
import type { Limits } from "../access/limits.ts";
import { type ConfigThreads, UnusableConfig } from "../config/config_threads.ts";
import { Conditions } from "../capture/filter.ts";
import { type DataOrigin, ORIGIN_COLUMNS } from "../capture/origins.ts";
import { payloadIn } from "../capture/payload.ts";
import { type PackedReading, TabularData } from "../data/tabular_data.ts";
import type { FileStore } from "../store/files.ts";
import { type Sql, type Store } from "../store/store.ts";
import type { ConditionJob } from "../triggers/conditions.ts";
import { Deliveries } from "./deliveries.ts";
import { type Around, type EventContent, messageFor } from "./messages.ts";
import {
  type LoggedEntries,
  type PartEvent,
  selectTriggers,
  takeEvent,
  type UploadedFile,
  type UploadedReadings,
} from "../triggers/outbox.ts";
import type { EventType, Trigger } from "../triggers/settings.ts";
import { findReceivers } from "./receivers.ts";

export interface EventParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly configs: ConfigThreads;
  readonly logger?: Logger;
}

/** A trigger that fires, and the content of its notifications. */
interface Firing {
  readonly trigger: Trigger;
  readonly content: EventContent;
}

const SLOW_MS = 10 * 60_000;
const SLOW_MAX = 10_000;
/** Entries in one notification. */
export const LOG_ENTRIES_MAX = 50;
/** Prefix of loggers for failed notifications, whose entries cause no further notifications. */
export const TRIGGER_LOGGER = "app.trigger.";

const STATUS: { readonly [T in "online" | "offline"]: EventType } = {
  online: "part_online",
  offline: "part_offline",
};

export class TriggerEvents {
  /** Parts with conditions that took too long, and when they are tried again. */
  readonly #slow = new Map<string, number>();

  constructor(private readonly parts: EventParts) {}

  /** Handles an event. Drops it if its part is gone or now belongs to another organization. */
  async handle(event: PartEvent): Promise<void> {
    const { store } = this.parts;
    const around = await this.#around(event);
    const triggers = around ? await selectTriggers(store, event.partId) : [];
    const firings = await this.#firings(event, triggers);
    await store.transaction(async (sql) => {
      if (!await takeEvent(sql, event.id) || !around) return;
      for (const firing of firings) await this.#notify(sql, event, firing, around);
    });
  }

  async #around({ partId, organizationId }: PartEvent): Promise<Around | undefined> {
    const [row] = await this.parts.store.query<Around>(
      `SELECT p.id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName",
         l.id AS "locationId", l.name AS "locationName", o.id AS "organizationId", o.name AS "organizationName"
       FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
         JOIN organizations o ON o.id = l.organization_id
       WHERE p.id = ? AND o.id = ?`,
      partId,
      organizationId,
    );
    return row;
  }

  async #firings(event: PartEvent, triggers: readonly Trigger[]): Promise<Firing[]> {
    const { facts } = event;
    const of = (type: EventType) => triggers.filter((one) => one.event.type === type);
    if (facts.kind === "online" || facts.kind === "offline") {
      return of(STATUS[facts.kind]).map((trigger) => ({ trigger, content: { kind: "status" } }));
    }
    if (facts.kind === "test") {
      const [trigger] = triggers.filter(({ name }) => name === facts.trigger);
      return trigger ? [{ trigger, content: exampleOf(trigger) }] : [];
    }
    if (facts.kind === "logs") {
      const [trigger] = of("conditional_logs_ingested").filter(({ name }) => name === facts.trigger);
      const entries = trigger ? await this.#entries(event.partId, trigger, facts) : [];
      return trigger && entries.length > 0 ? [{ trigger, content: { kind: "logs", entries } }] : [];
    }
    const synced = of("part_data_ingested").filter(({ event }) => event.dataTypes.includes(facts.type));
    if (facts.type !== "tabular") {
      const content = synced.length > 0 ? await this.#binary(facts) : undefined;
      return content ? synced.map((trigger) => ({ trigger, content })) : [];
    }
    return await this.#tabular(facts, event, synced, of("conditional_data_ingested"));
  }

  async #binary({ dataId, type }: UploadedFile): Promise<EventContent | undefined> {
    const [row] = await this.parts.store.query<DataOrigin & { receivedUs: number }>(
      `SELECT d.received_us AS "receivedUs", ${ORIGIN_COLUMNS}
       FROM binary_data d JOIN data_origins o ON o.id = d.origin_id WHERE d.id = ?`,
      dataId,
    );
    if (!row) return undefined;
    const times = timesOf(row.receivedUs, row.receivedUs);
    return { kind: "data", facts: { ...sourceOf(row), data_type: type, ...times, file_id: dataId } };
  }

  async #tabular(
    facts: UploadedReadings,
    event: PartEvent,
    synced: readonly Trigger[],
    conditional: readonly Trigger[],
  ): Promise<Firing[]> {
    const { store, files } = this.parts;
    const source = new Conditions().only("o.id = ?", facts.originId);
    const times = { captured: { fromUs: facts.fromUs, untilUs: facts.untilUs }, received: {} };
    const fired = new Map<Trigger, Firing>();
    let waiting: Trigger[] | undefined;
    let newest: PackedReading | undefined;
    let [origin, min, max]: [DataOrigin | undefined, number, number] = [undefined, Infinity, -Infinity];
    for await (const batch of new TabularData(store, files).scan(source, times, facts.storedMs)) {
      origin = batch.origin;
      waiting ??= conditional.filter(({ event }) => isOf(event.conditional!.dataCaptureMethod, batch.origin));
      for (const { receivedUs } of batch.rows) {
        [min, max] = [Math.min(min, receivedUs), Math.max(max, receivedUs)];
      }
      newest = batch.rows[batch.rows.length - 1];
      if (waiting.length === 0) continue;
      const conditions = waiting.map(({ event }) => event.conditional!.conditions?.evals ?? []);
      const payloads = batch.rows.map(({ payload }) => payload);
      const first = await this.#judge(event, { payloads, conditions });
      for (const [index, trigger] of waiting.entries()) {
        const row = batch.rows[first[index] ?? -1];
        if (!row) continue;
        const condition = { trigger_condition: { evals: conditions[index] } } as unknown as JsonObject;
        const data = dataOf(row);
        const about = { ...sourceOf(batch.origin), data_type: "tabular", ...condition, data };
        fired.set(trigger, { trigger, content: { kind: "data", facts: about } });
      }
      waiting = waiting.filter((trigger) => !fired.has(trigger));
    }
    if (!origin || !newest) return [];
    const about = {
      ...sourceOf(origin),
      data_type: "tabular",
      ...timesOf(min, max),
      file_id: facts.originId,
      data: dataOf(newest),
    };
    const content: EventContent = { kind: "data", facts: about };
    return [...synced.map((trigger) => ({ trigger, content })), ...fired.values()];
  }

  /**
   * Conditions that take too long count as not fulfilled, and are not checked again for a while, because others wait
   * for the same threads.
   */
  async #judge({ partId, organizationId }: PartEvent, job: ConditionJob): Promise<readonly number[]> {
    const { configs, clock, logger } = this.parts;
    const none = job.conditions.map(() => -1);
    if ((this.#slow.get(partId) ?? -Infinity) > clock.monotonicMs()) return none;
    this.#slow.delete(partId);
    try {
      return await configs.judge(organizationId, job);
    } catch (error) {
      if (!(error instanceof UnusableConfig)) throw error;
      if (this.#slow.size >= SLOW_MAX) this.#slow.delete(this.#slow.keys().next().value!);
      this.#slow.set(partId, clock.monotonicMs() + SLOW_MS);
      logger?.warn(`the conditions of triggers of part ${partId} rest for a while: ${messageOf(error)}`);
      return none;
    }
  }

  async #entries(
    partId: string,
    { event }: Trigger,
    { after, head }: LoggedEntries,
  ): Promise<JsonObject[]> {
    const rows = await this.parts.store.query<{ entry: Uint8Array }>(
      `SELECT entry FROM logs WHERE ${logConditions(event.logLevels)} ORDER BY number LIMIT ?`,
      partId,
      after,
      head,
      ...event.logLevels,
      LOG_ENTRIES_MAX,
    );
    return rows.map(({ entry }) => plainLog(fromBinary(LogEntrySchema, entry)));
  }

  async #notify(sql: Sql, event: PartEvent, { trigger, content }: Firing, around: Around): Promise<void> {
    const { limits, clock } = this.parts;
    const { organizationId, partId, facts } = event;
    const deliveries = new Deliveries(sql);
    const message = messageFor(trigger, around, content, event.atMs, facts.kind === "test");
    for (const notification of trigger.notifications) {
      const { type: kind, value, secondsBetweenNotifications } = notification;
      const receivers = await findReceivers(sql, notification, partId);
      const nobody = `no account is an owner of ${around.machineName}: there is nobody to mail to`;
      for (const target of receivers.length > 0 ? receivers : [value]) {
        const one = { organizationId, partId, trigger: trigger.name, kind, target, message };
        const nowMs = clock.nowMs();
        // The published control plane reports every change of a part's state, and logs at most once an hour.
        const everyMs = facts.kind === "data" ? secondsBetweenNotifications * 1000 : 0;
        if (everyMs > 0 && !await deliveries.isDue(one, everyMs, nowMs)) continue;
        const { error, isFirst } = await deliveries.count(organizationId, kind, limits, nowMs);
        const problem = receivers.length > 0 ? error : error ?? nobody;
        if (error === undefined || isFirst) await deliveries.add(one, nowMs, problem);
      }
    }
  }
}

/** The conditions on entries of a part after one number, up to another one, of some levels. */
export function logConditions(levels: readonly string[]): string {
  return `part_id = ? AND number > ? AND number <= ? AND level IN (${levels.map(() => "?").join(", ")})
    AND logger NOT LIKE '${TRIGGER_LOGGER}%'`;
}

/** Whether data has the source that a condition names: `sensor:thermometer:Readings`. Names may hold colons. */
function isOf(method: string, { componentType, componentName, methodName }: DataOrigin): boolean {
  const types = [componentType, componentType.slice(componentType.lastIndexOf(":") + 1)];
  return types.some((type) => method === `${type}:${componentName}:${methodName}`);
}

function sourceOf({ componentName, componentType, methodName }: DataOrigin): JsonObject {
  return { component_name: componentName, component_type: componentType, method_name: methodName };
}

function timesOf(minUs: number, maxUs: number): JsonObject {
  return { min_time_received: timeOf(minUs), max_time_received: timeOf(maxUs) };
}

function dataOf({ capturedUs, receivedUs, payload }: PackedReading): JsonObject {
  const metadata = { requested_at: timeOf(capturedUs), received_at: timeOf(receivedUs) };
  return { metadata, data: payloadIn(payload) };
}

function timeOf(us: number): string {
  return new Date(us / 1000).toISOString();
}

function plainLog(entry: LogEntry): JsonObject {
  const { time, level, host, loggerName, message, stack } = entry;
  const fields = logFieldsOf(entry) as JsonObject;
  return { time: timeOf(toMs(time) * 1000), level, host, logger_name: loggerName, message, fields, stack };
}

/** The content of a test notification, in the form of a real one. */
function exampleOf({ event }: Trigger): EventContent {
  const nowUs = 1_700_000_000_000_000;
  if (event.type === "part_online" || event.type === "part_offline") return { kind: "status" };
  if (event.type === "conditional_logs_ingested") {
    const [level = "error"] = event.logLevels;
    const entry = { level, host: "", logger_name: "test", message: "a test of this trigger" };
    return { kind: "logs", entries: [{ time: timeOf(nowUs), ...entry, fields: {}, stack: "" }] };
  }
  const [type = "", name = "", method = ""] = event.conditional?.dataCaptureMethod.split(":") ?? [];
  const source = { component_type: type, component_name: name, method_name: method };
  const data = { metadata: { requested_at: timeOf(nowUs), received_at: timeOf(nowUs) }, data: {} };
  return { kind: "data", facts: { ...source, data_type: "tabular", ...timesOf(nowUs, nowUs), data } };
}

/** Whether an error is a failure of the control plane itself, after which the same event is tried again. */
export function isPassing(error: unknown): boolean {
  return ["unavailable", "aborted", "deadline_exceeded", "canceled"].includes(SvcError.from(error).code);
}
