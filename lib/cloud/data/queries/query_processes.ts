/**
 * The content processes of queries.
 *
 * A process starts in half a second, so one that has answered a query in SQL waits for a while for the next one of the
 * same key in the same organization. Nobody else ever gets it, and it holds nothing of former queries but its own code:
 * their files and their database end with them. Whoever took over the process by a query would find what further queries
 * of that key may read, and nothing besides. Queries in MQL run in JavaScript, whose state outlives them, and have new
 * processes.
 */

import type { TurnCaller } from "../../../base/async/fair_queue.ts";
import { type Code, SvcError } from "../../../base/error.ts";
import { type ContentOptions, ContentProcess } from "../../sandbox/content/process.ts";
import type { FileStore } from "../../store/files.ts";
import { makeStagingFolder, StagedFiles } from "./staged_files.ts";

/** A process, and the files of one query in it. */
export interface QueryProcess {
  readonly process: ContentProcess;
  readonly files: StagedFiles;
}

/** A process, and the folder that it sees. */
interface RunningProcess {
  readonly process: ContentProcess;
  readonly folder: string;
  readonly startedMs: number;
}

interface IdleProcess {
  readonly key: string;
  readonly running: RunningProcess;
  readonly cancel: () => void;
}

/** Limits of the processes that wait, and of the time that one waits and lives. */
const IDLE_MAX = 2;
const IDLE_MS = 30_000;
const LIFE_MS = 120_000;
/** What a process says that has ended by itself. */
const ENDED: readonly Code[] = ["resource_exhausted", "failed_precondition"];

export class QueryProcesses {
  readonly #idle: IdleProcess[] = [];
  readonly #ending = new Set<Promise<void>>();
  #isClosed = false;

  constructor(private readonly content: ContentOptions, private readonly files: FileStore) {}

  /**
   * Runs `work` with a process that nobody else has meanwhile. With `stays` the caller's next call may have the same one.
   * If a process that has waited ends during `work`, which may be due to former queries, runs it again with a new one.
   */
  async run<T>(
    caller: TurnCaller,
    stays: boolean,
    work: (one: QueryProcess) => Promise<T>,
  ): Promise<T> {
    const [organization, member = ""] = caller;
    const key = stays && member !== "" ? JSON.stringify([organization, member]) : undefined;
    const idle = key === undefined ? undefined : this.#take(key);
    if (idle) {
      const tried = await this.#work(idle, key, (one) => awaitResult(work(one), one.process));
      if (tried) return tried.result;
    }
    return await this.#work(await this.#start(), key, work);
  }

  /** Ends the processes that wait. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const idle of this.#idle.splice(0)) this.#end(idle);
    await Promise.all(this.#ending);
  }

  async #work<T>(
    running: RunningProcess,
    key: string | undefined,
    work: (one: QueryProcess) => Promise<T>,
  ): Promise<T> {
    const { host } = this.content;
    let isDone = false;
    try {
      const files = await StagedFiles.open(this.files, host, running.folder);
      let result: T;
      try {
        result = await work({ process: running.process, files });
      } finally {
        await files.close();
      }
      isDone = true;
      return result;
    } finally {
      if (isDone && key !== undefined) this.#keep(key, running);
      else await this.#close(running);
    }
  }

  #take(key: string): RunningProcess | undefined {
    const idle = this.#idle.find((one) => one.key === key);
    if (!idle) return undefined;
    this.#idle.splice(this.#idle.indexOf(idle), 1);
    const { running, cancel } = idle;
    cancel();
    if (running.process.answers) return running;
    this.#finish(running);
    return undefined;
  }

  #keep(key: string, running: RunningProcess): void {
    const { clock } = this.content;
    const leftMs = running.startedMs + LIFE_MS - clock.monotonicMs();
    if (this.#isClosed || leftMs <= 0 || !running.process.answers) return this.#finish(running);
    while (this.#idle.length >= IDLE_MAX) this.#end(this.#idle.shift()!);
    const cancel = clock.after(Math.min(IDLE_MS, leftMs), () => {
      this.#idle.splice(this.#idle.indexOf(idle), 1);
      this.#finish(running);
    });
    const idle = { key, running, cancel };
    this.#idle.push(idle);
  }

  #end({ running, cancel }: IdleProcess): void {
    cancel();
    this.#finish(running);
  }

  /** Ends a process in the background. */
  #finish(running: RunningProcess): void {
    // A folder that cannot be removed is removed at the next start.
    const ending = this.#close(running).catch(() => {}).finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #start(): Promise<RunningProcess> {
    const { host, clock, program, workFolder } = this.content;
    const folder = await makeStagingFolder(host, workFolder);
    try {
      const readable = [...program.readable, folder];
      const process = await ContentProcess.start({ ...this.content, program: { ...program, readable } });
      return { process, folder, startedMs: clock.monotonicMs() };
    } catch (error) {
      await host.removeTree(folder);
      throw error;
    }
  }

  async #close({ process, folder }: RunningProcess): Promise<void> {
    try {
      await process.close();
    } finally {
      await this.content.host.removeTree(folder);
    }
  }
}

/** `undefined` if the process has ended by itself. */
async function awaitResult<T>(
  work: Promise<T>,
  process: ContentProcess,
): Promise<{ readonly result: T } | undefined> {
  try {
    return { result: await work };
  } catch (error) {
    const isEnded = ENDED.includes(SvcError.from(error).code) && !process.answers;
    if (isEnded) return undefined;
    throw error;
  }
}
