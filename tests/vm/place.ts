/**
 * Where a tested system runs: what tests ask of an emulated machine (`machine.ts`) and of namespaces (`namespaces.ts`)
 * alike.
 */

/** A root shell in a system of its own, whose power can be cut. */
export interface TestPlace {
  /** This computer's loopback, as the system sees it. */
  readonly host: string;
  /** Switches it on; resolves when its shell answers. `clock` sets its hardware clock: `1970-01-01`. */
  on(options?: { clock?: string }): Promise<void>;
  /** Runs a command; returns its output. Throws if it fails. */
  run(command: string, timeoutMs?: number): Promise<string>;
  /** Runs a command; returns its exit code and the output of both streams. */
  try(command: string, timeoutMs?: number): Promise<{ code: number; output: string }>;
  /** Repeats a command until it succeeds. */
  eventually(command: string, timeoutMs: number): Promise<string>;
  /** Writes a file in the system. */
  put(path: string, text: string): Promise<void>;
  /** Cuts its power: what the system has not handed to its disk is lost. */
  cut(): Promise<void>;
  /** Shuts it down in order. */
  off(): Promise<void>;
}

const LOOK_MS = 500;

/** See `TestPlace.eventually`. */
export async function repeat(
  place: Pick<TestPlace, "try">,
  command: string,
  timeoutMs: number,
): Promise<string> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const { code, output } = await place.try(command);
    if (code === 0) return output;
    if (performance.now() > until) {
      const seconds = timeoutMs / 1000;
      throw new Error(
        `in the machine: ${command}\nnot within ${seconds} s; last it ended with ${code}:\n${output}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** See `TestPlace.put`. */
export async function putText(place: Pick<TestPlace, "run">, path: string, text: string): Promise<void> {
  const encoded = new TextEncoder().encode(text).toBase64();
  await place.run(`mkdir -p "$(dirname ${path})"; echo ${encoded} | base64 -d > ${path} && sync ${path}`);
}
