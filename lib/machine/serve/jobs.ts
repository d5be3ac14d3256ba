/**
 * Jobs: calls that the machine makes by itself, periodically.
 *
 * It owns one loop for each configured job, and the history of its runs. A job is an ordinary client: its calls pass
 * the same services and limits. A job never overlaps itself: a run that is still under way at the next due time delays
 * the next run (a duration) or replaces it (cron). A changed configuration lets a run under way finish and leaves the
 * other jobs alone.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger, Logs } from "../../base/log/log.ts";
import { suggest } from "../../base/schema/suggest.ts";
import { comparableJson } from "../../base/schema/schema.ts";
import { type Channel, client } from "../../wire/rpc/channel.ts";
import type { DescMethod, JsonObject, Message } from "../../wire/rpc/proto.ts";
import { shownJson } from "../../wire/rpc/shown_json.ts";
import type { AnyApi } from "../../resource/registry.ts";
import { type JobConfig, jobLogger } from "../config/config.ts";
import type { Machine } from "../graph/machine.ts";
import { parseSchedule, type Schedule } from "../config/schedule.ts";

/** Remembered runs of each outcome (published). */
const HISTORY = 10;
/** Pause of a continuous job: a cheap call must not occupy the whole machine. */
const CONTINUOUS_PAUSE_MS = 5;
/** Pause after a failed run, because failures are often fast. */
const FAILED_PAUSE_MS = 1_000;
/** Longest sleep towards a calendar time: somebody may set the system's time meanwhile. */
const CALENDAR_SLEEP_MS = 60_000;
/** A clock that is set by less is corrected; beyond that it was wrong. The limit is that of Debian's cron. */
const CORRECTION_MS = 3 * 3_600_000;

/** The ends of a job's last runs, oldest first. */
export interface JobStatus {
  readonly name: string;
  readonly succeededMs: readonly number[];
  readonly failedMs: readonly number[];
}

export interface JobsParts {
  readonly machine: Pick<Machine, "nodes" | "registry">;
  /** A channel to the machine's own services. */
  readonly channel: Channel;
  readonly clock: Clock;
  readonly logs: Logs;
}

export class Jobs {
  readonly #parts: JobsParts;
  readonly #logger: Logger;
  readonly #jobs = new Map<string, Job>();
  /** Loops that have not ended, those of removed jobs included. */
  readonly #loops = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();

  constructor(parts: JobsParts) {
    this.#parts = parts;
    this.#logger = parts.logs.logger("rdk.job_manager");
  }

