/**
 * Threads that work on configurations, beside the main thread, so that an expensive configuration delays nobody else.
 *
 * A job has a deadline; a thread that exceeds it is replaced. Nothing ends a thread that computes (Deno 2.9 ends it once
 * it is done), so until then it keeps its turn. Organizations take turns (`CallerTurns`), so an organization with
 * expensive configurations delays itself alone.
 */

import type { TurnCaller } from "../../base/async/fair_queue.ts";
import { CallerTurns } from "../../base/async/turns.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { type Limits, overLimit } from "../access/limits.ts";
import type { CloudContext } from "../access/context.ts";
import type { Sql } from "../store/store.ts";
import {
  type ConfigAnswer,
  type ConfigJob,
  type ConfigRequest,
  type ConfigResult,
  type ConfigScope,
  serveConfigJobs,
  type Validate,
  workOn,
} from "./config_jobs.ts";
import { FragmentTexts } from "./fragments/fragment_texts.ts";
import type { FragmentText } from "./resolution.ts";
import type { ConditionJob } from "../triggers/conditions.ts";

/** A thread: it answers each request, and a job possibly by wanting texts first. */
export interface ConfigThread {
  post(request: ConfigRequest): void;
  /** Receives the answers; an error is the end of the thread. */
  onAnswer: (answer: ConfigAnswer | Error) => void;
  end(): void;
}

export type CreateConfigThread = () => ConfigThread;

/** For what saves, sends or checks configurations. */
export interface ConfigContext extends CloudContext {
  readonly configs: ConfigThreads;
}

/** The stamp of each fragment that a job has read, by id. */
export type FragmentStamps = ReadonlyMap<string, number>;

/** Shorter configurations without fragments are processed at once. */
const SHORT_LETTERS = 32 * 1024;
/** Time limit of one job; waiting for the database does not count. */
const JOB_MS = 10_000;
/** A thread that has not ended so long after its job's limit has no turn any more. */
const OUTLAST_MS = 5 * 60_000;
/** Time limit for a thread to load its program. */
const START_MS = 60_000;
/** One thread is free for others while an organization checks something large. */
const TURNS = {
  turnsMax: 2,
  turnsOfGroupMax: 1,
  // After its start a control plane gets the polls of all machines at once.
  waiting: [20_000, 12_000, 12_000],
  what: "checks of configurations",
} as const;

export class ConfigThreads {
  readonly #turns: CallerTurns;
  readonly #idle: ConfigThread[] = [];
  readonly #closing = new AbortController();
  #schema: Promise<string> | undefined;

  constructor(
    private readonly createThread: CreateConfigThread,
    private readonly limits: Limits,
    private readonly clock: Clock,
    private readonly jobMs = JOB_MS,
  ) {
    this.#turns = new CallerTurns(TURNS, clock);
  }

  /** The number of jobs that wait for a thread. */
  get waiting(): number {
    return this.#turns.waiting;
  }

