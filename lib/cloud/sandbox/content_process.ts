/**
 * Content processes: what people have uploaded is opened in a process of its own and never in this one.
 *
 * Decoders and models are programs made by strangers, or fed by them: they hang, take all memory, crash. Each process
 * is this program once more (`content_worker.ts`), in the sandbox where there is one, with nothing of our environment,
 * in an empty folder. Promises: a request ends by its time; a process that takes more memory than its limit, or whose
 * request has ended early, is killed; none outlives us.
 */

import type { Platform } from "../../base/host.ts";
import type { WriteFiles } from "../../base/files/files.ts";
import { bytesOf } from "../../base/files/byte_reader.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { type Code, CODES, SvcError } from "../../base/error.ts";
import type { PipedProcess, PipeHost, ProcessCommand } from "../../base/process.ts";
import { isObject } from "../../base/schema/schema.ts";
import { FrameReader, type Head, headBytes } from "./content_frames.ts";
import { type ContentRequest, TENSORS_BYTES_MAX } from "./content_worker.ts";
import type { Cell, Program, Sandbox } from "./sandbox.ts";
import type { Limits } from "./sandbox_usage.ts";

export interface ContentOptions {
  readonly host: PipeHost & Platform & WriteFiles;
  readonly clock: Clock;
  /** Shuts processes in; `NO_SANDBOX` where there is none. */
  readonly sandbox: Sandbox;
  /** How this program is started so that it runs `serveContent`; `readable` is what it needs of the disk. */
  readonly program: Pick<Program, "command" | "args" | "env"> & { readonly readable: readonly string[] };
  /** Of one process. */
  readonly memoryBytes: number;
}

/** What a process needs by itself, and counts towards its limit. */
export const MEMORY_BYTES_MIN = 768 * 1024 ** 2;
/** How long its standard error may stay open behind it. */
const END_MS = 5_000;
/** Lines of its standard error that an error shows. */
const LAST_LINES = 3;
const LINE_CHARS = 200;

const LIMITS: Omit<Limits, "memoryBytes"> = {
  cpuSeconds: 3600,
  processes: 256,
  openFiles: 256,
  // The runtime's libraries are unpacked into the scratch folder.
  fileBytes: 128 * 1024 ** 2,
  folderBytes: 0,
  folderFiles: 0,
};

