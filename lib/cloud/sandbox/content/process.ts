/**
 * Content processes: uploads of people are opened in a separate process, never in this one.
 *
 * Decoders and models process data and programs of strangers, and may hang, exhaust the memory or crash. A content
 * process is this program again (`content/worker.ts`), in the sandbox if there is one, with an empty environment and an empty
 * folder. A request ends within its time limit. A process is killed if it exceeds its memory limit or if its request
 * ends early; none outlives this program.
 *
 * The room owns content processes: their start, their protocol, and their end.
 */

import type { Platform } from "../../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../../base/files/files.ts";
import { collectBytes } from "../../../base/files/byte_reader.ts";
import { type Clock, deadline, race } from "../../../base/clock.ts";
import { type Code, CODES, SvcError } from "../../../base/error.ts";
import type { PipedProcess, PipeHost, ProcessCommand } from "../../../base/process.ts";
import { NATIVE_VARIABLE } from "../../../base/native/packed.ts";
import { isObject } from "../../../base/schema/schema.ts";
import { ONNX_PACKAGE } from "../../../learn/onnx/package.ts";
import { ContentFrameReader, type Head, headBytes } from "./frames.ts";
import { SQL_PACKAGE } from "./sql_package.ts";
import { type ContentRequest, TENSORS_BYTES_MAX } from "./requests.ts";
import type { Cell, Sandbox, SandboxedProgram } from "../sandbox.ts";
import type { UsageLimits } from "../sandbox_usage.ts";

export interface ContentOptions {
  readonly host: PipeHost & Platform & WriteFiles & Pick<ReadFiles, "freeBytes" | "realPath">;
  readonly clock: Clock;
  /** Confines the processes, unless it is `NO_SANDBOX`. */
  readonly sandbox: Sandbox;
  /** The command that runs `serveContent` in this program; `readable` lists the files that it needs. */
  readonly program: Pick<SandboxedProgram, "command" | "args" | "env"> & {
    readonly readable: readonly string[];
  };
  /** Native code, unpacked once for all processes; absent where each one finds or unpacks its own. */
  readonly native?: SharedNative;
  /** Takes files that processes are given; by default the system's temporary folder. */
  readonly workFolder?: string;
  /** Limits of one process. */
  readonly memoryBytes: number;
  /** Why models, pictures and maps are not opened; queries still work, because only this program reads them. */
  readonly refusal?: string;
}

export interface SharedNative {
  /** The folder, which need not have any package yet. */
  readonly path: string;
  /** Puts a package there, unless it is there; without it the process unpacks its own. */
  prepare(name: string): Promise<void>;
}

/** The requests that open people's files. */
const OPENING: readonly string[] = ["inference", "picture", "map", "scan"];

/** Memory that the process itself needs, included in its limit. */
export const MEMORY_BYTES_MIN = 768 * 1024 ** 2;
/** Time for its standard error to close after its end. */
const END_MS = 5_000;
/** Lines of its standard error that an error shows. */
const LAST_LINES = 3;
const LINE_CHARS = 200;

const LIMITS: Omit<UsageLimits, "memoryBytes"> = {
  cpuSeconds: 3600,
  processes: 256,
  openFiles: 256,
  // Room for the libraries that the runtime unpacks into the scratch folder.
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
  readonly #reader: ContentFrameReader;
  readonly #last: string[] = [];
  readonly #listening: Promise<void>;
  readonly #ended: Promise<SvcError>;
  readonly #refusal: string | undefined;
  readonly #native: SharedNative | undefined;
  /** Whether it accepts another request. */
  answers = true;

  private constructor(
    private readonly process: PipedProcess,
    private readonly cell: Cell,
    private readonly folder: string | undefined,
    { clock, memoryBytes, host, refusal, native }: ContentOptions,
  ) {
    this.#refusal = refusal;
    this.#native = native;
    this.#files = host;
    this.#reader = new ContentFrameReader(process.output);
    this.#listening = this.#hear();
    this.#ended = this.#watch(clock, memoryBytes);
  }

  static async start(options: ContentOptions): Promise<ContentProcess> {
    const { host, sandbox, program, memoryBytes, native } = options;
    const { readable, ...rest } = program;
    const shown = [...readable, ...native ? [native.path] : []];
    const env = { ...program.env, ...native && { [NATIVE_VARIABLE]: native.path } };
    const cell = await sandbox.cell({ readable: shown, limits: { ...LIMITS, memoryBytes } });
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
   * Makes one request at a time. Throws the error that the process answers; `failed_precondition` if the content has
   * crashed the process, `resource_exhausted` if it ran out of memory. After an error that is not an answer the
   * process is unusable.
   */
  async ask<R extends ContentRequest>(
    request: R,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal: AbortSignal,
    answerBytesMax = TENSORS_BYTES_MAX,
  ): Promise<ContentAnswer> {
    signal.throwIfAborted();
    if (this.#refusal !== undefined && OPENING.includes(request.ask)) {
      throw new SvcError("failed_precondition", this.#refusal);
    }
    const wanted = nativeOf(request);
    if (wanted !== undefined) await race(this.#native?.prepare(wanted) ?? Promise.resolve(), signal);
    // An answer may precede the end of sending, and also follows a failed send.
    this.#send(request, body).catch(() => {});
    const answer = this.#answer(answerBytesMax);
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
    await this.#listening;
    this.cell.close();
    if (this.folder !== undefined) await this.#files.removeTree(this.folder);
  }

  async #send(
    request: ContentRequest,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<void> {
    await this.process.write(headBytes({ ...request } as unknown as Head));
    for await (const chunk of body) await this.process.write(chunk);
  }

  async #answer(bytesMax: number): Promise<ContentAnswer> {
    let answer: ContentAnswer;
    try {
      const head = await this.#reader.next(bytesMax);
      if (!head) throw new SvcError("unavailable", "it has ended");
      answer = { head, bytes: await collectBytes(this.#reader.body.part(head.bytes), head.bytes) };
    } catch (error) {
      if (SvcError.from(error).code !== "unavailable") throw error;
      throw await this.#ended;
    }
    const { error } = answer.head;
    if (isObject(error)) throw new SvcError(codeOf(error.code), String(error.message).slice(0, 10_000));
    return answer;
  }

  /** Waits for the end of the process; returns the reason. */
  async #watch(clock: Clock, memoryBytes: number): Promise<SvcError> {
    const breach = await this.cell.guard(this.process);
    const { code, signal } = await this.process.exited;
    this.answers = false;
    if (breach) return breach;
    const late = deadline(clock, END_MS, () => new SvcError("deadline_exceeded", "its errors do not end"));
    await race(this.#listening, late.signal).catch(() => {});
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

/** The package of native code that answers a request. */
function nativeOf(request: ContentRequest): string | undefined {
  if (request.ask === "inference") return ONNX_PACKAGE;
  return request.ask === "query" && request.language === "sql" ? SQL_PACKAGE : undefined;
}

/** Runs `work` with a new process, which ends with it, within `ms` in total. */
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
 * Without a sandbox: the kernel's limit on resident memory. The usual limit on address space is useless here, because
 * the JavaScript engine reserves more addresses than there is memory.
 */
function limitedBy(memoryBytes: number, { command, args = [], ...rest }: ProcessCommand): ProcessCommand {
  const script = `ulimit -d ${Math.floor(memoryBytes / 1024)}; ulimit -c 0; exec "$@"`;
  return { command: "/bin/sh", args: ["-c", script, "sh", command, ...args], ...rest };
}

function codeOf(code: unknown): Code {
  return typeof code === "string" && Object.hasOwn(CODES, code) ? code as Code : "unknown";
}
