/**
 * Advances rollouts: checks the health of machines, reverts changes, and changes the next machines.
 *
 * The whole state of a rollout is in the database, so it survives the end of a control plane. One control plane at a
 * time works on a rollout; if two do, each change is still made once. A pass does a bounded piece of work, so that a
 * large rollout delays no other.
 */

import { LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toTimestamp } from "../../api/shared/time.ts";
import { PeriodicWork } from "../../base/async/periodic_work.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import { create } from "../../wire/rpc/proto.ts";
import { requireConfigQuota } from "../access/usage.ts";
import { ChangedMeanwhile, tryAgain } from "../config/fragments/fragment_texts.ts";
import { PartConfigs } from "../config/part_config.ts";
import type { ConfigContext } from "../config/config_threads.ts";
import { type Part, Parts } from "../tenants/parts.ts";
import { checkForOperator, savePartConfig } from "../fleet/part_saving.ts";
import { onlineTimes } from "../tenants/presence.ts";
import type { LogStore } from "../logs/logs.ts";
import type { Sql } from "../store/store.ts";
import { changed, undone } from "./change.ts";
import { decided } from "./decision.ts";
import { readBaseline, readingProblem, readPartFacts, verdictOf } from "./health.ts";
import { isWithin } from "./plan.ts";
import { type Rollout, type RolloutPart, type RolloutPartState, Rollouts } from "./rollouts.ts";

interface RolloutParts extends ConfigContext {
  readonly logs: LogStore;
}

const LOOK_MS = 1_000;
/** Interval of the passes of one rollout, and how long a pass may take before another control plane takes over. */
const EVERY_MS = 5_000;
const LEASE_MS = 60_000;
const ROLLOUTS_A_LOOK = 8;
/** Parts in one pass: limit of those whose health is checked, and of those whose configuration is changed. */
const WATCHED_MAX = 500;
const CHANGED_MAX = 20;
/** After a start, or after failed passes, machines get this time to report, because the control plane was away. */
const GRACE_MS = 90_000;
const BREAK_MS = 30_000;
/** The clock counts as right once it has gone on evenly for so long: at the start of a computer it may be years behind. */
const EVEN_MS = 10 * 60_000;
const LEAP_MS = 60_000;
/** Further away than any time of a clock. */
const NEVER_MS = Number.MAX_SAFE_INTEGER / 2;
const IN_FLIGHT: readonly RolloutPartState[] = ["applied", "taken"];
const LOGGER = "svc-cloud.rollouts";

export class RolloutRunner {
  readonly #work: PeriodicWork;
  #lookedMs: number;
  #settledMs: number;
  /** What the clock was ahead of the program's own count at the last look, and since when, by that count. */
  #clockIs = { aheadMs: NaN, sinceMs: 0 };

  constructor(private readonly parts: RolloutParts) {
    this.#lookedMs = parts.clock.monotonicMs();
    this.#settledMs = this.#lookedMs + GRACE_MS;
    const every = { everyMs: LOOK_MS, problem: "cannot look after rollouts" };
    this.#work = new PeriodicWork({ ...parts, ...every }, [(signal) => this.#lookAtDue(signal)]);
  }

  async close(): Promise<void> {
    await this.#work.close();
  }

  async #lookAtDue(signal: AbortSignal): Promise<void> {
    const { store, clock, logger } = this.parts;
    const lookMs = clock.monotonicMs();
    if (lookMs - this.#lookedMs > BREAK_MS) this.#settledMs = lookMs + GRACE_MS;
    this.#lookedMs = lookMs;

    for (let looked = 0; looked < ROLLOUTS_A_LOOK && !signal.aborted; looked++) {
      const nowMs = clock.nowMs();
      const aheadMs = this.#isClockEven(nowMs, lookMs) ? LEASE_MS : NEVER_MS;
      // Most checks find nothing, and this costs less than a transaction.
      if (!await new Rollouts(store).hasDue(nowMs, aheadMs)) return;
      const taken = await store.transaction((sql) => new Rollouts(sql).takeDue(nowMs, LEASE_MS, aheadMs));
      if (!taken) return;
      // Its work counts for its organization.
      await store.forCaller({ group: taken.organizationId, signal }, () => this.#lookAt(taken)).catch(
        (error) => {
          if (!signal.aborted) logger.warn(`cannot go on with rollout ${taken.id}: ${chainOf(error)}`);
        },
      );
    }
  }

