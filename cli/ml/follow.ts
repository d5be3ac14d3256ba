/**
 * Follows a job to its end: its log lines as they come, and on a terminal a bar, the figures and the loss curve.
 *
 * It retries an unreachable control plane at growing intervals. The job does not depend on its watchers: Ctrl-C ends
 * only the watching, and prints how to resume it.
 */

import { type BackoffLimits, requestPauseMs } from "../../lib/base/async/backoff.ts";
import { type TrainingJobLogEntry, TrainingJobLogEntrySchema } from "../../proto/gen/ml_training_pb.ts";
import { toMs } from "../../lib/api/shared/time.ts";
import { deadline } from "../../lib/base/clock.ts";
import { isRetryable, messageOf, SvcError } from "../../lib/base/error.ts";
import {
  hasEnded,
  LogReader,
  type MlTrainingClient,
  statusName,
  type TrainingJobMetadata,
  TrainingStatus,
} from "../../lib/cloud_client/training_client.ts";
import { lengthText, timeText } from "../table.ts";
import { ML_EXIT } from "./command.ts";
import { lossOf, parseProgress, type ProgressLine, progressLine, trainingLeftMs } from "./progress.ts";
import type { MlCommandContext } from "./command_context.ts";

/** Interval of the polls of a job. */
const POLL_MS = 1_000;
/** The pause between attempts to reach a control plane: from the first, doubling, to the longest. */
const RETRY: BackoffLimits = { firstMs: 500, mostMs: 15_000, jitter: 0 };
/** Time after which an unreachable control plane is given up. */
const AWAY_MS = 15 * 60 * 1000;

export interface FollowOptions {
  /** Show what the job logs. */
  readonly logs: boolean;
  /** Time limit of the wait, 0 for none; after it, `deadline_exceeded`. */
  readonly timeoutMs: number;
}

/** Waits until a job has ended. */
export async function followJob(
  context: MlCommandContext,
  jobs: MlTrainingClient,
  id: string,
  { logs, timeoutMs }: FollowOptions,
): Promise<TrainingJobMetadata> {
  const { clock } = context;
  const late = () =>
    new SvcError("deadline_exceeded", `training job ${id} has not ended within ${lengthText(timeoutMs)}`);
  const limit = timeoutMs > 0 ? deadline(clock, timeoutMs, late, context.signal) : undefined;
  const signal = limit?.signal ?? context.signal;
  const reader = new LogReader(jobs, id);
  const view = new FollowView(context, logs);
  try {
    for (;;) {
      // The job first, then its logs: if it has ended, they are complete.
      const job = await steadily(context, view, signal, () => jobs.getTrainingJob(id, { signal }));
      const entries = logs || context.lively
        ? await steadily(context, view, signal, () => reader.next({ signal }))
        : [];
      view.show(job, entries);
      if (hasEnded(job.status)) return job;
      await clock.sleep(POLL_MS, signal);
    }
  } finally {
    view.clear();
    limit?.done();
  }
}

/** Prints a job's new log lines until it has ended. */
export async function followLogs(
  context: MlCommandContext,
  jobs: MlTrainingClient,
  id: string,
  reader: LogReader,
  keep: (entry: TrainingJobLogEntry) => boolean,
): Promise<TrainingJobMetadata> {
  const { signal, clock } = context;
  for (;;) {
    const job = await steadily(context, undefined, signal, () => jobs.getTrainingJob(id, { signal }));
    const entries = await steadily(context, undefined, signal, () => reader.next({ signal }));
    printLogs(context, entries.filter(keep));
    if (hasEnded(job.status)) return job;
    await clock.sleep(POLL_MS, signal);
  }
}

/** Reports how a job ended and the possible next steps; returns the exit code. */
export function tellEnd(context: MlCommandContext, job: TrainingJobMetadata): number {
  const { id, modelName, modelVersion, trainingStarted, trainingEnded, errorStatus } = job;
  const took = trainingStarted && trainingEnded
    ? ` after ${lengthText(toMs(trainingEnded) - toMs(trainingStarted))}`
    : "";
  if (job.status === TrainingStatus.COMPLETED) {
    context.note(`completed${took}: model ${modelName}, version ${modelVersion}`);
    context.note(`get it with: svc-ml models download ${modelName} --model-version ${modelVersion}`);
    return ML_EXIT.ok;
  }
  const why = errorStatus?.message ? `: ${errorStatus.message}` : "";
  context.note(`${job.status === TrainingStatus.FAILED ? "failed" : "canceled"}${took}${why}`);
  context.note(`see: svc-ml logs ${id} --tail 20`);
  return ML_EXIT.failed;
}

