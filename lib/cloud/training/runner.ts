/**
 * Runs training jobs: starts waiting ones, organization by organization in turn, supervises the running ones, and
 * publishes their models.
 *
 * Any number of runners may share a database: one of them works on a job and repeatedly reports that it is alive; when
 * it stops doing so, its jobs wait again. Every started job ends, and its model is published if and only if it
 * completed.
 */

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { JOB_LEASE_MS, JobRunner } from "../../base/async/job_runner.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { type ArchiveFile, packed } from "../../base/files/archive.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Executors, Work } from "../executors/executor.ts";
import { releaseFile } from "../store/file_refs.ts";
import type { FileStore, StoredFile } from "../store/files.ts";
import { keepPackage } from "../packages/package_content.ts";
import { Keys, type NewKey, newKeySecret } from "../access/keys.ts";
import { PACKAGE_BYTES_MAX, Packages } from "../packages/packages.ts";
import type { Sql, Store } from "../store/store.ts";
import {
  type Ended,
  LOGS_KEPT_MS,
  queueOf,
  type TrainingJob,
  TrainingJobs,
  type TrainingQueueName,
} from "./training.ts";
import type { FairOrder, Waiting } from "./queue.ts";
import { TrainingLog } from "./log.ts";
import { outlastOutages, readThroughOutages } from "./outages.ts";
import { strangersFiles } from "../../base/files/strangers.ts";
import { isFinalState, type TrainingState } from "./state.ts";
import type { Usage } from "../access/usage.ts";

export interface TrainingOptions {
  readonly executors: Executors;
  readonly host: ReadFiles & WriteFiles;
  /** The working folder of jobs. Control planes that share a database may share it too. */
  readonly folder: string;
  /** Limit of waiting jobs of one organization. */
  readonly waitingMax?: number;
  /**
   * Limit of running jobs of one organization per executor; by default half of the executor's capacity, so that others
   * have room.
   */
  readonly runningMax?: number;
}

interface RunnerOptions extends TrainingOptions {
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly usage: Usage;
}

/** Interval of the search for orders that another control plane received. */
const LOOK_MS = 1_000;
/** Time limit of a job. */
const JOB_MS_MAX = 24 * 3600 * 1000;
/** How many waiting jobs get a log line when their place changes. */
const LOGGED_MAX = 20;
const QUEUES: readonly TrainingQueueName[] = ["managed", "custom"];
const PAUSE_MS = 1_000;
/** Limits of a job's output. */
const OUTPUT_LIMITS = { filesMax: 100_000, bytesMax: PACKAGE_BYTES_MAX, except: "tmp" };
/** Limit of unpublished files that the log names. */
const LEFT_OUT_MAX = 20;

/** The job belongs to another runner, or is gone: nothing to report. */
class Lost extends SvcError {
  constructor(id: string) {
    super("failed_precondition", `training job ${id} now belongs to another runner`);
  }
}

/** The control plane stops: the job begins anew at another one, or after the start. */
class Stopped extends SvcError {
  constructor() {
    super("aborted", "the control plane stops");
  }
}

export class TrainingRunner {
  /** Of jobs whose remains are removed here. */
  readonly #cleanerId = randomUUID();
  readonly #jobs: JobRunner<{ readonly queue: TrainingQueueName }>;
  #isFolderCleared = false;

  constructor(private readonly options: RunnerOptions) {
    const { store } = options;
    this.#jobs = new JobRunner({
      ...options,
      everyMs: LOOK_MS,
      problem: "cannot look after training jobs",
      steps: {
        renew: (untilMs) => store.transaction((sql) => new TrainingJobs(sql).renew(this.#jobs.id, untilMs)),
        recover: () => this.#resolveLost(),
        look: () => this.#lookAfterOwn(),
        startNext: () => this.#startNext(),
      },
    });
  }

  get executors(): Executors {
    return this.options.executors;
  }

  get waitingMax(): number | undefined {
    return this.options.waitingMax;
  }

