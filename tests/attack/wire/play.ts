/**
 * Plays one attack: a server, other clients that call it before, during and after the attack, and the violations.
 */

import { SystemClock } from "../../../lib/base/clock.ts";
import type { Attack, Times, Toll } from "./attack.ts";
import { Ground, programOf } from "./ground.ts";
import type { OtherCall } from "./others.ts";
import type { Target } from "./peer.ts";

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
/** Time for an attacker's process to start and end, beyond the attack. */
const ATTACKER_MS = 120_000;

const clock = new SystemClock();

/** Plays the attack against a fresh server. */
export async function play(attack: Attack, length: Length, seed: number): Promise<Result> {
  const ground = await Ground.create(attack, length);
  try {
    return await observe(attack, length, seed, ground);
  } finally {
    await ground.close();
  }
}

/**
 * Plays attacks that want the same server and the same others, one after another. The verdict on each is that of a fresh
 * server: memory counts from before the first attack, what an attack leaves open is a violation of its own, and the next
 * attack gets a fresh server if this one was harmed or still has the memory of the last attack.
 */
export class SharedGround {
  #ground: Ground | undefined;

  constructor(private readonly length: Length, private readonly seed: number) {}

  /** What the attack violated: nothing, if the server held. */
  async problemsOf(attack: Attack): Promise<readonly string[]> {
    const isFresh = this.#ground === undefined;
    const ground = this.#ground ??= await Ground.create(attack, this.length);
    let isFit = false;
    let result: Result;
    let problems: string[];
    try {
      result = await observe(attack, this.length, this.seed, ground);
      problems = [...result.problems, ...await ground.remains()];
      // An attack that uses up a server's descriptors is meant to hurt it.
      isFit = attack.victim !== "narrow" && problems.length === 0 && await ground.hasRecovered();
    } finally {
      if (!isFit) await this.close();
    }

    const growth = growthProblems(result, this.length);
    if (isFresh || growth.length === 0) return problems;

    // What an earlier attack left may have counted with it.
    const others = problems.filter((problem) => !growth.includes(problem));
    return [...others, ...await this.problemsOf(attack)];
  }

  async close(): Promise<void> {
    const ground = this.#ground;
    this.#ground = undefined;
    await ground?.close();
  }
}

async function observe(attack: Attack, length: Length, seed: number, ground: Ground): Promise<Result> {
  const { memory, others, server, target } = ground;
  await ground.enter();
  await clock.sleep(length.restMs);
  const beforeBytes = ground.freshBytes;
  memory.watch();
  const attacked = await attackOnce(attack, length, seed, target);
  await sleepUntil(attacked.begunMs + DURING_MS_MIN);
  const overMs = Math.max(attacked.endedMs, attacked.begunMs + DURING_MS_MIN);

  const peakBytes = await memory.stop();
  await clock.sleep(length.afterMs);
  const afterBytes = await memory.now();
  const made = await others.taken();
  const calls = attack.victim === "narrow" ? made.filter((call) => !isTurnedAway(call, length)) : made;
  const between = (from: number, to: number) =>
    summary(calls.filter(({ atMs }) => atMs >= from && atMs < to));
  const measured = {
    rest: between(-Infinity, attacked.begunMs),
    during: between(attacked.begunMs, overMs),
    after: between(overMs, Infinity),
    beforeBytes,
    peakBytes,
    afterBytes,
    toll: attacked.toll,
  };
  const isAlive = await Promise.race([server.ended, Promise.resolve("alive")]) === "alive";
  const ended = isAlive ? [] : [`the server ended: ${server.output().slice(-300)}`];
  return { ...measured, problems: [...ended, ...problemsOf(measured, attack, length)] };
}

async function sleepUntil(atMs: number): Promise<void> {
  await clock.sleep(Math.max(0, atMs - Date.now()));
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
  const { timed } = length;
  const problems = [...toll.complaints, ...growthProblems(found, length)];
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

function growthProblems(
  { beforeBytes, peakBytes }: Pick<Result, "beforeBytes" | "peakBytes">,
  { growthBytesMax }: Length,
): string[] {
  const grownBytes = peakBytes - beforeBytes;
  if (grownBytes <= growthBytesMax) return [];
  return [`memory grew by ${(grownBytes / 1e6).toFixed(0)} MB, at most ${growthBytesMax / 1e6} MB may be`];
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
  // Attackers take any certificate, and give way to the server where calls are timed.
  const flags = ["--unsafely-ignore-certificate-errors"];
  const child = programOf("attacker.ts", args, { nice: length.timed, flags, stdin: "null", stderr: "piped" })
    .spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), ms + ATTACKER_MS);
  const { stdout, stderr } = await child.output();
  clearTimeout(timer);
  const [output, complained] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  const lines = output.split("\n");
  if (lines.length !== 2) {
    throw new Error(`the attacker of ${attack.name} did not come to its end: ${complained}`);
  }
  const [{ begunMs }, { endedMs, toll }] = lines.map((line) => JSON.parse(line));
  return { begunMs: begunMs as number, endedMs: endedMs as number, toll: toll as Toll };
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
