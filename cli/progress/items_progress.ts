/** Progress over items of different sizes: within a large one the bar moves, too. */

import type { ProgressBar } from "./progress_bar.ts";

/** Hears which share of an item is done, from 0 to 1. */
export type ShareHeard = (share: number) => void;

export class ItemsProgress {
  #done = 0;

  constructor(private readonly bar: Pick<ProgressBar, "show">, private readonly total: number) {}

  /** Works on one item, which counts as done at the end, whatever `work` has reported. */
  async item<T>(work: (heard: ShareHeard) => Promise<T>): Promise<T> {
    let own = 0;
    const heard = (share: number) => {
      const next = Math.max(own, Math.min(1, share));
      this.#done += next - own;
      own = next;
      this.bar.show(this.#done, this.total);
    };
    const value = await work(heard);
    heard(1);
    return value;
  }
}

/** The same pieces of `bytes` in all; `heard` gets the share of those that have been taken. */
export async function* heardPieces(
  pieces: AsyncIterable<Uint8Array>,
  bytes: number,
  heard: ShareHeard,
): AsyncGenerator<Uint8Array> {
  let taken = 0;
  for await (const piece of pieces) {
    yield piece;
    heard((taken += piece.length) / Math.max(bytes, 1));
  }
}
