/**
 * Watches a file by looking at it, through every link that leads to it.
 *
 * The system's own notifications are of no use here: Deno opens each file that one of them names, so a FIFO anywhere in
 * the folder stops them, and ends up stopping the whole program when the watch ends.
 */

import { SystemClock } from "../clock.ts";

/** Time between two looks. */
const LOOK_MS = 250;
/**
 * The same at the beginning and after a change, when another change is likely. On Windows a look holds the file for a
 * moment, in which nobody can replace it.
 */
const BUSY_LOOK_MS = Deno.build.os === "windows" ? LOOK_MS : 20;
const BUSY_MS = 2_000;
/** The same if nobody waits for the effect of a change. */
const CALM_LOOK_MS = 2_000;

/** See `WatchFiles`. */
export function watchFile(path: string, changed: () => void, { promptly = true } = {}): () => void {
  const clock = new SystemClock();
  let seen = markNow(path);
  let busyUntilMs = clock.monotonicMs() + BUSY_MS;
  let ended = false;
  let callOff = () => {};
  const look = async () => {
    const mark = await Deno.stat(path).then(markOf, missing);
    if (ended) return;
    if (mark !== seen) {
      seen = mark;
      busyUntilMs = clock.monotonicMs() + BUSY_MS;
      changed();
    }
    lookLater();
  };
  const lookLater = () => {
    if (ended) return;
    const promptMs = clock.monotonicMs() < busyUntilMs ? BUSY_LOOK_MS : LOOK_MS;
    callOff = clock.after(promptly ? promptMs : CALM_LOOK_MS, () => void look());
  };
  lookLater();

  return () => {
    ended = true;
    callOff();
  };
}

/** Without waiting: a change right after the start of the watch counts. */
function markNow(path: string): string {
  try {
    return markOf(Deno.statSync(path));
  } catch (error) {
    return missing(error);
  }
}

/** Equal as long as the path leads to the same file and nobody changes it. */
function markOf({ dev, ino, size, mtime, ctime }: Deno.FileInfo): string {
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime()].join();
}

function missing(error: unknown): string {
  return error instanceof Error ? error.name : "";
}