  #isClockEven(nowMs: number, countMs: number): boolean {
    const aheadMs = nowMs - countMs;
    const hasLeapt = !(Math.abs(aheadMs - this.#clockIs.aheadMs) < LEAP_MS);
    if (hasLeapt) this.#clockIs = { aheadMs, sinceMs: countMs };
    return countMs - this.#clockIs.sinceMs >= EVEN_MS;
  }

  async #lookAt(rollout: Rollout): Promise<void> {
    await this.#watch(rollout);
    await this.#revert(rollout);
    await this.#decide(rollout);
    await this.#apply(await new Rollouts(this.parts.store).get(rollout.id));
    await this.#scheduleNext(rollout.id);
  }

  /** A rollout that has ended and has nothing to revert is not scheduled. */
  async #scheduleNext(id: string): Promise<void> {
    const { store, clock } = this.parts;
    await store.transaction(async (sql) => {
      const rollouts = new Rollouts(sql);
      const { state } = await rollouts.get(id);
      const rests = state !== "running" && !await rollouts.hasParts(id, [...IN_FLIGHT, "reverting"]);
      await rollouts.lookAgain(id, rests ? null : clock.nowMs() + EVERY_MS);
    });
  }

  // Health.

  async #watch(rollout: Rollout): Promise<void> {
    const { store, clock, presence } = this.parts;
    const nowMs = clock.nowMs();
    const watched = await new Rollouts(store).parts(rollout.id, { states: IN_FLIGHT, limit: WATCHED_MAX });
    const facts = await readPartFacts(store, presence, watched, nowMs);
    const isSettled = clock.monotonicMs() >= this.#settledMs;
    for (const part of watched) {
      const judged = part.organizationId === rollout.organizationId
        ? verdictOf(rollout, part, facts.get(part.partId)!, nowMs, isSettled)
        : "moved";
      const verdict = judged === "healthy" ? await this.#withReadings(rollout, part) : judged;
      if (verdict === undefined) continue;
      await store.transaction(async (sql) => {
        await new Rollouts(sql).turnPart(rollout.id, part.partId, [part.state], turnOf(verdict, nowMs));
      });
    }
  }

  async #withReadings({ plan }: Rollout, part: RolloutPart) {
    const { store: sql, files, configs } = this.parts;
    const problem = await readingProblem({ sql, files, configs }, part, plan, part.takenMs!);
    return problem === undefined ? "healthy" as const : { problem };
  }

  // Reverting.

  async #revert(rollout: Rollout): Promise<void> {
    const rollouts = new Rollouts(this.parts.store);
    const parts = await rollouts.parts(rollout.id, { states: ["reverting"], limit: CHANGED_MAX });
    for (const part of parts) {
      if (this.#work.signal.aborted) return;
      await this.#revertPart(rollout, part).catch((error) => this.#leave(rollout, part, "kept", error));
    }
  }

  async #revertPart(rollout: Rollout, row: RolloutPart): Promise<void> {
    const { store, clock } = this.parts;
    const isDone = await tryAgain(clock, async () => {
      const part = await new Parts(store).get(row.partId);
      const { config, revision } = await new PartConfigs(store).get(part.id);
      const isHere = part.organizationId === rollout.organizationId;
      const before = isHere && row.undo ? undone(config, rollout.change, row.undo) : undefined;
      if (!before) {
        const why = isHere
          ? "somebody has changed the same setting since, so it stays"
          : "it was moved to another organization";
        return await this.#finish(rollout, row, "kept", why);
      }
      const checked = await checkForOperator(this.parts, part, JSON.stringify(before));
      const actor = { who: rollout.who, action: "RevertRollout" };
      await this.parts.audit.change(actor, { kind: "part", id: part.id }, async (sql, nowMs) => {
        await saveAt(sql, part, checked, { revision, who: rollout.who, nowMs });
        const turn = { state: "reverted" as const };
        if (!await new Rollouts(sql).turnPart(rollout.id, part.id, ["reverting"], turn)) throw new Gone();
        await new Rollouts(sql).releasePart(rollout.id, part.id);
      });
      return true;
    });
    if (isDone && row.reason !== "") await this.#tell(rollout, row, clock.nowMs());
  }

  /** Informs the machine's people in its log. */
  async #tell(
    rollout: Rollout,
    { partId, organizationId, reason }: RolloutPart,
    nowMs: number,
  ): Promise<void> {
    const message = `rollout "${rollout.name}" is taken back on this machine: ${reason}`;
    const entry = create(LogEntrySchema, {
      time: toTimestamp(nowMs),
      ...{ host: "svc-cloud", level: "warn", loggerName: LOGGER, message },
    });
    await this.parts.logs.add({ id: partId, organizationId }, [entry], nowMs);
  }

  // Advancing.

  async #decide({ id }: Rollout): Promise<void> {
    const { store, clock } = this.parts;
    // Steps without machines pass at once.
    for (;;) {
      const hasMore = await store.transaction(async (sql) => {
        const rollouts = new Rollouts(sql);
        const now = await rollouts.get(id);
        if (now.state !== "running") return false;
        const nowMs = clock.nowMs();
        const counts = (await rollouts.counts([id])).get(id) ?? [];
        const online = await onlineWaiting(rollouts, now, nowMs, 1);
        const decision = decided(now, counts, online.length, nowMs);
        if (decision.kind === "step") await rollouts.goTo(id, now.step, decision.step, nowMs);
        if (decision.kind === "halt") await rollouts.turn(id, ["running"], "halted", decision.reason, nowMs);
        if (decision.kind === "complete") {
          await rollouts.turnParts(id, ["waiting"], "skipped", "it was offline all the time");
          await rollouts.turn(id, ["running"], "completed", decision.reason, nowMs);
        }
        return decision.kind === "step";
      });
      if (!hasMore) return;
    }
  }

  async #apply(rollout: Rollout): Promise<void> {
    const { store, clock } = this.parts;
    const { id, plan } = rollout;
    if (rollout.state !== "running" || !isWithin(plan.windows, clock.nowMs())) return;
    const rollouts = new Rollouts(store);
    const busy = plan.atOnce > 0 ? await rollouts.countIn(id, IN_FLIGHT) : 0;
    const free = plan.atOnce > 0 ? Math.max(0, plan.atOnce - busy) : CHANGED_MAX;
    const next = await onlineWaiting(rollouts, rollout, clock.nowMs(), Math.min(free, CHANGED_MAX));
    for (const part of next) {
      if (this.#work.signal.aborted) return;
      await this.#applyPart(rollout, part).catch((error) => this.#leave(rollout, part, "skipped", error));
    }
  }

  async #applyPart(rollout: Rollout, row: RolloutPart): Promise<void> {
    const { store, audit, clock, limits } = this.parts;
    await tryAgain(clock, async () => {
      const part = await new Parts(store).get(row.partId);
      const { config, revision } = await new PartConfigs(store).get(part.id);
      const made = part.organizationId === rollout.organizationId
        ? changed(config, rollout.change)
        : "it was moved to another organization";
      if (typeof made === "string") return await this.#finish(rollout, row, "skipped", made);
      const text = JSON.stringify(made.config);
      await requireConfigQuota(this.parts, part.organizationId, text.length);
      const checked = await checkForOperator(this.parts, part, text);
      const baseline = await readBaseline(store, part.id, rollout.plan.soakMs, clock.nowMs());
      const actor = { who: rollout.who, action: "ApplyRollout" };
      await audit.change(actor, { kind: "part", id: part.id }, async (sql, nowMs) => {
        const rollouts = new Rollouts(sql);
        await requireCapacity(rollouts, rollout);
        await saveAt(sql, part, checked, { revision, who: rollout.who, nowMs });
        await new PartConfigs(sql).keepNewest(part.id, limits.revisionsPerPart, limits.configBytesPerPart);
        const now = { undo: made.undo, baseline, revision: revision + 1, appliedMs: nowMs };
        if (!await rollouts.turnPart(rollout.id, part.id, ["waiting"], { state: "applied", ...now })) {
          throw new Gone();
        }
      });
      return true;
    });
  }

  /** A part that fails by itself counts. A failure of the control plane does not, and the next pass tries again. */
  async #leave(rollout: Rollout, row: RolloutPart, state: "kept" | "skipped", error: unknown): Promise<void> {
    const { code } = SvcError.from(error);
    if (error instanceof Gone) return;
    if (code === "not_found") return;
    if (!["invalid_argument", "failed_precondition", "resource_exhausted"].includes(code)) throw error;
    await this.#finish(rollout, row, state, messageOf(error), state === "skipped");
  }

  async #finish(
    rollout: Rollout,
    { partId, state: from }: RolloutPart,
    state: "kept" | "skipped",
    reason: string,
    unhealthy?: boolean,
  ): Promise<false> {
    await this.parts.store.transaction(async (sql) => {
      const rollouts = new Rollouts(sql);
      await rollouts.turnPart(rollout.id, partId, [from], { state, reason, unhealthy });
      await rollouts.releasePart(rollout.id, partId);
    });
    return false;
  }
}

