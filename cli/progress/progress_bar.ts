/**
 * The progress of long work at a command line: on a terminal a bar that is redrawn, with the remaining time; elsewhere a
 * line now and then.
 *
 * The room owns what people see while a command works.
 */

import type { Clock } from "../../lib/base/clock.ts";
import { escapedLine } from "../../lib/base/escape.ts";
import type { Screen } from "../../lib/base/host.ts";
import { lengthText, sizeText } from "../table.ts";

/** Pause between two drawings. */
const DRAWN_MS = 100;
/** Work that is done sooner needs no report, and earlier estimates are guesses. */
const QUICK_MS = 2_000;
/** Pause between two lines without a terminal. */
const LOGGED_MS = 10_000;
const CELLS = 20;
const USUAL_COLUMNS = 80;

/** The work as the bar names it. */
export interface Progressing {
  /** `images added`; for bytes `of rover.tar.gz`. */
  readonly what: string;
  readonly inBytes?: boolean;
}

export interface BarPlace {
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

  constructor(private readonly place: BarPlace, private readonly work: Progressing) {
    this.#beganMs = this.#shownMs = place.clock.monotonicMs();
  }

  /** `total` is missing if it is not known. */
  show(done: number, total?: number): void {
    const { host, clock, isLive, columns = USUAL_COLUMNS } = this.place;
    const nowMs = clock.monotonicMs();
    const before = this.#before ??= done;
    const ranMs = nowMs - this.#beganMs;
    const pauseMs = isLive ? DRAWN_MS : LOGGED_MS;
    const isFirst = this.#shownMs === this.#beganMs;
    if (isFirst ? !isLive && ranMs < QUICK_MS : nowMs - this.#shownMs < pauseMs) return;
    this.#shownMs = nowMs;
    const isGuess = ranMs < QUICK_MS || done <= before || total === undefined;
    const leftMs = isGuess ? undefined : ranMs * (total - done) / (done - before);
    // Names of files and packages come from elsewhere, and move no cursor.
    const text = escapedLine(progressText(this.work, { done, total, leftMs }));
    if (!isLive) return this.place.note(text);
    const bar = total === undefined ? "" : `${barParts(done / Math.max(total, 1), CELLS).join("")}  `;
    host.draw(`\r\x1b[2K${`${bar}${text}`.slice(0, columns - 1)}`);
    this.#isDrawn = true;
  }

  /** Clears the redrawn line, so that the result stands there. */
  end(): void {
    if (this.#isDrawn) this.place.host.draw("\r\x1b[2K");
    this.#isDrawn = false;
  }
}

/** `12 of 50 images added, 40s left` */
function progressText(
  { what, inBytes = false }: Progressing,
  { done, total, leftMs }: { readonly done: number; readonly total?: number; readonly leftMs?: number },
): string {
  const shown = (count: number) => inBytes ? sizeText(count) : String(count);
  const of = total === undefined ? "" : ` of ${shown(total)}`;
  return `${shown(done)}${of} ${what}${leftMs === undefined ? "" : `, ${leftText(leftMs)}`}`;
}

/** `40s left` */
export function leftText(leftMs: number): string {
  return `${lengthText(Math.ceil(leftMs / 1000) * 1000).replace(".0s", "s")} left`;
}

/** `██████` and `░░░░` */
export function barParts(share: number, cells: number): [full: string, empty: string] {
  const full = Math.max(0, Math.min(cells, Math.round(share * cells)));
  return ["█".repeat(full), "░".repeat(cells - full)];
}
