/**
 * The shell of the machine's own user, and copies of the files that it may read and write.
 *
 * Owns the terminals it opened and the shells in them: a shell ends with its caller and with the resource.
 */

import {
  type CopyFromMachine,
  type CopyToMachine,
  type FilePart,
  type Shell,
} from "../../lib/api/services/shell.ts";
import { ShellApi, type ShellInput, type ShellOutput } from "../../lib/api/services/shell.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { endsWithin, type RunningProcess } from "../../lib/base/process.ts";
import { isObject, type Json, object } from "../../lib/base/schema/schema.ts";
import { SerialTerminal } from "../../lib/device/terminal.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model, type ModelHost } from "../../lib/resource/registry.ts";
import { BaseResource, type Call } from "../../lib/resource/resource.ts";
import { copyIn } from "./copy_in.ts";
import { copyOut } from "./copy_out.ts";

/** A shell holds a thread while it waits, and each is a program of its own. */
const SHELLS_MAX = 8;

/** A shell that keeps running without its terminal is killed after this time. */
const HANG_UP_MS = 2_000;

/** End of input, as typed; again and again, because the end of a file does not pass either. */
const END_OF_INPUT = "\x04";
const END_AGAIN_MS = 500;

/** The variables that the shell gets from our own environment, which may contain keys. */
const VARIABLES = ["HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "LC_ALL", "TZ"];

/** Makes the terminal its own, then becomes the shell. */
const IN_TERMINAL = 'exec "$@" <>"$0" >&0 2>&1';

export const BuiltinShell = model({
  api: ShellApi,
  name: "rdk:builtin:builtin",
  doc: "A shell of the machine's user in a terminal (Linux), and copies of files to and from the machine.",
  attributes: object({}),
  runsPrograms: true,
  construct: ({ name, host, clock }) => new Builtin(name, host, clock),
});

class Builtin extends BaseResource implements Shell {
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(name: ResourceName, private readonly host: ModelHost, private readonly clock: Clock) {
    super(name);
  }

  async *shell(input: AsyncIterable<ShellInput>, call?: Call): AsyncGenerator<ShellOutput> {
    if (this.#running.size >= SHELLS_MAX) {
      throw new SvcError(
        "resource_exhausted",
        `${this.name} runs ${SHELLS_MAX} shells already; end one of them`,
      );
    }

    const over = Promise.withResolvers<void>();
    this.#running.add(over.promise);

    const signal = this.#until(call);
    try {
      const terminal = SerialTerminal.open(this.host);
      try {
        signal.throwIfAborted();
        yield* this.#session(terminal, input, signal, call?.extra?.messages);
      } finally {
        await terminal.close();
      }
    } finally {
      this.#running.delete(over.promise);
      over.resolve();
    }
  }

  async *copyToMachine(to: CopyToMachine, parts: AsyncIterable<FilePart>, call?: Call) {
    yield* copyIn(this.host, to, parts, this.#until(call));
  }

  async copyFromMachine(from: CopyFromMachine, taken: AsyncIterable<void>, call?: Call) {
    return await copyOut(this.host, from, taken, this.#until(call));
  }

  override async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", `${this.name} is closed`));
    await Promise.all(this.#running);
  }

  /** Aborts when the caller goes away and when the resource closes. */
  #until(call?: Call): AbortSignal {
    const { signal } = this.#closing;
    return call?.signal ? AbortSignal.any([call.signal, signal]) : signal;
  }

  async *#session(
    terminal: SerialTerminal,
    input: AsyncIterable<ShellInput>,
    signal: AbortSignal,
    messages: Json | undefined,
  ): AsyncGenerator<ShellOutput> {
    for (const message of Array.isArray(messages) ? messages : []) heed(terminal, message);
    const process = this.#start(terminal);
    const typing = new AbortController();
    const until = AbortSignal.any([signal, typing.signal]);
    let [over, failure] = [false, undefined as unknown];
    void process.exited.then(() => over = true);

    const stop = () => void terminal.close();
    signal.addEventListener("abort", stop, { once: true });
    void this.#type(terminal, input, until).catch((error) => {
      if (until.aborted) return;
      failure = error;
      stop();
    });

    try {
      const decoder = new TextDecoder();
      for await (const bytes of terminal.output(() => over)) {
        const text = decoder.decode(bytes, { stream: true });
        if (text !== "") yield { text };
      }
      signal.throwIfAborted();
      if (failure !== undefined) throw failure;
    } finally {
      typing.abort();
      signal.removeEventListener("abort", stop);
      await terminal.close();
      await this.#hangUp(process);
    }
  }

  #start(terminal: SerialTerminal): RunningProcess {
    const shell = this.host.env("SHELL") || "/bin/sh";
    const env: Record<string, string> = { TERM: "xterm-256color" };
    for (const name of VARIABLES) {
      const value = this.host.env(name);
      if (value !== undefined) env[name] = value;
    }

    const process = this.host.spawn({
      command: "sh",
      args: ["-c", IN_TERMINAL, terminal.path, shell, "-i"],
      env,
      bare: true,
      cwd: env.HOME,
      ownGroup: true,
    });
    // They end when the shell has taken the terminal; nothing is read of them.
    for (const lines of [process.stdout, process.stderr]) void drained(lines);
    return process;
  }

  async #type(
    terminal: SerialTerminal,
    input: AsyncIterable<ShellInput>,
    signal: AbortSignal,
  ): Promise<void> {
    const encoder = new TextEncoder();
    for await (const { text, message } of input) {
      if (signal.aborted) return;
      heed(terminal, message);
      if (text) await terminal.write(encoder.encode(text), this.clock, signal);
    }
    // Each program that reads takes one, and a shell that has just begun may lose it.
    while (!signal.aborted) {
      await terminal.write(encoder.encode(END_OF_INPUT), this.clock, signal);
      await this.clock.sleep(END_AGAIN_MS, signal);
    }
  }

  async #hangUp(process: RunningProcess): Promise<void> {
    process.signal("SIGHUP", { group: true });
    if (!await endsWithin(process.exited, this.clock, HANG_UP_MS)) process.signal("SIGKILL", { group: true });
    await process.exited;
  }
}

/** Heeds a message of the published form; others are for other shells. */
function heed(terminal: SerialTerminal, message: Json | undefined): void {
  if (!isObject(message) || message.message !== "window-change") return;
  const { cols, rows } = message;
  if (typeof cols === "number" && typeof rows === "number") terminal.resize(cols, rows);
}

async function drained(lines: AsyncIterable<string>): Promise<void> {
  for await (const _ of lines);
}
