/** What somebody types, once they have stopped: so that a search does not run for every letter. */

import { untrack } from "svelte";

const SETTLE_MS = 400;

class SettledText {
  value = $state("");

  constructor(first: string) {
    this.value = first;
  }
}

/** For the beginning of a component. `typed` is followed. */
export function settled(typed: () => string): { readonly value: string } {
  const state = new SettledText(untrack(typed));
  $effect(() => {
    const text = typed();
    const timer = setTimeout(() => state.value = text, SETTLE_MS);
    return () => clearTimeout(timer);
  });
  return state;
}
