/**
 * Finds the events that triggers wait for, and sends their notifications.
 *
 * Any number of runners may share a database. A pass does a bounded piece of work, and only a few notifications are
 * under way at the same time, even fewer of one organization, so that a slow receiver delays only its own
 * organization.
 *
 * The room owns notifications: the events that cause them, their messages, and their delivery.
 */

import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";
import { PeriodicWork } from "../../base/async/periodic_work.ts";
import { create } from "../../wire/rpc/proto.ts";
import { LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toTimestamp } from "../../api/shared/time.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { LogStore } from "../logs/logs.ts";
import { type ClaimedDelivery, Deliveries } from "./deliveries.ts";
import { type EventParts, isPassing, TRIGGER_LOGGER, TriggerEvents } from "./events.ts";
import { oldestEvents, type PartEvent, takeEvent } from "../triggers/outbox.ts";
import { Busy, NotificationSender, type SenderOptions, Undeliverable } from "./sender.ts";
import { TriggerWatch } from "./watch.ts";

interface TriggerParts extends EventParts {
  readonly logger: Logger;
  readonly logs: LogStore;
}

const LOOK_MS = 1_000;
const PARTS_MS = 5_000;
const EVENTS_AT_ONCE = 32;
/** Limit of organizations whose events are handled at the same time, and how long a pass waits for them. */
const HANDLING_MAX = 16;
const HANDLE_MS = 500;
/** Notifications under way: of all organizations, and of one. */
const SENDING_MAX = 16;
const SENDING_OF_ORGANIZATION_MAX = 4;
/** Lease of a notification, longer than an attempt can take. */
const LEASE_MS = 60_000;
/** The pauses after failed attempts double from 10 s to 6 hours; a random part adds up to a fifth. */
const RETRY: BackoffLimits = { firstMs: 12_000, mostMs: 7.2 * 3600 * 1000, jitter: 1 / 6 };
const ATTEMPTS_MAX = 14;

export class TriggerRunner {
  readonly #events: TriggerEvents;
  readonly #sender: NotificationSender;
  readonly #watch: TriggerWatch;
  readonly #work: PeriodicWork;
  readonly #sending = new Map<string, { readonly organizationId: string; readonly done: Promise<void> }>();
  /** By organization. */
  readonly #handling = new Map<string, Promise<void>>();
  #partsAtMs = -Infinity;

  constructor(private readonly parts: TriggerParts, sender: SenderOptions) {
    const { store, clock } = parts;
    this.#events = new TriggerEvents(parts);
    this.#sender = new NotificationSender(store, clock, sender);
    this.#watch = new TriggerWatch(store, clock);
    const steps = [
      () => this.#lookAtParts(clock.monotonicMs()),
      () => this.#watch.lookAtLogs(),
      () => this.#handleEvents(),
      () => this.#startSending(),
    ];
    const every = { everyMs: LOOK_MS, problem: "cannot look after triggers" };
    this.#work = new PeriodicWork({ ...parts, ...every }, steps);
  }

