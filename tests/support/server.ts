/**
 * An `svc-server` in its own process, for tests and benchmarks that use it as a user would.
 */

import { assert, assertEquals } from "@std/assert";
import { V8_FLAGS } from "../../cli/v8_flags.ts";
import { FAULT_MARK } from "../../lib/base/log/own_faults.ts";

const ROOT = new URL("../../", import.meta.url);

export interface ServerProcess {
  /** `http://localhost:40123`, as the program printed it. */
  readonly url: string;
  readonly pid: number;
  /** Start of the process to the line with the URL. */
  readonly startMs: number;
  /** Its output so far. */
  output(): string;
  /** Resolves when it has written a line that contains `text`. */
  wrote(text: string): Promise<void>;
  /** Its exit code, when it has ended. */
  readonly ended: Promise<number>;
  /** Asks it to end and gives its exit code. */
  stop(): Promise<number>;
}

/** Starts `command` (default: from source) on a configuration; resolves when it serves. */
export async function startServer(
  configPath: string,
  {
    command = [Deno.execPath(), "run", "-A", V8_FLAGS, new URL("cli/server/main.ts", ROOT).pathname],
    args = [] as string[],
    env = {} as Record<string, string>,
  } = {},
): Promise<ServerProcess> {
  const started = performance.now();
  const [program, ...before] = command;
  const child = new Deno.Command(program, {
    args: [...before, "-config", configPath, ...args],
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const log = new Log();
  const reading = Promise.all([log.read(child.stdout), log.read(child.stderr)]);
  void child.status.then(() => log.end());
  const ended = child.status.then(async ({ code }) => {
    await reading;
    return code;
  });
  const stop = async () => {
    try {
      child.kill("SIGTERM");
    } catch {
      // The process has ended already.
    }
    const code = await ended;
    assertFaultless(log.text);
    return code;
  };
  try {
    await log.wrote('"url":"');
  } catch (error) {
    await stop();
    throw error;
  }
  const startMs = performance.now() - started;
  const url = /"url":"([^"]+)"/.exec(log.text)![1];
  return {
    url,
    pid: child.pid,
    startMs,
    output: () => log.text,
    wrote: (text) => log.wrote(text),
    ended,
    stop,
  };
}

/** A program outlives its own faults, and a test must see them. */
export function assertFaultless(output: string): void {
  assert(!output.includes(FAULT_MARK), output);
}

/** Writes a configuration to a temporary file, on a port of its own, and gives its path. */
export async function writeConfig(config: Record<string, unknown>): Promise<string> {
  const path = await Deno.makeTempFile({ prefix: "svc-", suffix: ".json" });
  const network = { bind_address: "localhost:0", ...config.network as Record<string, unknown> };
  await Deno.writeTextFile(path, JSON.stringify({ ...config, network }));
  return path;
}

/** What the threads of a process have had of the processor. */
export async function processorMs(pid: number): Promise<number> {
  let ns = 0;
  for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
    const logged = await Deno.readTextFile(`/proc/${pid}/task/${name}/schedstat`).catch(() => "0");
    ns += Number(logged.split(" ", 1)[0]);
  }
  return ns / 1e6;
}

/** Resident memory of a process; 0 when it has ended. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024;
}

/** Uses the demo machine, on a free port. It must end with exit code 0 on request. */
export async function withDemo(
  use: (server: ServerProcess) => Promise<void>,
  args: string[] = [],
  command?: string[],
): Promise<void> {
  const demo = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));
  const configPath = await writeConfig({ ...demo, network: {} });
  const server = await startServer(configPath, { args, command });
  try {
    await server.wrote("machine is running");
    await use(server);
  } finally {
    const code = await server.stop();
    await Deno.remove(configPath);
    assertEquals(code, 0);
  }
}

/** The output of a process, and the waiters for parts of it. */
class Log {
  text = "";
  #ended = false;
  #waiting: (() => void)[] = [];

  async read(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      this.text += chunk;
      this.#wake();
    }
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async wrote(text: string): Promise<void> {
    while (!this.text.includes(text)) {
      if (this.#ended) throw new Error(`the server ended without writing ${text}:\n${this.text}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}
