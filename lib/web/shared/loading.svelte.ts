/**
 * What is loaded when it is first needed, such as the component of a view.
 *
 * In place of Svelte's block for promises, which keeps what it has shown until the page is closed: it hands over a
 * promise's value outside of any run of an effect, where the runtime (5.57) notes the write and never forgets it.
 */

import { problemText } from "./problem_text.ts";

export interface Loading<T> {
  /** Absent until it has arrived. */
  readonly value: T | undefined;
  readonly problem: string | undefined;
}

class LoadingState<T> implements Loading<T> {
  value = $state.raw<T>();
  problem = $state<string>();
}

/** For the beginning of a component. What `load` reads is followed; it returns `undefined` while nothing is wanted. */
export function loading<T>(load: () => Promise<T> | undefined): Loading<T> {
  const state = new LoadingState<T>();
  $effect.pre(() => {
    const arriving = load();
    state.value = undefined;
    state.problem = undefined;
    if (!arriving) return;
    let over = false;
    arriving.then(
      (value) => over || (state.value = value),
      (error) => over || (state.problem = problemText(error)),
    );
    return () => over = true;
  });
  return state;
}