  /** Limit of running jobs of one organization. */
  runningMax(queue: TrainingQueueName): number {
    return this.options.runningMax ?? Math.ceil((this.executors[queue]?.capacity ?? 1) / 2);
  }

  /** Searches for work at once, because a job has arrived or has to be canceled. */
  wake(): void {
    this.#jobs.wake();
  }

  /** Ends the running jobs here; they wait for another control plane, or for the next start. */
  async close(): Promise<void> {
    await this.#jobs.close(new Stopped());
  }

  async forgetOld(): Promise<void> {
    const { store, clock } = this.options;
    await store.transaction((sql) => new TrainingJobs(sql).forgetLogs(clock.nowMs() - LOGS_KEPT_MS));
  }

  /** Ends jobs that have to be canceled, and jobs of dead runners. */
  async #lookAfterOwn(): Promise<void> {
    if (!this.#isFolderCleared) await this.#clearFolder();
    if (this.#jobs.running.size === 0) return;

    const ours = await new TrainingJobs(this.options.store).running({ runner: this.#jobs.id });
    const states = new Map(ours.map(({ id, state }) => [id, state]));
    for (const [id, { cancel }] of this.#jobs.running) {
      const state = states.get(id);
      if (state === "canceling") cancel(new SvcError("canceled", "canceled on request"));
      if (state === undefined) cancel(new Lost(id));
    }
  }

  /**
   * Lets the jobs of dead runners wait again. First such a job is nobody's for a while: a runner that was only cut off
   * notices, and ends its work. Then one runner has it to itself, to remove what is left of it.
   */
  async #resolveLost(): Promise<void> {
    for (const job of await new TrainingJobs(this.options.store).running({ lapsedMs: this.#nowMs })) {
      const { id, runner } = job;
      if (this.#jobs.running.has(id) || !await this.#takeOver(job) || runner !== undefined) continue;
      await this.options.host.removeTree(this.#folderOf(id));
      await this.options.executors[queueOf(job)]?.abandon?.(id);
      const interrupt = (jobs: TrainingJobs, nowMs: number) => jobs.interrupt(id, true, nowMs);
      await this.#endOurs(id, interrupt, this.#cleanerId).catch((error) => {
        if (!(error instanceof Lost)) throw error;
      });
    }
  }

  /** Whether no other runner was faster. */
  async #takeOver({ id, runner }: TrainingJob): Promise<boolean> {
    return await this.options.store.transaction(async (sql) => {
      const jobs = new TrainingJobs(sql);
      const nowMs = this.#nowMs;
      const still = (await jobs.running({ lapsedMs: nowMs })).some((one) =>
        one.id === id && one.runner === runner
      );
      if (still) {
        await jobs.handOver(id, runner === undefined ? this.#cleanerId : undefined, nowMs + JOB_LEASE_MS);
      }
      return still;
    });
  }

  get #nowMs(): number {
    return this.options.clock.nowMs();
  }

  async #startNext(): Promise<boolean> {
    for (const queue of QUEUES) if (await this.#startFrom(queue)) return true;
    return false;
  }

  /** Whether there was a job, and room for it. */
  async #startFrom(queue: TrainingQueueName): Promise<boolean> {
    const { store, clock, executors } = this.options;
    const executor = executors[queue];
    const busy = [...this.#jobs.running.values()].filter(({ facts }) => facts.queue === queue).length;
    if (!executor || busy >= executor.capacity) return false;
    const runningMax = this.runningMax(queue);
    if ((await new TrainingJobs(store).waiting(queue, runningMax)).startable === 0) return false;
    const job = await store.transaction(async (sql) => {
      const jobs = new TrainingJobs(sql);
      const before = await jobs.waiting(queue, runningMax);
      const [first] = before.jobs;
      if (!first || before.startable === 0) return undefined;
      // Its last run here has not ended yet.
      if (this.#jobs.running.has(first.id)) return undefined;
      const nowMs = clock.nowMs();
      const started = await jobs.start(first.id, this.#jobs.id, nowMs + JOB_LEASE_MS, nowMs);
      await logQueuePositions(jobs, before, await jobs.waiting(queue, runningMax), nowMs);
      return started;
    });
    if (!job) return false;
    this.#jobs.start(job.id, { queue }, (signal) => this.#run(job, signal));
    return true;
  }

  async #run(job: TrainingJob, canceled: AbortSignal): Promise<void> {
    const { store, clock, logger } = this.options;
    const tooLong = () => {
      return new SvcError("deadline_exceeded", `the job took more than ${JOB_MS_MAX / 3600_000} hours`);
    };
    const { signal, done } = deadline(clock, JOB_MS_MAX, tooLong, canceled);
    const log = new TrainingLog(job.id, store, clock, logger);
    try {
      log.write("info", "training begins");
      const facts = await this.#work(job, log, signal);
      signal.throwIfAborted();
      await log.close();
      await outlastOutages(clock, signal, () => this.#publish(job, facts));
    } catch (thrown) {
      await log.close();
      await this.#giveUp(job, signal.aborted ? signal.reason : SvcError.from(thrown));
    } finally {
      done();
      await this.options.host.removeTree(this.#folderOf(job.id)).catch((error) =>
        logger.warn(`cannot remove the folder of training job ${job.id}: ${chainOf(error)}`)
      );
    }
  }

  async #work(job: TrainingJob, log: TrainingLog, signal: AbortSignal): Promise<JsonObject> {
    const { store, files, clock, executors } = this.options;
    const executor = (job.script ? executors.custom : executors.managed)!;
    const folder = this.#folderOf(job.id);
    await this.options.host.removeTree(folder);
    await this.options.host.makeFolder(join(folder, "output"), { mode: 0o700 });
    const work: Work = {
      job,
      folder,
      signal,
      images: await new TrainingJobs(store).images(job.id),
      read: (sha256) => readThroughOutages(files, sha256, clock, signal),
      log: (level, message) => log.write(level, message),
      apiKey: job.script && executor.reachesUs ? await this.#keyFor(job) : undefined,
    };
    signal.throwIfAborted();
    return await executor.run(work);
  }

  async #keyFor({ id, organizationId, script }: TrainingJob): Promise<NewKey> {
    const secret = await newKeySecret("svc-cloud");
    const grant = { role: "operator", kind: "organization", resourceId: organizationId } as const;
    return await this.options.store.transaction(async (sql) => {
      const name = `training job ${id} (${script!.id})`;
      const key = await new Keys(sql).create(secret, name, [grant], this.options.clock.nowMs());
      await new TrainingJobs(sql).giveKey(id, key.id);
      return key;
    });
  }

  /** One transaction stores the model's package and the end of the job. */
  async #publish(job: TrainingJob, metadata: JsonObject): Promise<void> {
    const { id, organizationId, modelName: name, modelVersion: version } = job;
    const output = join(this.#folderOf(id), "output");
    const leftOut: string[] = [];
    const reported = (path: string, why: string) => {
      if (leftOut.length < LEFT_OUT_MAX) leftOut.push(`"${path}" ${why}: it is not published`);
    };
    const add = async (sql: Sql, file: StoredFile, nowMs: number) => {
      const info = { organizationId, name, version, type: "ml_model", platform: "", metadata, file } as const;
      return (await new Packages(sql).add(info, nowMs)).id;
    };
    await keepPackage(this.options, organizationId, packed(someFiles(output, reported)), async (file) => {
      const state = await this.#endOurs(id, async (jobs, nowMs, sql) => {
        await jobs.log(id, leftOut.map((message) => ({ atMs: nowMs, level: "warn", message })));
        return await jobs.complete(id, () => add(sql, file, nowMs), nowMs);
      });
      // The job has ended regularly, but nothing refers to the file.
      if (state !== "completed") throw new Lost(id);
    });
  }

  /** Records why a job has ended; retries as long as no other runner can have done so. */
  async #giveUp(job: TrainingJob, error: SvcError): Promise<void> {
    if (error instanceof Lost) return;
    const { clock, logger } = this.options;
    const untilMs = clock.monotonicMs() + JOB_LEASE_MS;
    for (;;) {
      try {
        await this.#endOurs(job.id, (jobs, nowMs) => {
          return error instanceof Stopped
            ? jobs.interrupt(job.id, false, nowMs)
            : jobs.fail(job.id, "fail", error, nowMs);
        });
        return;
      } catch (failure) {
        if (failure instanceof Lost) return;
        logger.warn(`cannot end training job ${job.id}: ${chainOf(failure)}`);
        if (clock.monotonicMs() >= untilMs) return;
        await clock.sleep(PAUSE_MS);
      }
    }
  }

  /** Moves a job on. Throws `Lost` if it is another runner's by now. */
  async #endOurs(
    id: string,
    work: (jobs: TrainingJobs, nowMs: number, sql: Sql) => Promise<Ended>,
    runner = this.#jobs.id,
  ): Promise<TrainingState> {
    const { state, contents } = await this.options.store.transaction(async (sql) => {
      const jobs = new TrainingJobs(sql);
      const nowMs = this.#nowMs;
      if (!(await jobs.running({ runner })).some((job) => job.id === id)) throw new Lost(id);
      const ended = await work(jobs, nowMs, sql);
      if (isFinalState(ended.state)) await logEnd(jobs, id, nowMs);
      return ended;
    });
    await letGo(this.options, contents);
    return state;
  }

  #folderOf(id: string): string {
    return join(this.options.folder, id);
  }

  /** Removes what earlier runners left behind, once. */
  async #clearFolder(): Promise<void> {
    const { folder, store, host, logger } = this.options;
    this.#isFolderCleared = true;
    try {
      await host.makeFolder(folder, { mode: 0o700 });
      for (const name of await host.readFolder(folder)) {
        const job = await new TrainingJobs(store).get(name).catch(() => undefined);
        if (!job || isFinalState(job.state)) await host.removeTree(join(folder, name));
      }
    } catch (error) {
      logger.warn(`cannot clear the folder of jobs: ${chainOf(error)}`);
    }
  }
}

