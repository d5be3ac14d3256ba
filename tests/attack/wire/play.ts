/**
 * Plays one attack: a fresh server, other clients that call it before, during and after the attack, and the violations.
 */

import type { Attack, Times, Toll } from "./attack.ts";
import type { OtherCall } from "./others.ts";
import type { Target } from "./peer.ts";
import { residentBytes, type ServerProcess } from "../../support/server.ts";
import { drawCloud, withVictim } from "./victim.ts";

/** The duration of an attack without one of its own, and of the phases around it. */
export interface Length {
  readonly restMs: number;
  readonly attackMs: number;
  readonly afterMs: number;
  /** Calls of others before anything is measured. */
  readonly warmCalls: number;
  /** Memory that an attack may make a server take: on a busy computer, garbage is collected later. */
  readonly growthBytesMax: number;
  /** How long an attacker waits to be cut off or answered, and others for an answer. */
  readonly patienceMs: number;
  /** Whether how long the calls of others take counts: not where something else may hold up the computer. */
  readonly timed: boolean;
}

export const FULL: Length = {
  restMs: 3_000,
  attackMs: 6_000,
  afterMs: 2_000,
  warmCalls: 20,
  growthBytesMax: 100e6,
  patienceMs: 10_000,
  timed: true,
};
export const SHORT: Length = {
  restMs: 0,
  attackMs: 400,
  afterMs: 300,
  warmCalls: 4,
  growthBytesMax: 300e6,
  patienceMs: 120_000,
  timed: false,
};

/** How calls of others went. */
export interface Calls {
  readonly made: number;
  readonly answered: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The first failure. */
  readonly error?: string;
}

export interface Result {
  readonly rest: Calls;
  readonly during: Calls;
  readonly after: Calls;
  /** Resident memory. */
  readonly beforeBytes: number;
  readonly peakBytes: number;
  readonly afterBytes: number;
  readonly toll: Toll;
  /** What must not be; none: the server holds. */
  readonly problems: readonly string[];
}

/** The others' p99 may be this many times its value at rest, or this long. */
const SLOWER_MAX = 10;
const P99_MS_MAX = 50;
/** Others are looked at for this long, however soon the attack is over. */
const DURING_MS_MIN = 1_000;
const SAMPLE_MS = 25;
/** Time for an attacker's process to start and end, beyond the attack. */
const ATTACKER_MS = 120_000;

export function play(attack: Attack, length: Length, seed: number): Promise<Result> {
  return withVictim(attack.victim, (server, target) => observe(attack, length, seed, server, target));
}

async function observe(
  attack: Attack,
  length: Length,
  seed: number,
  server: ServerProcess,
  target: Target,
): Promise<Result> {
  if (attack.others === "camera") await drawCloud(target);
  const others = new Others(attack.others ?? "board", length, target);
  try {
    await others.warm(length.warmCalls);
    const restMs = Date.now();
    await pause(length.restMs);
    const memory = new Memory(server.pid);
    const beforeBytes = await memory.now();
    memory.watch();
    const attacked = await attackOnce(attack, length, seed, target);
    await pause(attacked.begunMs + DURING_MS_MIN - Date.now());
    const overMs = Math.max(attacked.endedMs, attacked.begunMs + DURING_MS_MIN);
    const peakBytes = await memory.stop();
    await pause(length.afterMs);
    const afterBytes = await memory.now();
    const made = await others.stop();
    const calls = attack.victim === "narrow" ? made.filter((call) => !isTurnedAway(call, length)) : made;
    const between = (from: number, to: number) =>
      summary(calls.filter(({ atMs }) => atMs >= from && atMs < to));
    const measured = {
      rest: between(restMs, attacked.begunMs),
      during: between(attacked.begunMs, overMs),
      after: between(overMs, Infinity),
      beforeBytes,
      peakBytes,
      afterBytes,
      toll: attacked.toll,
    };
    const alive = await Promise.race([server.ended, Promise.resolve("alive")]) === "alive";
    const ended = alive ? [] : [`the server ended: ${server.output().slice(-300)}`];
    return { ...measured, problems: [...ended, ...problemsOf(measured, attack, length)] };
  } finally {
    await others.stop();
  }
}

/**
 * Whether the server turned a newcomer away for a reason that a full port has. One that has run out of file descriptors
 * can only be opened again, which resets connections that wait to be accepted (`lib/wire/port/listener.ts`). And a
 * newcomer that says nothing for 200 ms gives way to others (`lib/wire/flow/admission.ts`): where the computer is busy, its
 * process may come to speak too late.
 */
function isTurnedAway({ newcomer, error }: OtherCall, { timed }: Length): boolean {
  if (!newcomer || error === undefined) return false;
  return error.includes("ECONNRESET") || !timed && error.includes("connection lost");
}

function problemsOf(found: Omit<Result, "problems">, attack: Attack, length: Length): string[] {
  const { rest, during, after, toll } = found;
  const { timed, growthBytesMax } = length;
  const problems = [...toll.complaints];
  for (const [when, { made, answered, error }] of Object.entries({ rest, during, after })) {
    if (answered < made) {
      problems.push(`${when}: ${made - answered} of ${made} calls of others failed: ${error}`);
    }
  }
  if (during.answered === 0) problems.push("others had no answer during the attack");
  const limitMs = Math.max(P99_MS_MAX, SLOWER_MAX * rest.p99Ms);
  if (timed && during.p99Ms > limitMs) {
    problems.push(`p99 of others is ${during.p99Ms.toFixed(0)} ms, at most ${limitMs.toFixed(0)} ms may be`);
  }
  const grownBytes = found.peakBytes - found.beforeBytes;
  if (grownBytes > growthBytesMax) {
    problems.push(
      `memory grew by ${(grownBytes / 1e6).toFixed(0)} MB, at most ${growthBytesMax / 1e6} MB may be`,
    );
  }
  if (toll.connections === 0) problems.push("the attacker got no connection at all");
  const cut = Object.values(toll.ended).reduce((sum, count) => sum + count, 0);
  if (attack.fate === "cut off" && cut === 0 && (timed || !isSlow(attack))) {
    problems.push("the attacker was not cut off");
  }
  if (attack.fate === "answered" && toll.answers + toll.resets === 0) {
    problems.push("the attacker's requests were not answered");
  }
  return problems;
}

