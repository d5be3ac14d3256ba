/** Scores the worlds of the seeds that it is given, one after the other. */

import { paintWorld } from "./painting.ts";
import { worldOf } from "./matrix.ts";
import { scoreWorld, type WorldScore } from "./score.ts";

/** A seed to score; `isDrawn`: its picture is wanted as well. */
export interface WorldQuestion {
  readonly seed: number;
  readonly isDrawn: boolean;
}

export interface WorldAnswer {
  readonly score: WorldScore;
  /** A PNG file. */
  readonly picture?: Uint8Array;
}

const scope = globalThis as unknown as {
  onmessage: ((event: { data: WorldQuestion }) => void) | null;
  postMessage(answer: WorldAnswer): void;
};

scope.onmessage = ({ data: { seed, isDrawn } }) => {
  const world = worldOf(seed);
  const { score, paths } = scoreWorld(world);
  scope.postMessage({ score, picture: isDrawn ? paintWorld(world, paths) : undefined });
};
