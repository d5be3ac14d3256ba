/** Searches in sorted lists. */

/** The first of so many indices from which on a condition holds, by halves; `count` if it holds for none. */
export function firstIndex(count: number, holds: (index: number) => boolean): number {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
