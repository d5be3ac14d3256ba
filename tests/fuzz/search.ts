/** Searches a target for inputs that it should not fail at. */

import { randomFrom } from "../../lib/geometry/random.ts";
import type { BlockCoverage } from "./coverage.ts";
import { damaged, joined } from "./damage.ts";
import { attempt, type Target } from "./target.ts";

export interface SearchOptions {
  readonly seed: number;
  /** Whether the search is over, asked before each case. */
  readonly isOver: (cases: number) => boolean;
  /** Inputs of earlier searches. */
  readonly corpus?: readonly Uint8Array[];
  /** Guides the search: inputs that run new code are kept, and changed further. */
  readonly coverage?: BlockCoverage;
  /** Called before each case. */
  readonly trying?: (bytes: Uint8Array) => void;
  /** Awaited after each batch. */
  readonly between?: () => Promise<void>;
  /** Called with each input that is kept. */
  readonly kept?: (bytes: Uint8Array) => void;
  readonly nowMs?: () => number;
}

/** An input at which a target failed, as short as it could be made. */
export interface Fault {
  readonly bytes: Uint8Array;
  readonly error: unknown;
}

export interface Searched {
  readonly cases: number;
  readonly inputs: number;
  readonly faults: readonly Fault[];
  readonly slowest: { readonly ms: number; readonly bytes: Uint8Array };
}

/** Faults of different kinds; a reader with more has to be read first. */
const FAULTS_MAX = 10;
const SHORTENINGS_MAX = 400;
/** Of the inputs to change, so many are the newest ones: what ran new code leads on to more. */
const NEWEST = 20;
const NEWEST_SHARE = 0.3;
/** To ask V8 what has run takes longer than most cases. */
const BATCH = 32;

/** Changes inputs and tries them until the search is over; the unchanged ones first. */
export async function search(target: Target, options: SearchOptions): Promise<Searched> {
  const trial = new Trial(target, options);
  for (const bytes of [...await target.samples(), ...options.corpus ?? []]) {
    await trial.try(bytes);
    trial.inputs.push(bytes);
  }
  await options.coverage?.hasNew(true);

  const random = randomFrom(options.seed);
  const pick = () => {
    const { length } = trial.inputs;
    const newest = random() < NEWEST_SHARE ? Math.max(0, length - NEWEST) : 0;
    return trial.inputs[newest + Math.floor((length - newest) * random())];
  };
  const changed = () => damaged(pick(), { random, words: target.words, other: pick() });
  while (trial.faults.size < FAULTS_MAX && !options.isOver(trial.cases)) {
    const batch = Array.from({ length: options.coverage ? BATCH : 1 }, changed);
    for (const bytes of batch) await trial.try(bytes);
    if (await options.coverage?.hasNew(false)) await trial.keepNew(batch);
    await options.between?.();
  }
  const { cases, inputs, faults, slowest } = trial;
  return { cases, inputs: inputs.length, faults: [...faults.values()], slowest };
}

/** What has been tried, and what came of it. */
class Trial {
  readonly inputs: Uint8Array[] = [];
  readonly faults = new Map<string, Fault>();
  cases = 0;
  slowest: Searched["slowest"] = { ms: 0, bytes: new Uint8Array() };

  constructor(private readonly target: Target, private readonly options: SearchOptions) {}

  async try(bytes: Uint8Array): Promise<void> {
    const { nowMs = () => 0 } = this.options;
    this.cases++;
    const beganMs = nowMs();
    const error = await this.#errorAt(bytes);
    const ms = nowMs() - beganMs;
    if (ms > this.slowest.ms) this.slowest = { ms, bytes };
    const kind = kindOf(error);
    if (error === undefined || this.faults.has(kind)) return;
    const shorter = await shortened(bytes, async (one) => kindOf(await this.#errorAt(one)) === kind);
    this.faults.set(kind, { bytes: shorter, error });
  }

  /** Keeps those inputs of a batch that run new code. */
  async keepNew(batch: readonly Uint8Array[]): Promise<void> {
    for (const bytes of batch) {
      const error = await this.#errorAt(bytes);
      if (!await this.options.coverage?.hasNew(true) || error !== undefined) continue;
      this.inputs.push(bytes);
      this.options.kept?.(bytes);
    }
  }

  #errorAt(bytes: Uint8Array): Promise<unknown> {
    this.options.trying?.(bytes);
    return attempt(this.target, bytes);
  }
}

/** Errors of one kind come from one place. */
function kindOf(error: unknown): string {
  if (error === undefined) return "";
  if (!(error instanceof Error)) return String(error);
  const place = /at .*\/(\S+:\d+):\d+/.exec(error.stack ?? "")?.[1] ?? "";
  return `${error.name} ${place}`;
}

/** Leaves out pieces of an input as long as it fails the same way. */
async function shortened(
  bytes: Uint8Array,
  fails: (bytes: Uint8Array) => Promise<boolean>,
): Promise<Uint8Array> {
  let tries = 0;
  for (let size = bytes.length >> 1; size >= 1; size >>= 1) {
    for (let at = 0; at < bytes.length && tries < SHORTENINGS_MAX; tries++) {
      const without = joined(bytes.subarray(0, at), bytes.subarray(at + size));
      if (await fails(without)) bytes = without;
      else at += size;
    }
  }
  return bytes;
}
