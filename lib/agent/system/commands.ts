/**
 * Runs programs of the system to their end: `systemctl`, `apt-get`, `sc.exe`.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { endProcess, type ProcessHost } from "../../base/process.ts";

export interface Outcome {
  readonly code: number;
  /** The output of both streams; of a long output only the end. */
  readonly output: string;
}

export interface CommandOptions {
  readonly timeoutMs?: number;
  readonly env?: { readonly [name: string]: string };
  readonly signal?: AbortSignal;
}

export interface Commands {
  /** Runs a program to its end and returns any exit code. Throws `not_found` if there is no such program. */
  try(command: string, args: readonly string[], options?: CommandOptions): Promise<Outcome>;
  /** Runs a program and returns its output. Throws, quoting the output, if the program fails. */
  run(command: string, args: readonly string[], options?: CommandOptions): Promise<string>;
}

const TIMEOUT_MS = 60_000;
const GRACE_MS = 5_000;
const OUTPUT_CHARS = 64 * 1024;
/** Limit of a failed program's quoted output. */
const SHOWN_CHARS = 1_000;

export class SystemCommands implements Commands {
  constructor(private readonly processes: ProcessHost, private readonly clock: Clock) {}

  async try(command: string, args: readonly string[], options: CommandOptions = {}): Promise<Outcome> {
    const { timeoutMs = TIMEOUT_MS, env, signal } = options;
    signal?.throwIfAborted();
    // English output on every system, and no questions.
    const environment = { LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive", ...env };
    const process = this.processes.spawn({ command, args, env: environment, ownGroup: true });
    let output = "";
    const read = async (lines: AsyncIterable<string>) => {
      for await (const line of lines) output = `${output}${line}\n`.slice(-OUTPUT_CHARS);
    };
    const reading = Promise.all([read(process.stdout), read(process.stderr)]);
    let late: SvcError | undefined;
    const end = (error: SvcError) => {
      late ??= error;
      void endProcess(process, this.clock, GRACE_MS);
    };
    const shown = [command, ...args].join(" ");
    const timer = this.clock.after(
      timeoutMs,
      () => end(new SvcError("deadline_exceeded", `${shown} did not end within ${timeoutMs / 1000} s`)),
    );
    const aborted = () => end(SvcError.from(signal?.reason));
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      const { code } = await process.exited;
      await reading;
      if (late) throw late;
      return { code, output: output.trim() };
    } finally {
      timer();
      signal?.removeEventListener("abort", aborted);
    }
  }

  async run(command: string, args: readonly string[], options?: CommandOptions): Promise<string> {
    const { code, output } = await this.try(command, args, options);
    if (code === 0) return output;
    throw new SvcError("unknown", failureOf(command, args, { code, output }));
  }
}

export function failureOf(command: string, args: readonly string[], { code, output }: Outcome): string {
  const said = output === "" ? "" : `: ${output.slice(-SHOWN_CHARS)}`;
  return `${[command, ...args].join(" ")} failed with exit code ${code}${said}`;
}