/** Another control plane has taken this step, or the rollout no longer runs, so there is nothing to do. */
class Gone extends SvcError {
  constructor() {
    super("canceled", "the part of the rollout is in another state by now");
  }
}

/** Throws unless the rollout still runs and may change one more machine. */
async function requireCapacity(rollouts: Rollouts, { id, plan }: Rollout): Promise<void> {
  if (!await rollouts.isIn(id, "running")) throw new Gone();
  if (plan.atOnce > 0 && await rollouts.countIn(id, IN_FLIGHT) >= plan.atOnce) throw new Gone();
}

interface Saving {
  /** The checked revision. */
  readonly revision: number;
  readonly who: string;
  readonly nowMs: number;
}

async function saveAt(
  sql: Sql,
  part: Part,
  checked: Awaited<ReturnType<typeof checkForOperator>>,
  { revision, who, nowMs }: Saving,
): Promise<void> {
  const now = await new Parts(sql).get(part.id);
  if (now.revision !== revision) {
    throw new ChangedMeanwhile(`part "${part.id}" was changed meanwhile: try again`);
  }
  await savePartConfig(sql, now, checked, who, nowMs);
}

function onlineWaiting(rollouts: Rollouts, { id, step }: Rollout, nowMs: number, limit: number) {
  if (limit === 0) return Promise.resolve([]);
  return rollouts.parts(id, { states: ["waiting"], untilStep: step, seen: onlineTimes(nowMs), limit });
}

function turnOf(verdict: "moved" | Exclude<ReturnType<typeof verdictOf>, undefined>, nowMs: number) {
  if (verdict === "moved") return { state: "kept" as const, reason: "it was moved to another organization" };
  if (verdict === "taken") return { state: "taken" as const, takenMs: nowMs };
  if (verdict === "healthy") return { state: "healthy" as const };
  return { state: "reverting" as const, unhealthy: true, reason: verdict.problem };
}