export interface ContentAnswer {
  readonly head: Head;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class ContentProcess {
  readonly #files: WriteFiles;
  readonly #reader: FrameReader;
  readonly #last: string[] = [];
  readonly #hearing: Promise<void>;
  readonly #ended: Promise<SvcError>;
  /** Whether it can be asked more. */
  answers = true;

  private constructor(
    private readonly process: PipedProcess,
    private readonly cell: Cell,
    private readonly folder: string | undefined,
    { clock, memoryBytes, host }: ContentOptions,
  ) {
    this.#files = host;
    this.#reader = new FrameReader(process.output);
    this.#hearing = this.#hear();
    this.#ended = this.#watch(clock, memoryBytes);
  }

  static async start(options: ContentOptions): Promise<ContentProcess> {
    const { host, sandbox, program, memoryBytes } = options;
    const { readable, env, ...rest } = program;
    const cell = await sandbox.cell({ readable, limits: { ...LIMITS, memoryBytes } });
    const folder = sandbox.confines ? undefined : await host.temporaryFolder("svc-content-");
    try {
      const place = folder ?? "/tmp";
      const command = cell.command({ ...rest, env: { ...env, TMPDIR: place, TEMP: place }, cwd: place });
      const windows = host.platform().os === "windows";
      const limited = sandbox.confines || windows ? command : limitedBy(memoryBytes, command);
      const process = host.pipe({ ...limited, leash: false, ownGroup: true });
      return new ContentProcess(process, cell, folder, options);
    } catch (error) {
      cell.close();
      if (folder !== undefined) await host.removeTree(folder);
      throw error;
    }
  }

  /**
   * One request after the other. Throws what the process answers; `failed_precondition` where the content has ended the
   * process, `resource_exhausted` where that was for want of memory. After an error that is not an answer
   * the process is of no use any more.
   */
  async ask(
    request: ContentRequest,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<ContentAnswer> {
    signal.throwIfAborted();
    // An answer may come before all has been sent; what cannot be sent any more has one too.
    this.#send(request, body).catch(() => {});
    const answer = this.#answer();
    answer.catch(() => {});
    try {
      return await race(answer, signal);
    } catch (error) {
      if (signal.aborted) this.process.signal("SIGKILL", { group: true });
      throw error;
    }
  }

  async close(): Promise<void> {
    this.process.signal("SIGKILL", { group: true });
    await this.#ended;
    await this.#hearing;
    this.cell.close();
    if (this.folder !== undefined) await this.#files.removeTree(this.folder);
  }

  async #send(
    request: ContentRequest,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<void> {
    await this.process.write(headBytes({ ...request }));
    for await (const chunk of body) await this.process.write(chunk);
  }

  async #answer(): Promise<ContentAnswer> {
    let answer: ContentAnswer;
    try {
      const head = await this.#reader.next(TENSORS_BYTES_MAX);
      if (!head) throw new SvcError("unavailable", "it has ended");
      answer = { head, bytes: await bytesOf(this.#reader.body.part(head.bytes), head.bytes) };
    } catch (error) {
      if (SvcError.from(error).code !== "unavailable") throw error;
      throw await this.#ended;
    }
    const { error } = answer.head;
    if (isObject(error)) throw new SvcError(codeOf(error.code), String(error.message).slice(0, 10_000));
    return answer;
  }

  /** Why it has ended, when it has. */
  async #watch(clock: Clock, memoryBytes: number): Promise<SvcError> {
    const breach = await this.cell.guard(this.process);
    const { code, signal } = await this.process.exited;
    this.answers = false;
    if (breach) return breach;
    const late = deadline(clock, END_MS, () => new SvcError("deadline_exceeded", "its errors do not end"));
    await race(this.#hearing, late.signal).catch(() => {});
    late.done();
    const memory = /out of memory|bad_alloc|allocation failed/i.test(this.#last.join("\n"));
    const how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`;
    const words = this.#last.length > 0 ? `: ${this.#last.join(" ")}` : "";
    const most = `it had ${Math.floor(memoryBytes / 1024 ** 2)} MiB of memory at most`;
    return new SvcError(
      memory ? "resource_exhausted" : "failed_precondition",
      `the process that opened the content ${how} (${most})${words}`,
    );
  }

  async #hear(): Promise<void> {
    for await (const line of this.process.stderr) {
      if (line.trim() === "") continue;
      if (this.#last.length < LAST_LINES) this.#last.push(line.slice(0, LINE_CHARS));
    }
  }
}

/** Runs `work` with a process of its own, which ends with it, and which has `ms` for all of it. */
export async function withContent<T>(
  options: ContentOptions,
  ms: number,
  tooLong: () => SvcError,
  signal: AbortSignal,
  work: (process: ContentProcess, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = deadline(options.clock, ms, tooLong, signal);
  const process = await ContentProcess.start(options);
  try {
    return await work(process, late.signal);
  } finally {
    late.done();
    await process.close();
  }
}

/**
 * Without a sandbox: the kernel's limit of what a process may keep in memory. That of its addresses, which many set, is
 * no use: the engine of JavaScript reserves more of them than there is memory.
 */
function limitedBy(memoryBytes: number, { command, args = [], ...rest }: ProcessCommand): ProcessCommand {
  const script = `ulimit -d ${Math.floor(memoryBytes / 1024)}; ulimit -c 0; exec "$@"`;
  return { command: "/bin/sh", args: ["-c", script, "sh", command, ...args], ...rest };
}

function codeOf(code: unknown): Code {
  return typeof code === "string" && Object.hasOwn(CODES, code) ? code as Code : "unknown";
}
