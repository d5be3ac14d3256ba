/**
 * Returns freed memory of this process to the system.
 *
 * The C library of Linux (glibc) keeps what a start or a burst of calls has freed. On a small computer other programs
 * need it.
 */

import type { Clock } from "../clock.ts";
import { C_LIBRARY } from "./reader_worker.ts";

const FUNCTIONS = {
  /**
   * malloc_trim(3): gives back every free page. The argument is how much may stay at the end of the heap. In another
   * thread, because Deno would load a compiler of 1.5 MB to call it in this one.
   */
  malloc_trim: { parameters: ["usize"], result: "i32", nonblocking: true },
} as const satisfies Deno.ForeignLibraryInterface;

/** One takes 0.1 ms at rest and 0.5 ms after a start. */
const EVERY_MS = 1000;

/** Returns freed memory every second until disposed. Does nothing with another C library. */
export function giveBackFreed(clock: Clock): AsyncDisposable {
  const over = new AbortController();
  const giving = giveEachSecond(clock, over.signal);
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await giving;
    },
  };
}

async function giveEachSecond(clock: Clock, over: AbortSignal): Promise<void> {
  try {
    await clock.sleep(EVERY_MS, over);
    const library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
    try {
      for (;; await clock.sleep(EVERY_MS, over)) await library.symbols.malloc_trim(0n);
    } finally {
      library.close();
    }
  } catch {
    // The interval has ended, or there is no such library or function.
  }
}
