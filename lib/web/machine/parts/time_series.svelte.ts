/** The last values of some quantities over time, in a bounded buffer. */

const POINTS_MAX = 600;
/** A plot is drawn at most this often. */
const DRAW_MS = 100;

export class TimeSeries {
  /** Grows when a plot should draw again. */
  version = $state(0);
  #names: readonly string[];
  #times: number[] = [];
  #columns: (number | null)[][];
  #drawnMs = 0;

  constructor(names: readonly string[]) {
    this.#names = names;
    this.#columns = names.map(() => []);
  }

  get names(): readonly string[] {
    return this.#names;
  }

  /** Seconds, then a column for each name. */
  get data(): [number[], ...(number | null)[][]] {
    return [this.#times, ...this.#columns];
  }

  /** Takes the values of all names now; other names than before begin anew. */
  push(
    values: Readonly<Record<string, number | undefined>>,
    names: readonly string[] = this.#names,
    timeMs = Date.now(),
  ): void {
    if (names !== this.#names && names.join("\n") !== this.#names.join("\n")) {
      this.#names = names;
      this.#times = [];
      this.#columns = names.map(() => []);
    }
    this.#times.push(timeMs / 1000);
    for (const [at, name] of this.#names.entries()) {
      const value = values[name];
      this.#columns[at]?.push(value !== undefined && Number.isFinite(value) ? value : null);
    }
    if (this.#times.length > POINTS_MAX) {
      this.#times.shift();
      for (const column of this.#columns) column.shift();
    }
    const nowMs = Date.now();
    if (nowMs - this.#drawnMs >= DRAW_MS) {
      this.#drawnMs = nowMs;
      this.version++;
    }
  }

  /** Has these values instead, the oldest first. */
  fill(
    names: readonly string[],
    points: readonly {
      readonly timeMs: number;
      readonly values: Readonly<Record<string, number | undefined>>;
    }[],
  ): void {
    this.clear();
    for (const { timeMs, values } of points) this.push(values, names, timeMs);
    this.version++;
  }

  clear(): void {
    this.#times = [];
    this.#columns = this.#names.map(() => []);
    this.version++;
  }
}
