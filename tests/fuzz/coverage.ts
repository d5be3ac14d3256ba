/** Which code an input runs, by V8's block coverage of this process. */

import { Session } from "node:inspector";

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly Range[] }[];
}

/** What of the chosen files has run since the start, letter by letter. */
export class BlockCoverage {
  /** By script: for each letter of its text whether it has run. */
  readonly #seen = new Map<string, Uint8Array>();
  #letters = 0;

  private constructor(private readonly session: Session, private readonly covers: readonly string[]) {}

  static async start(covers: readonly string[]): Promise<BlockCoverage> {
    const session = new Session();
    session.connect();
    const coverage = new BlockCoverage(session, covers);
    await coverage.#post("Profiler.enable");
    await coverage.#post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
    return coverage;
  }

  /** The letters of the files that have run. */
  get letters(): number {
    return this.#letters;
  }

  /** Whether something has run since the last call that had not run before it; `keep` counts it as run from now on. */
  async hasNew(keep: boolean): Promise<boolean> {
    const { result } = await this.#post("Profiler.takePreciseCoverage") as { result: ScriptCoverage[] };
    let isNew = false;
    for (const { url, functions } of result) {
      if (!this.covers.some((part) => url.includes(part))) continue;
      for (const { ranges } of functions) isNew = this.#paint(url, ranges, keep) || isNew;
    }
    return isNew;
  }

  stop(): void {
    this.session.disconnect();
  }

  /** The first range is the function, each later one lies within an earlier one and has a count of its own. */
  #paint(url: string, ranges: readonly Range[], keep: boolean): boolean {
    const [{ startOffset: from, endOffset: to, count: calls }] = ranges;
    if (calls === 0) return false;
    const ran = new Uint8Array(to - from);
    for (const { startOffset, endOffset, count } of ranges) {
      ran.fill(Math.min(count, 1), startOffset - from, endOffset - from);
    }

    const seen = this.#seenOf(url, to);
    let isNew = false;
    for (let at = from; at < to; at++) {
      if (ran[at - from] === 0 || seen[at] === 1) continue;
      isNew = true;
      if (!keep) return true;
      seen[at] = 1;
      this.#letters++;
    }
    return isNew;
  }

  #seenOf(url: string, length: number): Uint8Array {
    const before = this.#seen.get(url);
    if (before && before.length >= length) return before;
    const seen = new Uint8Array(length);
    seen.set(before ?? []);
    this.#seen.set(url, seen);
    return seen;
  }

  #post(method: string, params: object = {}): Promise<object> {
    return new Promise((resolve, reject) => {
      this.session.post(method, params, (error, result) => error ? reject(error) : resolve(result ?? {}));
    });
  }
}
