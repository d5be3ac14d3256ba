/**
 * Runs programs of the system to their end: `systemctl`, `apt-get`, `sc.exe`.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { endProcess, type ProcessHost } from "../../base/process.ts";

export interface Outcome {
  readonly code: number;
  /** The output of both streams; only the end of a long output. */
  readonly output: string;
}

export interface CommandOptions {
  readonly timeoutMs?: number;
  readonly env?: { readonly [name: string]: string };
  readonly signal?: AbortSignal;
  /**
   * A file for the output of a program that must never be killed, such as a package manager: it continues after the
   * time limit or the end of the agent.
   */
  readonly outlives?: string;
}

export interface Commands {
  /** Runs a program to its end and returns any exit code. Throws `not_found` if there is no such program. */
  try(command: string, args: readonly string[], options?: CommandOptions): Promise<Outcome>;
  /** Runs a program and returns its output. Throws, quoting the output, if the program fails. */
  run(command: string, args: readonly string[], options?: CommandOptions): Promise<string>;
}

/** Arguments: the file, then the program. The end of the output goes to the agent, if it still runs. */
const OUTLIVING =
  'command -v "$1" >/dev/null || exit 127; "$@" >"$0" 2>&1 </dev/null; code=$?; tail -c 4000 "$0"; exit $code';
const NO_PROGRAM = 127;
const TIMEOUT_MS = 60_000;
const GRACE_MS = 5_000;
const OUTPUT_CHARS = 64 * 1024;
/** Limit of a failed program's quoted output. */
const SHOWN_CHARS = 1_000;

export class SystemCommands implements Commands {
  constructor(private readonly processes: ProcessHost, private readonly clock: Clock) {}

  async try(command: string, args: readonly string[], options: CommandOptions = {}): Promise<Outcome> {
    const { timeoutMs = TIMEOUT_MS, env, signal, outlives } = options;
    signal?.throwIfAborted();
    // English output on every system, and no questions.
    const environment = { LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive", ...env };
    // A program that writes to a closed pipe dies, so a program that may outlive the agent writes to a file, whose end
    // is printed.
    const whole = outlives === undefined
      ? { command, args }
      : { command: "sh", args: ["-c", OUTLIVING, outlives, command, ...args] };
    const process = this.processes.spawn({ ...whole, env: environment, ownGroup: true });
    let output = "";
    const read = async (lines: AsyncIterable<string>) => {
      for await (const line of lines) output = `${output}${line}\n`.slice(-OUTPUT_CHARS);
    };
    const reading = Promise.all([read(process.stdout), read(process.stderr)]);
    let late: SvcError | undefined;
    const left = Promise.withResolvers<never>();
    left.promise.catch(() => {});
    const end = (error: SvcError) => {
      late ??= error;
      if (outlives === undefined) return void endProcess(process, this.clock, GRACE_MS);
      process.exited.catch(() => {});
      reading.catch(() => {});
      left.reject(new SvcError(error.code, `${error.message}; it goes on by itself, see ${outlives}`));
    };
    const shown = [command, ...args].join(" ");
    const timer = this.clock.after(
      timeoutMs,
      () => end(new SvcError("deadline_exceeded", `${shown} did not end within ${timeoutMs / 1000} s`)),
    );
    const aborted = () => end(SvcError.from(signal?.reason));
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      const { code } = await Promise.race([process.exited, left.promise]);
      await Promise.race([reading, left.promise]);
      if (outlives !== undefined && code === NO_PROGRAM) {
        throw new SvcError("not_found", `there is no ${command}`);
      }
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
  const printed = output === "" ? "" : `: ${output.slice(-SHOWN_CHARS)}`;
  return `${[command, ...args].join(" ")} failed with exit code ${code}${printed}`;
}
