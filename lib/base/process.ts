/**
 * Child processes. `process_deno.ts` runs real ones; tests replace them.
 */

import { type Clock, deadline, race } from "./clock.ts";
import { SvcError } from "./error.ts";
import { withoutEnd } from "./escape.ts";

export interface ProcessCommand {
  /** A path, or a name that is searched in `PATH`. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to this program's environment; with `bare` the whole environment. */
  readonly env?: { readonly [name: string]: string };
  readonly bare?: boolean;
  readonly cwd?: string;
  /**
   * The process and its children form a group, which gets signals together. Ctrl-C in our terminal does not reach it.
   */
  readonly ownGroup?: boolean;
  /**
   * No process of its group outlives it or this program, even if this program is killed. On Linux this also covers
   * processes that left the group, unless they changed their environment. Makes a group of its own, for which it needs
   * the programs `sh`, `cat` and `grep`; on Windows a job object.
   */
  readonly leash?: boolean;
  /** The process inherits our output, also after our end; there are no lines to read. */
  readonly inheritOutput?: boolean;
  /** Appends the standard error of the process to this file. Not on Windows; needs the program `sh`. */
  readonly errorFile?: string;
  /**
   * The process and its children have at least this `oom_score_adj`, by which Linux chooses whom it ends when memory runs
   * out: they do not inherit the protection of this program. Needs the program `sh`.
   */
  readonly oomScoreMin?: number;
}

export type Signal = "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGKILL" | "SIGUSR1" | "SIGUSR2" | "SIGTERM";

export interface Exit {
  /** 0 for success; 128 and the number of the signal that ended it. */
  readonly code: number;
  readonly signal?: string;
}

export interface RunningProcess {
  readonly pid: number;
  /**
   * Its output, line by line; each can be read once, by one reader. The process blocks on a full pipe if nobody reads.
   * The lines end when every process that inherited the pipe has closed it, which may be after `exited`.
   */
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly exited: Promise<Exit>;
  /** Does nothing to a process that has exited; with `group` it still reaches the rest of its group. */
  signal(name: Signal, options?: { readonly group?: boolean }): void;
}

/** A process with a byte stream to and from it. */
export interface PipedProcess extends Omit<RunningProcess, "stdout"> {
  /** Its standard output; can be read once. */
  readonly output: AsyncIterable<Uint8Array>;
  /**
   * Writes to its standard input; resolves when the pipe has taken the bytes. Throws `unavailable` without a reader.
   */
  write(bytes: Uint8Array): Promise<void>;
}

export interface PipeHost {
  /**
   * Starts a program whose standard input ends with this program. Ignores `leash` and `inheritOutput`. Throws as
   * `spawn` does.
   */
  pipe(command: ProcessCommand): PipedProcess;
}

export interface SpawnHost {
  /** Starts a program with empty standard input. Throws an `SvcError` if it cannot: `not_found`, … */
  spawn(command: ProcessCommand): RunningProcess;
}

/** Resources of a process and its descendants. */
export interface ProcessFigures {
  readonly residentBytes: number;
  /** CPU time since its start. */
  readonly cpuUs: number;
}

export interface ProcessTable {
  /** Resources of a process by its number; `undefined` if they are unknown. Linux only. */
  figuresOf(pid: number): ProcessFigures | undefined;
  /**
   * Whether a process with this variable in its environment listens on this TCP port; `undefined` if the system does
   * not tell. Linux only.
   */
  listensMarked(name: string, value: string, port: number): Promise<boolean | undefined>;
}

export interface ProcessHost extends SpawnHost {
  /**
   * Leaders of process groups with this variable in their environment, whoever started them. `exited` resolves shortly
   * after the end of a process, without its exit code, and rejects with the signal's reason on abort. On other systems
   * than Linux there are none.
   */
  findMarked(name: string, value: string, clock: Clock, until: AbortSignal): Promise<FoundProcess[]>;
}

export interface FoundProcess {
  readonly process: RunningProcess;
  readonly env: { readonly [name: string]: string };
}

/** The exit code of another process's child. */
export const EXIT_UNKNOWN = -1;

/** Longer lines are delivered in pieces. */
export const LINE_CHARS_MAX = 16 * 1024;

/** Asks a process and its group to end, and kills what is left of them after `graceMs`. */
export async function endProcess(
  process: Pick<RunningProcess, "signal" | "exited">,
  clock: Clock,
  graceMs: number,
): Promise<Exit> {
  process.signal("SIGTERM", { group: true });
  const cancel = clock.after(graceMs, () => process.signal("SIGKILL", { group: true }));
  try {
    return await process.exited;
  } finally {
    cancel();
    process.signal("SIGKILL", { group: true });
  }
}

/** Whether a process ends within that time; false if its end cannot be observed. */
export async function endsWithin(exited: Promise<Exit>, clock: Clock, ms: number): Promise<boolean> {
  const late = deadline(clock, ms, () => new SvcError("deadline_exceeded", "too late"));
  try {
    await race(exited, late.signal);
    return true;
  } catch {
    return false;
  } finally {
    late.done();
  }
}

/** Bytes as the lines that a terminal would show: of an overwritten line, its last state. */
export async function* linesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of bytes) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield* pieces(shown(line));
    if (rest.length > LINE_CHARS_MAX) {
      rest = shown(rest);
      for (; rest.length > LINE_CHARS_MAX; rest = rest.slice(LINE_CHARS_MAX)) {
        yield rest.slice(0, LINE_CHARS_MAX);
      }
    }
  }

  rest += decoder.decode();
  if (rest !== "") yield* pieces(shown(rest));
}

function shown(line: string): string {
  const written = withoutEnd(line, "\r");
  return written.slice(written.lastIndexOf("\r") + 1);
}

function* pieces(line: string): Generator<string> {
  do yield line.slice(0, LINE_CHARS_MAX); while ((line = line.slice(LINE_CHARS_MAX)) !== "");
}
