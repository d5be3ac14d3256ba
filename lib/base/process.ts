/**
 * Other programs that ours runs and looks after. `process_deno.ts` has the real ones, tests have theirs.
 */

import { type Clock, deadline, race } from "./clock.ts";
import { SvcError } from "./error.ts";

export interface ProcessCommand {
  /** A path, or a name that is looked for in `PATH`. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to our own environment; all there is, with `bare`. */
  readonly env?: { readonly [name: string]: string };
  readonly bare?: boolean;
  readonly cwd?: string;
  /** It and what it starts are a group, which gets signals together. Ctrl-C in our terminal does not reach it. */
  readonly ownGroup?: boolean;
  /**
   * Nothing of its group outlives it or us, even if we are killed; on Linux nothing that it started either, whatever
   * group that is in, unless it has another environment. Makes a group of its own. Not on Windows; needs the programs
   * `sh`, `cat` and `grep`.
   */
  readonly leash?: boolean;
  /** It writes where we write, also when we are no more; there are no lines of it to read. */
  readonly inheritOutput?: boolean;
  /** What it writes to standard error is added to this file. Not on Windows; needs the program `sh`. */
  readonly errorFile?: string;
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
   * What it writes, line by line, each to be read once, by one reader. A process nobody listens to stops when the
   * pipe is full. They end when everybody who inherited them has closed them, which may be after `exited`.
   */
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly exited: Promise<Exit>;
  /** Does nothing to a process that has exited; with `group`, what is left of its group still hears it. */
  signal(name: Signal, options?: { readonly group?: boolean }): void;
}

/** A process that is talked with in bytes. */
export interface PipedProcess extends Omit<RunningProcess, "stdout"> {
  /** What it writes to standard output; to be read once. */
  readonly output: AsyncIterable<Uint8Array>;
  /** To its standard input; resolves when the pipe has taken it. Throws `unavailable` where nobody reads any more. */
  write(bytes: Uint8Array): Promise<void>;
}

export interface PipeHost {
  /**
   * Starts a program whose standard input ends with us. `leash` and `inheritOutput` mean nothing here. Throws as
   * `spawn` does.
   */
  pipe(command: ProcessCommand): PipedProcess;
}

export interface SpawnHost {
  /** Starts a program; its standard input is empty. Throws an `SvcError` where it cannot: `not_found`, … */
  spawn(command: ProcessCommand): RunningProcess;
}

/** What a process, with those that it has started, takes. */
export interface ProcessFigures {
  readonly residentBytes: number;
  /** Since it began. */
  readonly cpuUs: number;
}

export interface ProcessTable {
  /** Of a process by its number; nothing where it is not known. Only Linux tells. */
  figuresOf(pid: number): ProcessFigures | undefined;
}

export interface ProcessHost extends SpawnHost {
  /**
   * Processes that lead a group of their own and have this in their environment, whoever started them. Their exit is
   * seen within a moment, without its code, until the signal aborts: then `exited` rejects with its reason. Only Linux
   * knows of any.
   */
  findMarked(name: string, value: string, clock: Clock, until: AbortSignal): Promise<FoundProcess[]>;
}

export interface FoundProcess {
  readonly process: RunningProcess;
  readonly env: { readonly [name: string]: string };
}

/** The exit code of a process that was somebody else's child. */
export const EXIT_UNKNOWN = -1;

/** Longer lines are given in pieces. */
export const LINE_CHARS_MAX = 16 * 1024;

/** Asks a process and its group to end and kills what is left of them after `graceMs`. */
export async function endProcess(process: RunningProcess, clock: Clock, graceMs: number): Promise<Exit> {
  process.signal("SIGTERM", { group: true });
  const cancel = clock.after(graceMs, () => process.signal("SIGKILL", { group: true }));
  try {
    return await process.exited;
  } finally {
    cancel();
    process.signal("SIGKILL", { group: true });
  }
}

/** Whether a process ends in that time; one whose end is not seen does not. */
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

/** Bytes as lines, as a terminal would leave them: of a line that was written over, what stands there in the end. */
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
  const written = line.replace(/\r+$/, "");
  return written.slice(written.lastIndexOf("\r") + 1);
}

function* pieces(line: string): Generator<string> {
  do yield line.slice(0, LINE_CHARS_MAX); while ((line = line.slice(LINE_CHARS_MAX)) !== "");
}