  async close(): Promise<void> {
    await this.#work.close(new SvcError("unavailable", "the control plane is stopping"));
    await Promise.all(this.#handling.values());
    await Promise.all([...this.#sending.values()].map(({ done }) => done));
  }

  /** Forgets notifications that ended long ago. */
  async forgetOld(): Promise<void> {
    const { store, clock } = this.parts;
    while (await store.transaction((sql) => new Deliveries(sql).forget(clock.nowMs())));
  }

  async #lookAtParts(nowMs: number): Promise<void> {
    if (nowMs - this.#partsAtMs < PARTS_MS) return;
    this.#partsAtMs = nowMs;
    await this.#watch.lookAtParts();
  }

  async #handleEvents(): Promise<void> {
    const events = await oldestEvents(this.parts.store, EVENTS_AT_ONCE);
    // An organization with slow conditions delays only itself.
    for (const [organizationId, some] of Map.groupBy(events, (one) => one.organizationId)) {
      if (this.#handling.has(organizationId) || this.#handling.size >= HANDLING_MAX) continue;
      const done = this.#handle(some).finally(() => this.#handling.delete(organizationId));
      this.#handling.set(organizationId, done);
    }
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#work.signal]);
    const pause = this.parts.clock.sleep(HANDLE_MS, signal).catch(() => {});
    await Promise.race([Promise.all(this.#handling.values()), pause]);
    over.abort();
    await pause;
  }

  async #handle(events: readonly PartEvent[]): Promise<void> {
    const { store, logger } = this.parts;
    for (const event of events) {
      if (this.#work.signal.aborted) return;
      try {
        await this.#events.handle(event);
      } catch (error) {
        if (this.#work.signal.aborted) return;
        if (isPassing(error)) return logger.warn(`cannot look after triggers: ${chainOf(error)}`);
        // The event is dropped, because it would fail again, and block all others.
        const { partId, facts } = event;
        logger.warn(`an event (${facts.kind}) of part ${partId} comes to nothing: ${chainOf(error)}`);
        await store.transaction((sql) => takeEvent(sql, event.id)).catch(() => {});
      }
    }
  }

  async #startSending(): Promise<void> {
    const { store, clock } = this.parts;
    const free = SENDING_MAX - this.#sending.size;
    if (free <= 0) return;
    const counts = Map.groupBy(this.#sending.values(), ({ organizationId }) => organizationId);
    const busy = [...counts].filter(([, some]) => some.length >= SENDING_OF_ORGANIZATION_MAX).map(([id]) =>
      id
    );
    const nowMs = clock.nowMs();
    const claimed = await store.transaction((sql) => {
      const most = { all: free, ofOrganization: SENDING_OF_ORGANIZATION_MAX };
      return new Deliveries(sql).claim(most, busy, nowMs, nowMs + LEASE_MS);
    });
    for (const one of claimed) {
      const done = this.#send(one).finally(() => {
        this.#sending.delete(one.id);
        this.#work.wake();
      });
      this.#sending.set(one.id, { organizationId: one.organizationId, done });
    }
  }

  async #send(delivery: ClaimedDelivery): Promise<void> {
    const { store, clock, logger } = this.parts;
    const { signal } = this.#work;
    const { id } = delivery;
    try {
      const failure = await this.#sender.send(delivery, signal).then(() => undefined, (error) => ({ error }));
      // An attempt that was interrupted by the end of this program does not count; another control plane takes it
      // over.
      if (failure && signal.aborted) return;
      const nowMs = clock.nowMs();
      if (!failure) return await store.transaction((sql) => new Deliveries(sql).delivered(id, nowMs));
      const message = messageOf(failure.error);
      if (failure.error instanceof Undeliverable || delivery.attempts + 1 >= ATTEMPTS_MAX) {
        await store.transaction((sql) => new Deliveries(sql).died(id, message, nowMs));
        return await this.#tell(delivery, message, nowMs);
      }
      const afterMs = failure.error instanceof Busy ? failure.error.afterMs : 0;
      const nextMs = nowMs + Math.max(afterMs, backoffMs(RETRY, delivery.attempts + 1));
      await store.transaction((sql) => new Deliveries(sql).failed(id, message, nextMs));
    } catch (error) {
      logger.warn(`cannot note the outcome of notification ${id}: ${chainOf(error)}`);
    }
  }

  /** Informs the machine's people, in its log, of a notification that did not reach its receiver. */
  async #tell(delivery: ClaimedDelivery, message: string, nowMs: number): Promise<void> {
    const { logs } = this.parts;
    const { partId, organizationId, trigger, kind, target } = delivery;
    const text = `cannot notify ${kind} ${target} of trigger "${trigger}": ${message}`;
    const entry = create(LogEntrySchema, {
      time: toTimestamp(nowMs),
      level: "error",
      loggerName: `${TRIGGER_LOGGER}${trigger}`,
      message: text,
    });
    await logs.add({ id: partId, organizationId }, [entry], nowMs);
  }
}
