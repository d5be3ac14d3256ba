/**
 * Runs data pipelines: schedules their windows, and works on the runs that are due.
 *
 * Any number of runners may share a database: one of them claims a run and repeatedly renews its lease. If it stops,
 * another one starts the window again. A run shares the turns of its organization's queries.
 */

import { randomUUID } from "node:crypto";
import { PeriodicWork } from "../../../base/async/periodic_work.ts";
import type { Clock } from "../../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import type { Usage } from "../../access/usage.ts";
import type { ReadingQueries } from "./queries.ts";
import { lastsOfFiles } from "../../readings/lasts.ts";
import type { ClockCheck } from "../../store/clock_check.ts";
import type { FileStore } from "../../store/files.ts";
import type { Sql, Store } from "../../store/store.ts";
import { type ClaimedRun, DataPipelines, RUN_LEASE_MS } from "../../pipelines/pipelines.ts";

interface PipelineParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly clockCheck: ClockCheck;
  readonly logger: Logger;
  readonly usage: Usage;
  readonly queries: ReadingQueries;
}

const LOOK_MS = 5_000;
/** Limit of concurrent runs; one per organization, as for queries. */
const RUNNING_MAX = 2;
/** The share of runs that are the latest of their organization; the others are those that have waited longest. */
const NEWEST_SHARE = 0.5;
/** The pause after a failure of the control plane itself. */
const AGAIN_MS = 60_000;
/** Windows, late uploads and pipelines in one look. */
const AT_ONCE = 50;
const PASSING = ["unavailable", "aborted", "canceled"];

export class PipelineRunner {
  readonly #id = randomUUID();
  readonly #work: PeriodicWork;
  readonly #running = new Map<string, { readonly organizationId: string; readonly done: Promise<void> }>();

  constructor(private readonly parts: PipelineParts) {
    const steps = [() => this.#renew(), () => this.#schedule(), () => this.#catchUp(), () => this.#start()];
    const every = { everyMs: LOOK_MS, problem: "cannot look after data pipelines" };
    this.#work = new PeriodicWork({ ...parts, ...every }, steps);
  }

  async close(): Promise<void> {
    await this.#work.close(new SvcError("unavailable", "the control plane is stopping"));
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  /** Forgets old runs. */
  async forgetOld(): Promise<void> {
    await this.parts.store.transaction((sql) => new DataPipelines(sql).forgetRuns());
  }

  async #renew(): Promise<void> {
    const nowMs = this.parts.clock.nowMs();
    if (this.#running.size > 0) await this.#change((all) => all.renew(this.#id, nowMs + RUN_LEASE_MS));
    await this.#change((all) => all.recover(nowMs, AT_ONCE));
  }

  /** Schedules the windows that are over, including those that were missed while no control plane ran. */
  async #schedule(): Promise<void> {
    const { store, clockCheck } = this.parts;
    // Of a wrong time, windows would be computed that are not over yet, and not again when they are.
    const nowMs = await clockCheck.rightMs();
    if (nowMs === undefined) return;
    for (let count = 0; count < AT_ONCE;) {
      const due = await new DataPipelines(store).due(nowMs, AT_ONCE);
      if (due.length === 0) return;
      for (const pipeline of due) await this.#change((all) => all.scheduleNext(pipeline, nowMs));
      count += due.length;
    }
  }

  /** Schedules the windows of late readings, and of readings that are older than their pipeline. */
  async #catchUp(): Promise<void> {
    const { store, files, clock } = this.parts;
    for (let count = 0; count < AT_ONCE; count++) {
      if (!await this.#change((all) => all.scheduleLate(clock.nowMs()))) break;
    }
    for (const pipeline of await new DataPipelines(store).backfilling(AT_ONCE)) {
      const lasts = await lastsOfFiles(store, files, pipeline.organizationId, pipeline.backfillMs! * 1000);
      await this.#change((all) => all.scheduleEarlier(pipeline, lasts, clock.nowMs()));
    }
  }

  async #start(): Promise<void> {
    const { clock } = this.parts;
    const free = RUNNING_MAX - this.#running.size;
    if (free <= 0) return;
    const busy = [...this.#running.values()].map(({ organizationId }) => organizationId);
    const nowMs = clock.nowMs();
    // After weeks of stop, the present must not wait for the past, nor the past for ever.
    const times = { nowMs, leaseMs: nowMs + RUN_LEASE_MS, newest: Math.random() < NEWEST_SHARE };
    const claimed = await this.#change((all) => all.claim(free, busy, this.#id, times));
    for (const run of claimed) {
      const done = this.#run(run).finally(() => {
        this.#running.delete(run.id);
        this.#work.wake();
      });
      this.#running.set(run.id, { organizationId: run.organizationId, done });
    }
  }

  async #run(run: ClaimedRun): Promise<void> {
    const { clock, logger, queries, usage } = this.parts;
    const { signal } = this.#work;
    const { id, organizationId, mql, fromMs, untilMs } = run;
    try {
      const stamp = { id, fromMs, untilMs, organizationId };
      const documents = await queries.run([organizationId, "pipelines"], { mql }, signal, { stamp });
      const bytes = documents.reduce((sum, { length }) => sum + length, 0);
      await usage.take(organizationId, "sinkBytesPerOrganization", bytes);
      await this.#change((all) => all.complete(run, documents, clock.nowMs()));
    } catch (error) {
      // Another control plane finds it when its lease ends; this one, when it starts again.
      if (signal.aborted) return;
      const nowMs = clock.nowMs();
      const isPassing = PASSING.includes(SvcError.from(error).code);
      await this.#change((all) => {
        return isPassing
          ? all.again(run, messageOf(error), nowMs, nowMs + AGAIN_MS)
          : all.fail(run, messageOf(error), nowMs);
      }).catch((again) => logger.warn(`cannot note the end of pipeline run ${id}: ${chainOf(again)}`));
    }
  }

  #change<T>(work: (all: DataPipelines) => Promise<T>): Promise<T> {
    return this.parts.store.transaction((sql: Sql) => work(new DataPipelines(sql)));
  }
}