/** Removes contents to which neither the job nor anything else refers any more. */
export async function letGo(
  { store, files, logger }: Pick<RunnerOptions, "store" | "files" | "logger">,
  contents: readonly string[],
): Promise<void> {
  for (const sha256 of contents) {
    await releaseFile(store, files, sha256).catch((error) =>
      logger.warn(`cannot remove the file ${sha256}: ${chainOf(error)}`)
    );
  }
}

/** Logs the places of the first waiting jobs if they have changed, and always that of a new job. */
export async function logQueuePositions(
  jobs: TrainingJobs,
  before: FairOrder<Waiting>,
  now: FairOrder<Waiting>,
  nowMs: number,
  added?: string,
): Promise<void> {
  for (const [place, { id }] of now.jobs.entries()) {
    if (id !== added && (place >= LOGGED_MAX || before.jobs[place]?.id === id)) continue;
    await jobs.log(id, [{ atMs: nowMs, level: "info", message: queueLine(place) }]);
  }
}

/** The log line of a waiting job. */
function queueLine(before: number): string {
  return before === 0 ? "waiting: next in the queue" : `waiting: ${before} before it in the queue`;
}

/** The last line of a job's log. */
export async function logEnd(jobs: TrainingJobs, id: string, nowMs: number): Promise<void> {
  const { state, error, modelName, modelVersion } = await jobs.get(id);
  let message: string = error ? `failed: ${error.message}` : state;
  if (state === "completed") {
    message = `completed: version "${modelVersion}" of model "${modelName}" is in the registry`;
  }
  await jobs.log(id, [{ atMs: nowMs, level: error ? "error" : "info", message }]);
}

/** The files to publish. Throws `failed_precondition` if there are none. */
async function* someFiles(
  output: string,
  leftOut: (path: string, why: string) => void,
): AsyncGenerator<ArchiveFile> {
  let none = true;
  for await (const file of strangersFiles(output, OUTPUT_LIMITS, leftOut)) {
    none = false;
    yield file;
  }
  if (none) throw new SvcError("failed_precondition", "there is no result: the output folder is empty");
}
