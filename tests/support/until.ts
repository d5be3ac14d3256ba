/**
 * How tests wait: for the thing itself, and never longer than a test may take. A wait that ends without it fails the
 * test with what was waited for.
 */

import { connect, createServer } from "node:net";
import { once } from "node:events";
import { SystemClock } from "../../lib/base/clock.ts";
import type { FakeClock } from "./fake_clock.ts";

const clock = new SystemClock();

/** How long a test waits for one thing; far longer than it takes on a computer that is busy. */
const WAIT_MS = 60_000;
const ASK_EVERY_MS = 5;
/** A value that stays the same over so many turns stands still. */
const STILL_TURNS = 50;

export interface UntilOptions {
  readonly withinMs?: number;
  /** Runs between two questions, in place of a pause. */
  readonly meanwhile?: () => Promise<unknown>;
  /** What there is instead, for the message of a failure. */
  readonly found?: () => unknown;
}

/** A moment for what travels, or what other programs do. */
export function pause(): Promise<void> {
  return clock.sleep(ASK_EVERY_MS);
}

/** Moves a test's own clock on, with a pause for what it has set off: to run between two questions. */
export function moving(own: FakeClock, stepMs: number): () => Promise<void> {
  return async () => {
    await own.advance(stepMs);
    await pause();
  };
}

/** Asks until the answer is neither false nor missing, and gives it. A failure shows the question as it is written. */
export async function until<T>(
  ask: () => T | Promise<T>,
  { withinMs = WAIT_MS, meanwhile = pause, found }: UntilOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const endMs = clock.monotonicMs() + withinMs;
  for (;;) {
    const answer = await ask();
    if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>;
    if (clock.monotonicMs() > endMs) {
      throw new Error(`not within ${withinMs} ms: ${ask}${found ? `; found ${found()}` : ""}`);
    }
    await meanwhile();
  }
}

/** The same promise, for as long as a test waits. */
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
 * Resolves when `value` stands still while the network goes on: over many round trips of a connection of its own,
 * in which everything else that can move does.
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

/** Resolves when no process on this computer has the word among its arguments; a dead one does not count. */
export async function untilGone(word: string): Promise<void> {
  const isGone = async () => {
    const { stdout } = await new Deno.Command("ps", { args: ["-eo", "stat=,args="] }).output();
    const lines = new TextDecoder().decode(stdout).split("\n");
    return !lines.some((line) => line.includes(word) && !line.startsWith("Z"));
  };
  await until(isGone, { found: () => word });
}
