/**
 * How tests wait: for a condition, and never longer than a limit. A wait past its limit fails the test and names the
 * condition.
 */

import { connect, createServer } from "node:net";
import { once } from "node:events";
import { SystemClock } from "../../lib/base/clock.ts";
import type { FakeClock } from "./fake_clock.ts";

const clock = new SystemClock();

/** Limit of a test's wait, far above its duration on a busy computer. */
const WAIT_MS = 60_000;
const ASK_EVERY_MS = 5;
/** A check may be a call or a program: those who wait long leave the processor to what they wait for. */
const ASK_EVERY_MAX_MS = 100;
const WAITED_SHARE = 0.1;
/** A value that stays the same over this many turns stands still. */
const STILL_TURNS = 50;

export interface UntilOptions {
  readonly withinMs?: number;
  /** Runs between two checks, in place of a pause that grows. */
  readonly meanwhile?: () => Promise<unknown>;
  /** The actual state, for the message of a failure. */
  readonly found?: () => unknown;
}

/** A moment for data under way and for other programs. */
export function pause(): Promise<void> {
  return clock.sleep(ASK_EVERY_MS);
}

/** Advances a test's own clock, with a pause for the effects; to run between two checks. */
export function moving(own: FakeClock, stepMs: number): () => Promise<void> {
  return async () => {
    await own.advance(stepMs);
    await pause();
  };
}

/**
 * Repeats the check until its result is neither false nor missing, and returns it. A failure shows the check's source.
 */
export async function until<T>(
  ask: () => T | Promise<T>,
  { withinMs = WAIT_MS, meanwhile, found }: UntilOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const startMs = clock.monotonicMs();
  for (;;) {
    const answer = await ask();
    if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>;
    const waitedMs = clock.monotonicMs() - startMs;
    if (waitedMs > withinMs) {
      throw new Error(`not within ${withinMs} ms: ${ask}${found ? `; found ${await found()}` : ""}`);
    }
    if (meanwhile) await meanwhile();
    else await clock.sleep(Math.min(ASK_EVERY_MAX_MS, Math.max(ASK_EVERY_MS, waitedMs * WAITED_SHARE)));
  }
}

export interface UntilNoneOptions {
  /** Limit of the time without progress. */
  readonly stuckMs: number;
  /** Pause between two checks. */
  readonly pauseMs: number;
  /** The actual state, for the message of a failure. */
  readonly found?: () => unknown;
}

/**
 * Repeats the count until it is 0. The limit begins anew whenever the count is lower than ever before: much work on a
 * busy computer takes long, and only a computer that gets no further is at fault.
 */
export async function untilNone(
  left: () => Promise<number>,
  { stuckMs, pauseMs, found }: UntilNoneOptions,
): Promise<void> {
  let [least, progressMs] = [Infinity, clock.monotonicMs()];
  for (;;) {
    const count = await left();
    if (count === 0) return;
    const nowMs = clock.monotonicMs();
    if (count < least) [least, progressMs] = [count, nowMs];
    if (nowMs - progressMs > stuckMs) {
      throw new Error(
        `${count} left after ${stuckMs} ms without progress${found ? `; found ${await found()}` : ""}`,
      );
    }
    await clock.sleep(pauseMs);
  }
}

/** The same promise, with a test's time limit. */
export async function within<T>(what: string, promise: Promise<T>, withinMs = WAIT_MS): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(withinMs, () => late.reject(new Error(`not within ${withinMs} ms: ${what}`)));
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    cancel();
  }
}

/**
 * Resolves when `value` stands still during many round trips of a separate connection, in which everything else that
 * can change does.
 */
export async function standsStill(value: () => number): Promise<void> {
  const server = createServer((socket) => void socket.pipe(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as { port: number }).port, "127.0.0.1");
  const turn = async () => {
    socket.write("a");
    await once(socket, "data");
  };
  try {
    let [last, turns] = [value(), 0];
    const isStill = () => {
      const now = value();
      turns = now === last ? turns + 1 : 0;
      last = now;
      return turns > STILL_TURNS;
    };
    await until(isStill, { meanwhile: turn, found: () => `${value} at ${last}` });
  } finally {
    socket.destroy();
    server.close();
  }
}

/** Resolves when no living process on this computer has the word among its arguments. */
export async function untilGone(word: string): Promise<void> {
  const isGone = async () => {
    const { stdout } = await new Deno.Command("ps", { args: ["-eo", "stat=,args="] }).output();
    const lines = new TextDecoder().decode(stdout).split("\n");
    return !lines.some((line) => line.includes(word) && !line.startsWith("Z"));
  };
  await until(isGone, { found: () => word });
}
