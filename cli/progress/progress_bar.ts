/**
 * The progress of long work at a command line: on a terminal a bar that is redrawn, with the remaining time; elsewhere a
 * line now and then.
 *
 * The room owns what people see while a command works.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { escapedLine } from "../../lib/base/escape.ts";
import type { Output, Screen } from "../../lib/base/host.ts";
import { lengthText, sizeText } from "../table.ts";

/** Pause between two drawings. */
const DRAWN_MS = 100;
/** Work that is done sooner needs no report, and earlier estimates are guesses. */
export const QUICK_MS = 2_000;
/** Interval at which work that counts nothing shows that it goes on. */
export const TICK_MS = 1_000;
/** Pause between two lines without a terminal. */
const LOGGED_MS = 10_000;
const CELLS = 20;
/** Shares of items add up to a little less than their number. */
const ROUNDING = 1e-6;
const USUAL_COLUMNS = 80;

/** The work as the bar names it. */
export interface Progressing {
  /** `images added`; for bytes `of rover.tar.gz`. */
  readonly what: string;
  readonly inBytes?: boolean;
}

/** What has been done, and of how much; the total is missing if it is not known. */
interface Counted {
  readonly done: number;
  readonly total?: number;
}

export interface BarOutput {
  readonly host: Pick<Screen, "draw">;
  /** Writes a line on standard error, where a line cannot be redrawn. */
  note(line: string): void;
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Whether standard error is a terminal, on which a line can be redrawn. */
  readonly isLive: boolean;
  /** Of the terminal. */
  readonly columns?: number;
}

export class ProgressBar {
  readonly #beganMs: number;
  #shownMs: number;
  /** What was done before: an interrupted download goes on. */
  #before: number | undefined;
  #isDrawn = false;
  /** Work under way that counts nothing. */
  #phase: { readonly text: string; readonly sinceMs: number } | undefined;
  #last: Counted | undefined;

  constructor(private readonly place: BarOutput, private readonly work: Progressing) {
    this.#beganMs = this.#shownMs = place.clock.monotonicMs();
  }

  /** `total` is missing if it is not known. */
  show(done: number, total?: number): void {
    this.#phase = undefined;
    this.#before ??= done;
    this.#last = { done, total };
    this.#draw(this.#pauseMs());
  }

  #pauseMs(): number {
    return this.place.isLive ? DRAWN_MS : LOGGED_MS;
  }

  /** Names work that counts nothing, such as `copying the database`; until the next count. */
  phase(text: string): void {
    const begins = this.#phase === undefined;
    this.#phase = { text, sinceMs: this.#phase?.sinceMs ?? this.place.clock.monotonicMs() };
    // Work that leaves no turn to a timer is named before it.
    this.#draw(begins ? 0 : this.#pauseMs());
  }

  /** Writes a remark above the bar. */
  note(line: string): void {
    this.end();
    this.place.note(line);
  }

  /** Shows that the work goes on, also if nothing has been counted since. */
  tick(): void {
    this.#draw(this.place.isLive ? TICK_MS : LOGGED_MS);
  }

  #draw(pauseMs: number): void {
    const { host, clock, isLive, columns = USUAL_COLUMNS } = this.place;
    const nowMs = clock.monotonicMs();
    const isFirst = this.#shownMs === this.#beganMs;
    const waits = isFirst ? !isLive && nowMs - this.#beganMs < QUICK_MS : nowMs - this.#shownMs < pauseMs;
    if (waits) return;
    this.#shownMs = nowMs;
    // Names of files and packages come from elsewhere, and move no cursor.
    const text = escapedLine(this.#text(nowMs));
    if (!isLive) return this.place.note(text);
    const { done, total } = this.#last ?? { done: 0 };
    const bar = total === undefined ? "" : `${barParts(done / Math.max(total, 1), CELLS).join("")}  `;
    host.draw(`\r\x1b[2K${`${bar}${text}`.slice(0, columns - 1)}`);
    this.#isDrawn = true;
  }

  #text(nowMs: number): string {
    const ranMs = nowMs - this.#beganMs;
    const last = this.#last;
    if (this.#phase) return waitingText(this.#phase.text, nowMs - this.#phase.sinceMs);
    if (!last) return waitingText(this.work.what, ranMs);
    const [{ done, total }, before] = [last, this.#before ?? 0];
    const isGuess = ranMs < QUICK_MS || done <= before || total === undefined || done >= total;
    const leftMs = isGuess ? undefined : ranMs * (total - done) / (done - before);
    return progressText(this.work, { done, total, leftMs });
  }

  /** Clears the redrawn line, so that the result stands there. */
  end(): void {
    if (this.#isDrawn) this.place.host.draw("\r\x1b[2K");
    this.#isDrawn = false;
  }
}

/** `copying the database, 4s so far` */
function waitingText(what: string, ranMs: number): string {
  return ranMs < TICK_MS ? `${what} …` : `${what}, ${shortLength(ranMs)} so far`;
}

/** `12 of 50 images added, 40s left` */
function progressText(
  { what, inBytes = false }: Progressing,
  { done, total, leftMs }: Counted & { readonly leftMs?: number },
): string {
  const shown = (count: number) => inBytes ? sizeText(count) : String(Math.floor(count + ROUNDING));
  const of = total === undefined ? "" : ` of ${shown(total)}`;
  return `${shown(done)}${of} ${what}${leftMs === undefined ? "" : `, ${leftText(leftMs)}`}`;
}

/** `40s left` */
export function leftText(leftMs: number): string {
  return `${shortLength(leftMs)} left`;
}

function shortLength(ms: number): string {
  return lengthText(Math.ceil(ms / 1000) * 1000).replace(".0s", "s");
}

/**
 * Runs long work under a bar: it is drawn anew while the work counts nothing, and cleared at the end, also of work that
 * fails.
 */
export async function withBar<T>(
  { host, clock }: { readonly host: Screen & Output; readonly clock: Clock },
  work: Progressing,
  run: (bar: ProgressBar) => Promise<T>,
): Promise<T> {
  const columns = host.drawnColumns();
  const note = (line: string) => host.writeError(`${line}\n`);
  const bar = new ProgressBar({ host, note, clock, isLive: columns !== undefined, columns }, work);
  let cancel = () => {};
  const again = () => {
    cancel = clock.after(TICK_MS, () => {
      bar.tick();
      again();
    });
  };
  again();
  try {
    return await run(bar);
  } finally {
    cancel();
    bar.end();
  }
}

/** `██████` and `░░░░` */
export function barParts(share: number, cells: number): [full: string, empty: string] {
  const full = Math.max(0, Math.min(cells, Math.round(share * cells)));
  return ["█".repeat(full), "░".repeat(cells - full)];
}
