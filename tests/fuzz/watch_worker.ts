/**
 * The thread that watches a search: an input that takes too long blocks the search's own thread for good. It writes
 * the input to a file, says so and ends the process.
 */

const CHECK_MS = 500;
/** Words before the input: how often the search has begun a case, and the length of the input. */
export const HEAD_BYTES = 8;

interface Watched {
  readonly memory: SharedArrayBuffer;
  readonly file: string;
  readonly limitMs: number;
}

declare const self: { onmessage: (event: MessageEvent<Watched>) => void };

self.onmessage = ({ data: { memory, file, limitMs } }) => {
  const head = new Int32Array(memory, 0, 2);
  let [before, sinceMs] = [-1, performance.now()];
  setInterval(() => {
    const cases = Atomics.load(head, 0);
    if (cases !== before) [before, sinceMs] = [cases, performance.now()];
    if (performance.now() - sinceMs < limitMs) return;
    const bytes = new Uint8Array(memory, HEAD_BYTES, Atomics.load(head, 1)).slice();
    Deno.writeFileSync(file, bytes);
    console.error(`an input of ${bytes.length} bytes has taken more than ${limitMs / 1000} s: ${file}`);
    Deno.kill(Deno.pid, "SIGKILL");
  }, CHECK_MS);
};
