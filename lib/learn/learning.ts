/**
 * How a model is to be learned, as whoever wants one may say it. Owns the names and the bounds.
 */

import { SvcError } from "../base/error.ts";

export interface Learning {
  /** Rounds through the pictures at most; as many as their number suggests without it. */
  readonly epochs?: number;
  /** The same seed, pictures and labels give the same model, byte for byte. */
  readonly seed?: number;
  /** So much of the pictures is held back, to measure by. */
  readonly holdoutPercent?: number;
}

export const USUAL_HOLDOUT_PERCENT = 20;

/** What may be said, under the names of the wire. */
export const LEARNING = {
  epochs: { name: "epochs", min: 1, max: 500 },
  seed: { name: "seed", min: 0, max: 2 ** 32 - 1 },
  holdoutPercent: { name: "holdout_percent", min: 5, max: 50 },
} as const;

/** What is said of it, and nothing else. Throws `invalid_argument` for what is out of bounds. */
export function checkLearning(given: Learning): Learning {
  const said: { -readonly [K in keyof Learning]: number } = {};
  for (const key of Object.keys(LEARNING) as (keyof Learning)[]) {
    const found = given[key];
    if (found === undefined) continue;
    const { name, min, max } = LEARNING[key];
    if (!Number.isInteger(found) || found < min || found > max) {
      const wanted = `wanted a whole number from ${min} to ${max}`;
      throw new SvcError("invalid_argument", `${name}: found ${found}, ${wanted}`);
    }
    said[key] = found;
  }
  return said;
}