  /**
   * Does a job with the fragments that an organization may use. Throws `resource_exhausted` for a configuration over a
   * limit, and `deadline_exceeded` for one that takes too long. Notes the stamps of fragments in `stamps`.
   */
  async run(
    sql: Sql,
    organizationId: string,
    { draft, ...given }: Omit<ConfigJob, "limits"> & { readonly draft?: FragmentDraft },
    stamps = new Map<string, number>(),
  ): Promise<ConfigResult> {
    const { limits } = this;
    if (given.text.length > limits.lettersPerConfiguration) {
      throw unusable(overLimit(limits, "lettersPerConfiguration", `found ${given.text.length}`));
    }
    const job = { ...given, limits };
    if (isQuick(job)) {
      return await workOn(job, () => Promise.resolve([]), () => Promise.resolve([])).catch((error) => {
        throw unusable(error);
      });
    }
    return await this.#withThread([organizationId, memberOf(job)], async (ask) => {
      let request: ConfigRequest = { job };
      for (let leftMs = this.jobMs;;) {
        const beganMs = this.clock.monotonicMs();
        const answer = await ask(request, Math.max(leftMs, 0));
        leftMs -= this.clock.monotonicMs() - beganMs;
        if ("done" in answer) return answer.done;
        if (!("wanted" in answer)) throw unexpected(answer);
        const texts = await new FragmentTexts(sql).texts(answer.wanted, organizationId, answer.lettersMax);
        for (const { id, stamp } of texts.stamps) stamps.set(id, stamp);
        request = { texts: draft ? texts.found.map((one) => withDraft(one, draft)) : texts.found };
      }
    });
  }

  /** The first reading that fulfils each of the conditions, as `judge` finds it. Throws the errors of `run`. */
  async judge(organizationId: string, job: ConditionJob): Promise<readonly number[]> {
    if (job.conditions.every((evals) => evals.length === 0)) return job.conditions.map(() => 0);
    return await this.#withThread([organizationId, "triggers"], async (ask) => {
      const answer = await ask({ judge: job }, this.jobMs);
      if ("judged" in answer) return answer.judged;
      throw unexpected(answer);
    });
  }

  /** Waits for a turn and works with a thread. A thread that does not answer, or does not finish, is not used again. */
  async #withThread<T>(
    caller: TurnCaller,
    work: (ask: (request: ConfigRequest, withinMs: number) => Promise<ConfigAnswer>) => Promise<T>,
  ): Promise<T> {
    const leave = await this.#turns.enter(caller, this.#closing.signal);
    const thread = this.#idle.pop() ?? await this.#start().catch((error) => {
      leave();
      throw error;
    });
    let [isUsable, isWorking] = [false, false];
    try {
      return await work(async (request, withinMs) => {
        [isUsable, isWorking] = [false, true];
        const answer = await this.#ask(thread, request, withinMs);
        [isUsable, isWorking] = [!("wanted" in answer) && !("ready" in answer), false];
        return answer;
      });
    } finally {
      const isClosed = this.#closing.signal.aborted;
      if (isWorking && !isClosed) void this.#outlast(thread).then(leave);
      else {
        if (isUsable && !isClosed) this.#idle.push(thread);
        else thread.end();
        leave();
      }
    }
  }

  /** Waits until a thread has done what nobody waits for any more, and ends it. */
  async #outlast(thread: ConfigThread): Promise<void> {
    const slow = new SvcError("deadline_exceeded", "the thread does not end");
    await this.#answer(thread, OUTLAST_MS, slow).catch(() => {});
    thread.end();
  }

  /** The JSON Schema of a machine's configuration; made once. Throws `unimplemented` if the threads have none. */
  machineSchema(): Promise<string> {
    return this.#schema ??= this.#readSchema().catch((error) => {
      this.#schema = undefined;
      throw error;
    });
  }

  async #readSchema(): Promise<string> {
    return await this.#withThread(["the schema", "people"], async (ask) => {
      const answer = await ask({ wantsSchema: true }, this.jobMs);
      if ("schema" in answer) return answer.schema;
      // A thread without a schema answers with an error code of its own.
      if ("code" in answer) throw new SvcError(answer.code, answer.message);
      throw unexpected(answer);
    });
  }

  close(): void {
    this.#closing.abort(new SvcError("unavailable", "the control plane is stopping"));
    for (const thread of this.#idle.splice(0)) thread.end();
  }

  async #start(): Promise<ConfigThread> {
    const thread = this.createThread();
    try {
      const slow = new SvcError("unavailable", `a thread for configurations did not start in ${START_MS} ms`);
      await this.#answer(thread, START_MS, slow);
      return thread;
    } catch (error) {
      thread.end();
      throw error;
    }
  }

  #ask(thread: ConfigThread, request: ConfigRequest, withinMs: number): Promise<ConfigAnswer> {
    const found = `the configuration takes more than ${this.jobMs} ms to check, with its fragments`;
    const slow = new UnusableConfig("deadline_exceeded", `${found}: make it smaller or simpler`);
    const answer = this.#answer(thread, withinMs, slow);
    thread.post(request);
    return answer;
  }

  async #answer(thread: ConfigThread, withinMs: number, slow: SvcError): Promise<ConfigAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ConfigAnswer>();
    thread.onAnswer = (answer) => answer instanceof Error ? reject(answer) : resolve(answer);
    const { signal } = this.#closing;
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    const callOff = this.clock.after(withinMs, () => reject(slow));
    try {
      return await promise;
    } finally {
      callOff();
      signal.removeEventListener("abort", stop);
      thread.onAnswer = () => {};
    }
  }
}

/** The text of a fragment that nobody has saved. */
export interface FragmentDraft {
  readonly id: string;
  readonly text: string;
}

/** The draft in place of the newest revision; other revisions and fragments stay as they are. */
function withDraft(found: FragmentText, { id, text }: FragmentDraft): FragmentText {
  return found.id === id && found.version === "" ? { ...found, text, letters: text.length } : found;
}

/** People and machines have separate turns, so that a person's change does not wait for the polls of all machines. */
function memberOf({ kind }: ConfigJob): string {
  return kind === "fill" ? "machines" : "people";
}

/** The configuration is at fault, not the control plane. */
export class UnusableConfig extends SvcError {}

function unexpected(answer: ConfigAnswer): SvcError {
  if ("code" in answer) return new UnusableConfig(answer.code, answer.message);
  return new SvcError("internal", "a thread for configurations gave an answer that nobody asked for");
}

function unusable(thrown: unknown): UnusableConfig {
  const { code, message } = SvcError.from(thrown);
  return new UnusableConfig(code, message);
}

/** Whether a job is a machine's poll for a short configuration without fragments. */
function isQuick({ kind, text }: ConfigJob): boolean {
  // Looks for backslashes, too, because an escape could spell the word differently.
  return kind === "fill" && text.length <= SHORT_LETTERS && !text.includes('"fragments"') &&
    !text.includes("\\");
}

/** Does the work on the caller's own thread, for commands, which delay nobody else. */
export function ownThread(validate: Validate): CreateConfigThread {
  return loadedThread(() => Promise.resolve(validate));
}

/** The same, with checks that are loaded on their first use. */
export function loadedThread(load: () => Promise<Validate>): CreateConfigThread {
  return () => {
    const thread: ConfigThread = {
      post: (data) => queueMicrotask(() => scope.onmessage?.({ data })),
      onAnswer: () => {},
      end: () => scope.onmessage = null,
    };
    const scope: ConfigScope = {
      onmessage: null,
      postMessage: (answer) => queueMicrotask(() => thread.onAnswer(answer)),
    };
    load().then(
      (validate) => serveConfigJobs(scope, validate),
      (error) => thread.onAnswer(SvcError.from(error)),
    );
    return thread;
  };
}

/** A worker that runs `serveConfigJobs`. */
export function workerThread(worker: Worker): ConfigThread {
  const thread: ConfigThread = {
    post: (request) => worker.postMessage(request),
    onAnswer: () => {},
    end: () => worker.terminate(),
  };
  worker.onmessage = ({ data }: MessageEvent<ConfigAnswer>) => thread.onAnswer(data);
  worker.onerror = (event) => {
    event.preventDefault();
    thread.onAnswer(new SvcError("internal", `a thread for configurations failed: ${event.message}`));
  };
  return thread;
}