/** Runs a wait for a job; if the wait ends before the job, prints how to resume it. */
export async function detachable(
  context: MlCommandContext,
  id: string,
  wait: () => Promise<number>,
): Promise<number> {
  try {
    return await wait();
  } catch (error) {
    const { code } = SvcError.from(error);
    if (context.signal.aborted || code === "deadline_exceeded" || code === "unavailable") {
      context.note(
        `the job continues without you; follow it with: svc-ml logs -f ${id}, or: svc-ml wait ${id}`,
      );
    }
    if (context.signal.aborted) return ML_EXIT.detached;
    throw error;
  }
}

export function printLogs(context: MlCommandContext, entries: readonly TrainingJobLogEntry[]): void {
  for (const entry of entries) {
    context.printMessage(TrainingJobLogEntrySchema, entry, [
      `${timeText(entry.time)}  ${entry.level.toUpperCase().padEnd(5)}  ${
        // A line of a message must not look like an entry.
        entry.message.replaceAll("\n", "\n\t")}`,
    ]);
  }
}

/** The view of a running job. */
class FollowView {
  readonly #losses: number[] = [];
  #progress: ProgressLine | undefined;
  /** The first and the last report of an epoch, for the pace. */
  #reports: { readonly epoch: number; readonly atMs: number }[] = [];
  #status = TrainingStatus.UNSPECIFIED;
  #drawn = false;

  constructor(private readonly context: MlCommandContext, private readonly logs: boolean) {}

  show({ status }: TrainingJobMetadata, entries: readonly TrainingJobLogEntry[]): void {
    this.clear();
    for (const entry of entries) this.#take(entry);
    const name = statusName(status).toLowerCase().replaceAll("_", " ");
    if (!this.context.lively) {
      if (status !== this.#status) this.context.note(name);
    } else if (!hasEnded(status)) {
      this.#draw(this.#progress ? this.#line(this.#progress) : `${name} …`);
    } else if (this.#progress) {
      // Keeps the bar's last state on the screen.
      this.#draw(`${this.#line(this.#progress, status === TrainingStatus.COMPLETED)}\n`);
      this.#drawn = false;
    }
    this.#status = status;
  }

  /** Clears the redrawn line. */
  clear(): void {
    if (this.#drawn) this.context.host.draw("\r\x1b[2K");
    this.#drawn = false;
  }

  /** Figures shown on the bar need no line of their own. */
  #take(entry: TrainingJobLogEntry): void {
    const progress = parseProgress(entry.message);
    if (progress) {
      this.#progress = progress;
      const report = { epoch: progress.epoch, atMs: toMs(entry.time) };
      this.#reports = [this.#reports[0] ?? report, report];
      const loss = lossOf(progress);
      if (loss !== undefined) this.#losses.push(loss);
    }
    if (this.logs && (this.context.json || !progress || !this.context.lively)) {
      printLogs(this.context, [entry]);
    }
  }

  #line(progress: ProgressLine, isOver = false): string {
    const { host, context } = this.context;
    const [first, last] = this.#reports;
    const leftMs = first && last ? trainingLeftMs(first, last, progress.epochs) : undefined;
    return progressLine(progress, this.#losses, {
      coloured: !host.env("NO_COLOR"),
      columns: context.columns() - 1,
      leftMs: isOver ? undefined : leftMs,
      isOver,
    });
  }

  #draw(line: string): void {
    this.context.host.draw(line);
    this.#drawn = true;
  }
}

/** Repeats `call` while the control plane is unreachable. */
async function steadily<T>(
  context: MlCommandContext,
  view: FollowView | undefined,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  const { clock } = context;
  const startMs = clock.monotonicMs();
  for (let failures = 1;; failures++) {
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || !isRetryable(error) || clock.monotonicMs() - startMs > AWAY_MS) throw error;
      view?.clear();
      const waitMs = requestPauseMs(RETRY, failures, error);
      context.note(`${messageOf(error)}; trying again in ${lengthText(waitMs)}`);
      await clock.sleep(waitMs, signal);
    }
  }
}