  /** Every configured job, in order. */
  statuses(): JobStatus[] {
    return [...this.#jobs.values()].map(({ history }) => history);
  }

  /** Starts, replaces and stops jobs to match these. Unchanged jobs are left alone. */
  apply(configs: readonly JobConfig[]): void {
    if (this.#closing.signal.aborted) return;
    const old = new Map(this.#jobs);
    this.#jobs.clear();

    for (const config of configs) {
      const { name } = config;
      const before = old.get(name);
      old.delete(name);
      if (before && fingerprint(before.config) === fingerprint(config)) {
        this.#jobs.set(name, before);
        continue;
      }
      before?.stop();
      this.#parts.logs.logger(jobLogger(name)).info(before ? "Job modified" : "Job created", { name });
      this.#start(config, before?.history);
    }

    for (const [name, job] of old) {
      this.#logger.info("Removing job", { name });
      job.stop();
    }
  }

  /** Ends all jobs and cancels their calls. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the machine is shutting down"));
    for (const job of this.#jobs.values()) job.stop();
    await Promise.all(this.#loops.values());
  }

  #start(config: JobConfig, history?: JobHistory): void {
    const { name } = config;
    const job = new Job(
      config,
      this.#parts,
      this.#parts.logs.logger(jobLogger(name)),
      this.#closing.signal,
      history,
    );
    this.#jobs.set(name, job);
    const before = this.#loops.get(name) ?? Promise.resolve();
    const loop = before.then(() => job.loop()).finally(() => {
      if (this.#loops.get(name) === loop) this.#loops.delete(name);
    });
    this.#loops.set(name, loop);
  }
}

/** The identity of a job: a difference makes it another one. */
function fingerprint({ schedule, resource, method, command }: JobConfig): string {
  return comparableJson([schedule, resource, method, command]);
}

interface JobHistory extends JobStatus {
  readonly succeededMs: number[];
  readonly failedMs: number[];
}

class Job {
  readonly history: JobHistory;
  readonly #stop = new AbortController();
  /** Last due time of a schedule by duration, on the clock that never goes back. */
  #dueMs: number | undefined;
  /** Last calendar time for which it ran. */
  #calendarMs: number | undefined;

  constructor(
    readonly config: JobConfig,
    private readonly parts: JobsParts,
    private readonly logger: Logger,
    private readonly closing: AbortSignal,
    history?: JobHistory,
  ) {
    this.history = history ?? { name: config.name, succeededMs: [], failedMs: [] };
  }

  /** Starts no further run; one under way ends by itself. */
  stop(): void {
    this.#stop.abort(new SvcError("canceled", "the job was stopped"));
  }

  /** Runs until stopped. Never rejects. */
  async loop(): Promise<void> {
    const schedule = parseSchedule(this.config.schedule);
    if (!schedule) return this.logger.error(`schedule "${this.config.schedule}" is not valid`);
    try {
      for (;;) await this.#turn(schedule);
    } catch (error) {
      if (!this.#stop.signal.aborted) this.logger.error(`the job ended: ${chainOf(error)}`);
    }
  }

  /** One run and the wait before it, or after it. */
  async #turn(schedule: Schedule): Promise<void> {
    this.#stop.signal.throwIfAborted();
    if (schedule.kind === "continuous") {
      const good = await this.#run();
      await this.parts.clock.sleep(good ? CONTINUOUS_PAUSE_MS : FAILED_PAUSE_MS, this.#stop.signal);
      return;
    }
    if (schedule.kind === "every") await this.#nextMultiple(schedule.everyMs);
    else await this.#nextDate(schedule.nextMs);
    await this.#run();
  }

  async #nextMultiple(everyMs: number): Promise<void> {
    const { clock } = this.parts;
    const nowMs = clock.monotonicMs();
    const lastMs = this.#dueMs ?? nowMs;
    // Of the times that passed during the run, the last one is made up for.
    const steps = Math.max(1, Math.floor((nowMs - lastMs) / everyMs));
    const dueMs = this.#dueMs = lastMs + steps * everyMs;
    for (let ms = dueMs - nowMs; ms > 0; ms = dueMs - clock.monotonicMs()) {
      await clock.sleep(ms, this.#stop.signal);
    }
  }

  /** Waits for the next calendar time, also while somebody sets the system's time. */
  async #nextDate(nextMs: (afterMs: number) => number | undefined): Promise<void> {
    const { clock } = this.parts;
    for (;;) {
      const nowMs = clock.nowMs();
      const aheadMs = (this.#calendarMs ?? nowMs) - nowMs;
      // As cron does: a clock that is corrected a little repeats no run; after a large correction its time counts.
      const dueMs = nextMs(aheadMs > 0 && aheadMs < CORRECTION_MS ? nowMs + aheadMs : nowMs);
      if (dueMs === undefined) throw new SvcError("out_of_range", "its schedule has no further time");
      await clock.sleep(Math.min(dueMs - nowMs, CALENDAR_SLEEP_MS), this.#stop.signal);
      const lateMs = clock.nowMs() - dueMs;
      if (lateMs < 0) continue;
      this.#calendarMs = dueMs;
      if (lateMs < CORRECTION_MS) return;
      // A clock without a battery gets its time from the network, or the computer slept: what nobody expects now does
      // not run now.
      const hours = Math.round(lateMs / 3_600_000);
      this.logger.warn(
        `a run that was due ${hours} hours before is left out: the clock was set, or stood still`,
      );
    }
  }

  async #run(): Promise<boolean> {
    const { name } = this.config;
    this.logger.debug("Job triggered", { name });
    try {
      const { method, answer } = await callMethod(this.config, this.parts, this.closing);
      this.#remember("succeededMs");
      this.logger.debug("Job succeeded", () => ({ name, response: shownJson(method.output, answer) }));
      return true;
    } catch (error) {
      if (this.closing.aborted) return false;
      this.#remember("failedMs");
      this.logger.warn("Job failed", { name, error: chainOf(error) });
      return false;
    }
  }

  /** Notes a run that ended. Times ahead of the clock are of a clock that was set back, and would hide later runs. */
  #remember(outcome: "succeededMs" | "failedMs"): void {
    const nowMs = this.parts.clock.nowMs();
    for (const times of [this.history.succeededMs, this.history.failedMs]) {
      times.splice(0, times.length, ...times.filter((timeMs) => timeMs <= nowMs));
    }
    const times = this.history[outcome];
    times.push(nowMs);
    if (times.length > HISTORY) times.shift();
  }
}

/** One call of a job's method: `DoCommand` gets its command, other methods only the resource's name. */
async function callMethod(
  { resource, method: wanted, command }: JobConfig,
  { machine, channel }: JobsParts,
  signal: AbortSignal,
): Promise<{ method: DescMethod; answer: Message }> {
  const { namedBy, method, short } = methodOf(resource, wanted, machine);
  const field = namedBy.find((name) => method.input.fields.some(({ localName }) => localName === name));
  if (method.methodKind !== "unary" || !field) {
    const found = field ? `a ${method.methodKind.replace("_", "-")} method` : "a method of no resource";
    throw new SvcError("invalid_argument", `${wanted} is ${found}, wanted a unary method of "${resource}"`);
  }
  const request = { [field]: short, ...(wanted === "DoCommand" ? { command: command as JsonObject } : {}) };
  const call = client(method.parent, channel)[method.localName] as unknown as Call;
  return { method, answer: await call(request, { signal }) };
}

type Call = (request: { [field: string]: unknown }, options: { signal: AbortSignal }) => Promise<Message>;

/** The method by its published name, and the resource's short name, in whichever API has it. */
function methodOf(
  resource: string,
  wanted: string,
  { nodes, registry }: JobsParts["machine"],
): { namedBy: AnyApi["namedBy"]; method: DescMethod; short: string } {
  const names = [...nodes].map(({ name }) => name);
  const exact = names.filter(({ short, full }) => [short, full].includes(resource));
  // Clients know a remote's resource without the remote; a local one hides it.
  const named = exact.length > 0
    ? exact
    : names.filter(({ api, simple }) => [simple, `${api}/${simple}`].includes(resource));
  if (named.length === 0) throw new SvcError("not_found", `there is no resource "${resource}"`);

  const methods = named.flatMap(({ api: apiName, full, short }) => {
    const api = registry.api(apiName);
    return api ? api.desc.methods.map((method) => ({ namedBy: api.namedBy, method, full, short })) : [];
  });
  const found = methods.filter(({ method }) => method.name === wanted);
  const [first, ...more] = found;
  if (first && more.length === 0) return first;
  if (first) {
    const all = found.map(({ full }) => full).join(" or ");
    throw new SvcError("failed_precondition", `"${resource}" is ambiguous, wanted ${all}`);
  }

  const known = [...new Set(methods.map(({ method }) => method.name))];
  const likely = suggest(wanted, known);
  const hint = likely ? `did you mean ${likely}?` : `it has ${known.join(", ")}`;
  throw new SvcError("unimplemented", `"${resource}" has no method ${wanted}; ${hint}`);
}
