/**
 * Where attacks take place: a server, the process of its other clients, and how much the server has in use.
 *
 * Attacks may follow each other on one ground as long as each leaves it as it was: no connection of an attacker stays
 * open, and the server's memory is near what it was before the first.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import { residentBytes, type ServerProcess } from "../../support/server.ts";
import { until } from "../../support/until.ts";
import type { Attack } from "./attack.ts";
import { type OtherCall, SETTLED } from "./others.ts";
import type { Target } from "./peer.ts";
import { drawCloud, type RunningVictim, startVictim } from "./victim.ts";

/** How the other clients call, and what they take. */
export interface GroundOptions {
  /** Calls of others before anything is measured. */
  readonly warmCalls: number;
  /** How long others wait for an answer. */
  readonly patienceMs: number;
}

/** The next attack needs another server if this one still has this much more memory than before the first. */
const RESIDUE_BYTES_MAX = 100e6;
/** Connections that the other clients have or leave at any time, and files that the server opens for a moment. */
const OWN_DESCRIPTORS = 12;
const SAMPLE_MS = 25;

const clock = new SystemClock();

export class Ground {
  readonly memory: Memory;
  /** Whether an attack was played on it. */
  isUsed = false;
  #freshBytes = 0;
  #freshDescriptors = 0;

  private constructor(
    private readonly victim: RunningVictim,
    readonly others: Others,
    private readonly options: GroundOptions,
  ) {
    this.memory = new Memory(victim.server.pid);
  }

  /** Starts what the attack wants: its server, and others that call it. */
  static async create(attack: Attack, options: GroundOptions): Promise<Ground> {
    const victim = await startVictim(attack.victim);
    let others: Others | undefined;
    try {
      if (attack.others === "camera") await drawCloud(victim.target);
      others = new Others(attack.others ?? "board", options.patienceMs, victim.target);
      await others.warm(options.warmCalls);
      return new Ground(victim, others, options);
    } catch (error) {
      await others?.stop();
      await victim.stop();
      throw error;
    }
  }

  get server(): ServerProcess {
    return this.victim.server;
  }

  get target(): Target {
    return this.victim.target;
  }

  /** Memory of the server before the first attack. */
  get freshBytes(): number {
    return this.#freshBytes;
  }

  /** To be called before each attack: what is in use before the first one is the measure for all. */
  async enter(): Promise<void> {
    if (this.isUsed) return;
    this.isUsed = true;
    await this.others.taken();
    this.#freshBytes = await this.memory.now();
    this.#freshDescriptors = await this.#descriptors();
  }

  /** What an attack that is over has left behind in the server, besides memory. */
  async remains(): Promise<string[]> {
    const most = this.#freshDescriptors + OWN_DESCRIPTORS;
    try {
      await until(async () => await this.#descriptors() <= most, { withinMs: this.options.patienceMs });
      return [];
    } catch {
      const open = await this.#descriptors();
      return [`${open} descriptors are open after the attack, ${this.#freshDescriptors} before`];
    }
  }

  /** Whether the next attack finds the memory of a fresh server. */
  async hasRecovered(): Promise<boolean> {
    return await this.memory.now() - this.#freshBytes <= RESIDUE_BYTES_MAX;
  }

  async close(): Promise<void> {
    await this.others.stop();
    await this.victim.stop();
  }

  /** 0 when the server has ended. */
  async #descriptors(): Promise<number> {
    try {
      return (await Array.fromAsync(Deno.readDir(`/proc/${this.server.pid}/fd`))).length;
    } catch {
      return 0;
    }
  }
}

/** The process of the other clients. */
export class Others {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #reading: Promise<void>;
  #calls: OtherCall[] = [];
  #settled = Promise.withResolvers<void>();
  #hasStopped = false;

  constructor(call: string, private readonly patienceMs: number, target: Target) {
    const args = [call, String(patienceMs), JSON.stringify(target)];
    this.#child = programOf("others.ts", args, { stdin: "piped", stderr: "inherit" }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#reading = this.#read();
  }

  /** Resolves when enough calls have been answered that the server and the callers are warm. */
  async warm(calls: number): Promise<void> {
    const isWarm = () => this.#calls.filter(({ error }) => error === undefined).length >= calls;
    await until(isWarm, { withinMs: 3 * this.patienceMs, found: () => "others were not answered at rest" });
  }

  /** Gives every call so far, when each that is under way has come to its end; they go on calling. */
  async taken(): Promise<readonly OtherCall[]> {
    this.#settled = Promise.withResolvers();
    await this.#input.write(Uint8Array.of(0));
    await Promise.race([this.#settled.promise, this.#reading]);
    const calls = this.#calls;
    this.#calls = [];
    return calls;
  }

  /** Ends the calling. */
  async stop(): Promise<void> {
    if (!this.#hasStopped) {
      this.#hasStopped = true;
      await this.#input.close();
    }
    await this.#child.status;
    await this.#reading;
  }

  async #read(): Promise<void> {
    let text = "";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (text + chunk).split("\n");
      text = lines.pop()!;
      for (const line of lines) {
        if (line === SETTLED) this.#settled.resolve();
        else this.#calls.push(JSON.parse(line));
      }
    }
  }
}

/** A program of this folder. */
export function programOf(
  file: "attacker.ts" | "others.ts",
  args: readonly string[],
  { nice = false, flags = [] as string[], ...streams }: Deno.CommandOptions & {
    readonly nice?: boolean;
    readonly flags?: readonly string[];
  },
): Deno.Command {
  const path = new URL(file, import.meta.url).pathname;
  const [program, ...before] = nice ? ["nice", "-n", "10", Deno.execPath()] : [Deno.execPath()];
  return new Deno.Command(program, {
    ...streams,
    args: [...before, "run", "-A", "--no-check", "--quiet", ...flags, path, ...args],
    stdout: "piped",
  });
}

/** The largest memory that a process has while it is watched. */
class Memory {
  #peakBytes = 0;
  #watching: Promise<void> | undefined;
  #isOver = false;

  constructor(private readonly pid: number) {}

  now(): Promise<number> {
    return residentBytes(this.pid);
  }

  watch(): void {
    this.#peakBytes = 0;
    this.#isOver = false;
    this.#watching = (async () => {
      while (!this.#isOver) {
        this.#peakBytes = Math.max(this.#peakBytes, await this.now());
        await clock.sleep(SAMPLE_MS);
      }
    })();
  }

  async stop(): Promise<number> {
    this.#isOver = true;
    await this.#watching;
    return this.#peakBytes;
  }
}
