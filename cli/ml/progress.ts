/**
 * A training's progress, from the lines of its log, and its form on one line of a terminal.
 *
 * A job logs its progress as `epoch 12/60 loss 0.41 validation 0.44 mAP 0.71`: names and numbers after the epoch. Pure.
 */

import { barParts, leftText } from "../progress/progress_bar.ts";

export interface ProgressLine {
  readonly epoch: number;
  readonly epochs: number;
  /** The other figures of the line: `loss`, `validation`, `mAP`, in its order. */
  readonly figures: readonly (readonly [name: string, value: number])[];
}

const LINE = /^epoch (\d+)\/(\d+)((?: .*)?)$/;
/** A name may have several words: `AP@0.5 red ball 0.9`. */
const FIGURE = / (\S.*?) (-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?= |$)/gy;

/** The progress in a line of the log; `undefined` for any other line. */
export function parseProgress(message: string): ProgressLine | undefined {
  const [, epoch, epochs, rest = ""] = LINE.exec(message.trim()) ?? [];
  if (epoch === undefined) return undefined;
  const found = [...rest.matchAll(FIGURE)];
  if (found.reduce((length, [text]) => length + text.length, 0) !== rest.length) return undefined;
  const figures = found.map(([, name = "", value]) => [name, Number(value)] as const);
  return { epoch: Number(epoch), epochs: Number(epochs), figures };
}

const BARS = "▁▂▃▄▅▆▇█";
const BAR_CELLS = 20;
const SPARK_CELLS = 24;

/** The values as a row of bars; with more values than `cells`, a bar shows the mean of its share. */
export function sparkline(values: readonly number[], cells = SPARK_CELLS): string {
  const finite = values.filter(Number.isFinite);
  const count = Math.max(0, Math.min(cells, finite.length));
  const means = Array.from({ length: count }, (_, cell) => {
    const share = finite.slice(
      Math.floor(cell * finite.length / count),
      Math.floor((cell + 1) * finite.length / count),
    );
    return share.reduce((sum, one) => sum + one, 0) / share.length;
  });
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const level = (value: number) =>
    high === low ? 0 : Math.round((value - low) / (high - low) * (BARS.length - 1));
  return means.map((value) => BARS[level(value)]).join("");
}

/** The form of a line. */
export interface LineForm {
  readonly coloured: boolean;
  /** Its maximum width. */
  readonly columns: number;
  /** The remaining time, if it is known. */
  readonly leftMs?: number;
  /** A training that stopped early, because it learned nothing more, is done all the same. */
  readonly isOver?: boolean;
}

/** `██████░░░░  epoch 12/60  loss 0.41 ▇▅▃▁  validation 0.44  mAP 0.71`, as much of it as fits. */
export function progressLine(
  progress: ProgressLine,
  losses: readonly number[],
  { coloured, columns, leftMs, isOver = false }: LineForm,
): string {
  const { epoch, epochs, figures } = progress;
  const [full, empty] = barParts(isOver ? 1 : epoch / Math.max(epochs, 1), BAR_CELLS);
  const reported = [
    `epoch ${epoch}/${epochs}`,
    ...leftMs === undefined ? [] : [leftText(leftMs)],
    ...figures.map(([name, value]) => `${name} ${figure(value)}`),
  ];
  let width = BAR_CELLS;
  const fitting = reported.filter((text) => (width += 2 + text.length) <= columns);
  const used = BAR_CELLS + fitting.reduce((sum, text) => sum + 2 + text.length, 0);
  const curve = sparkline(losses, Math.min(SPARK_CELLS, columns - used - 1));
  const paint = (code: number, text: string) => coloured ? `\x1b[${code}m${text}\x1b[0m` : text;
  const lines = fitting.map((text) => {
    return curve !== "" && losses.length > 1 && text.startsWith("loss ")
      ? `${text} ${paint(36, curve)}`
      : text;
  });
  return [paint(32, full) + paint(90, empty), ...lines].join("  ");
}

function figure(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** The remaining time at the pace between two reports; `undefined` if they do not tell a pace. */
export function trainingLeftMs(
  first: { readonly epoch: number; readonly atMs: number },
  last: { readonly epoch: number; readonly atMs: number },
  epochs: number,
): number | undefined {
  const [ranEpochs, ranMs] = [last.epoch - first.epoch, last.atMs - first.atMs];
  const leftEpochs = epochs - last.epoch;
  if (!(ranEpochs > 0 && ranMs > 0 && leftEpochs > 0)) return undefined;
  return ranMs / ranEpochs * leftEpochs;
}

/** The value of the loss. */
export function lossOf({ figures }: ProgressLine): number | undefined {
  return figures.find(([name]) => name === "loss")?.[1];
}
