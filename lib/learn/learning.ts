/** The options of a training that a user may set. Owns their names and bounds. */

import { SvcError } from "../base/error.ts";

export interface Learning {
  /** Most rounds through the pictures; absent means a number that depends on the number of pictures. */
  readonly epochs?: number;
  /** The same seed, pictures and labels give the same model, byte for byte. */
  readonly seed?: number;
  /** Share of the pictures to hold back for measurement. */
  readonly holdoutPercent?: number;
}

export const USUAL_HOLDOUT_PERCENT = 20;

/** The options under their names on the wire. */
export const LEARNING = {
  epochs: { name: "epochs", min: 1, max: 500 },
  seed: { name: "seed", min: 0, max: 2 ** 32 - 1 },
  holdoutPercent: { name: "holdout_percent", min: 5, max: 50 },
} as const;

/** Only the given options. Throws `invalid_argument` for a value out of bounds. */
export function checkLearning(given: Learning): Learning {
  const output: { -readonly [K in keyof Learning]: number } = {};
  for (const key of Object.keys(LEARNING) as (keyof Learning)[]) {
    const found = given[key];
    if (found === undefined) continue;
    const { name, min, max } = LEARNING[key];
    if (!Number.isInteger(found) || found < min || found > max) {
      const wanted = `wanted a whole number from ${min} to ${max}`;
      throw new SvcError("invalid_argument", `${name}: found ${found}, ${wanted}`);
    }
    output[key] = found;
  }
  return output;
}
