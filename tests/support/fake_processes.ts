/**
 * Fake processes for tests, with scripted behaviour.
 */

import type {
  Exit,
  FoundProcess,
  ProcessCommand,
  ProcessHost,
  RunningProcess,
  Signal,
} from "../../lib/base/process.ts";

export class FakeProcesses implements ProcessHost {
  /** All that were started, in order. */
  readonly started: FakeProcess[] = [];

  /**
   * Calls `run` with each process at its start; a process exits on request, and by SIGKILL. If `run` throws, the start
   * fails.
   */
  constructor(private readonly run: (process: FakeProcess) => void = () => {}) {}

  spawn(command: ProcessCommand): FakeProcess {
    const process = new FakeProcess(command, 1000 + this.started.length);
    this.started.push(process);
    this.run(process);
    return process;
  }

  findMarked(name: string, value: string): Promise<FoundProcess[]> {
    const running = this.started.filter((process) => !process.over);
    const marked = running.filter(({ command }) => command.env?.[name] === value);
    return Promise.resolve(marked.map((process) => ({ process, env: process.command.env! })));
  }
}

export class FakeProcess implements RunningProcess {
  readonly stdout = new Lines();
  readonly stderr = new Lines();
  /** Its signals, in order: `SIGTERM`, or `SIGTERM group`. */
  readonly signals: string[] = [];
  /** Handles signals other than SIGKILL; by default SIGTERM and SIGINT end it. */
  onSignal?: (name: Signal) => void;
  over = false;
  readonly #exited = Promise.withResolvers<Exit>();

  constructor(readonly command: ProcessCommand, readonly pid: number) {}

  get exited(): Promise<Exit> {
    return this.#exited.promise;
  }

  exit(code: number, signal?: string): void {
    this.over = true;
    this.stdout.end();
    this.stderr.end();
    this.#exited.resolve({ code, signal });
  }

  signal(name: Signal, { group = false } = {}): void {
    this.signals.push(group ? `${name} group` : name);
    if (name === "SIGKILL") this.exit(137, name);
    else if (this.onSignal) this.onSignal(name);
    else if (name === "SIGTERM") this.exit(143, name);
    else if (name === "SIGINT") this.exit(130, name);
  }
}

/** A process's output. */
class Lines implements AsyncIterable<string> {
  readonly #lines: string[] = [];
  #ended = false;
  #more = Promise.withResolvers<void>();

  write(line: string): void {
    this.#lines.push(line);
    this.#more.resolve();
  }

  end(): void {
    this.#ended = true;
    this.#more.resolve();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    for (;;) {
      const line = this.#lines.shift();
      if (line !== undefined) yield line;
      else if (this.#ended) return;
      else {
        this.#more = Promise.withResolvers();
        await this.#more.promise;
      }
    }
  }
}
