/**
 * Repeatable randomness: the same seed gives the same numbers on every machine and in every run. For searches that
 * must be deterministic and for tests; not for secrets.
 */

/** Numbers in [0, 1) with a period of 2^32 (a Weyl sequence through an integer mixer). */
export function randomFrom(seed: number): () => number {
  // Signed: V8 keeps an unsigned number above 2^31 in an object of its own, a new one at each call.
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}