/** Whether the server notices this attacker late. A short play does not wait for that. */
function isSlow({ seconds, fate }: Attack): boolean {
  return seconds !== undefined && fate === "cut off";
}

/** How long `attack` lasts at most. */
function lastingMs(attack: Attack, { attackMs, patienceMs, timed }: Length): number {
  if (timed) return attack.seconds === undefined ? attackMs : 1_000 * attack.seconds;
  // However busy the computer is, an attacker gets as far as to be cut off or answered.
  return attack.fate === "any" || isSlow(attack) ? attackMs : patienceMs;
}

/** Runs the attacker's process to its end. */
async function attackOnce(attack: Attack, length: Length, seed: number, target: Target) {
  const ms = lastingMs(attack, length);
  const given: Target = { ...target, token: attack.token ? target.token : undefined };
  const times: Times = {
    lastingMs: ms,
    enoughMs: length.timed ? ms : length.attackMs,
    patienceMs: length.patienceMs,
  };
  const args = [attack.name, JSON.stringify(times), String(seed), JSON.stringify(given)];
  const child = run("attacker.ts", args, length);
  const timer = setTimeout(() => child.kill("SIGKILL"), ms + ATTACKER_MS);
  const { stdout, stderr } = await child.output();
  clearTimeout(timer);
  const [said, complained] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  const lines = said.split("\n");
  if (lines.length !== 2) {
    throw new Error(`the attacker of ${attack.name} did not come to its end: ${complained}`);
  }
  const [{ begunMs }, { endedMs, toll }] = lines.map((line) => JSON.parse(line));
  return { begunMs: begunMs as number, endedMs: endedMs as number, toll: toll as Toll };
}

/** A program of this folder. Attackers take any certificate, and give way to the server where calls are timed. */
function run(file: "attacker.ts" | "others.ts", args: string[], { timed }: Length): Deno.ChildProcess {
  const path = new URL(file, import.meta.url).pathname;
  const attacks = file === "attacker.ts";
  const nice = attacks && timed;
  const [program, ...before] = nice ? ["nice", "-n", "10", Deno.execPath()] : [Deno.execPath()];
  const trust = attacks ? ["--unsafely-ignore-certificate-errors"] : [];
  return new Deno.Command(program, {
    args: [...before, "run", "-A", "--no-check", "--quiet", ...trust, path, ...args],
    stdin: attacks ? "null" : "piped",
    stdout: "piped",
    stderr: attacks ? "piped" : "inherit",
  }).spawn();
}

/** The process of the other clients. */
class Others {
  readonly #child: Deno.ChildProcess;
  readonly #calls: OtherCall[] = [];
  readonly #reading: Promise<void>;
  #stopped = false;

  constructor(call: string, private readonly length: Length, target: Target) {
    this.#child = run("others.ts", [call, String(length.patienceMs), JSON.stringify(target)], length);
    this.#reading = this.#read();
  }

  /** Resolves when enough calls have been answered that the server and the callers are warm. */
  async warm(calls: number): Promise<void> {
    const until = performance.now() + 3 * this.length.patienceMs;
    while (this.#calls.filter(({ error }) => error === undefined).length < calls) {
      if (performance.now() > until) throw new Error("others were not answered at rest");
      await pause(SAMPLE_MS);
    }
  }

  /** Ends the calling; gives every call, when each has come to its end. */
  async stop(): Promise<readonly OtherCall[]> {
    if (!this.#stopped) {
      this.#stopped = true;
      await this.#child.stdin.close();
    }
    await this.#child.status;
    await this.#reading;
    return this.#calls;
  }

  async #read(): Promise<void> {
    let text = "";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (text + chunk).split("\n");
      text = lines.pop()!;
      this.#calls.push(...lines.map((line) => JSON.parse(line) as OtherCall));
    }
  }
}

/** The largest memory that a process has while it is watched. */
class Memory {
  #peakBytes = 0;
  #watching: Promise<void> | undefined;
  #over = false;

  constructor(private readonly pid: number) {}

  now(): Promise<number> {
    return residentBytes(this.pid);
  }

  watch(): void {
    this.#watching = (async () => {
      while (!this.#over) {
        this.#peakBytes = Math.max(this.#peakBytes, await this.now());
        await pause(SAMPLE_MS);
      }
    })();
  }

  async stop(): Promise<number> {
    this.#over = true;
    await this.#watching;
    return this.#peakBytes;
  }
}

function summary(calls: readonly OtherCall[]): Calls {
  const times = calls.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const at = (share: number) => times[Math.max(0, Math.ceil(times.length * share) - 1)] ?? 0;
  const failed = calls.filter(({ error }) => error !== undefined);
  return {
    made: calls.length,
    answered: calls.length - failed.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    error: failed[0] && `${failed[0].newcomer ? "on a new connection: " : ""}${failed[0].error}`,
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}
