/**
 * Processes that are not there, for tests: each does what the test says.
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

  /** `run` is called with each when it starts; a process exits when told, and by SIGKILL. It may throw: no start. */
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
  /** What it was sent, in order: `SIGTERM`, or `SIGTERM group`. */
  readonly signals: string[] = [];
  /** What it does with other signals than SIGKILL; without it SIGTERM and SIGINT end it. */
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

/** What a process writes. */
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
