/**
 * Whether anybody can see a part of the page: the tab is in front, and the part is within the window. What nobody sees
 * asks the machine nothing.
 */

import { getContext, setContext } from "svelte";

const CONTEXT = Symbol("whether the part is shown");
/** Parts this near to the window are ready when they scroll into it. */
const MARGIN = "200px";

export class Shown {
  #tab = $state(document.visibilityState === "visible");
  #within = $state(true);
  readonly #parent: Shown | undefined;

  constructor(parent?: Shown) {
    this.#parent = parent;
    document.addEventListener("visibilitychange", this.#visibility);
  }

  get now(): boolean {
    return this.#tab && this.#within && (this.#parent?.now ?? true);
  }

  /** Follows an element; an attachment of it. */
  readonly follow = (element: Element): () => void => {
    this.#within = false;
    // A busy page hears of several changes at once: the last one is the present state.
    const heard: IntersectionObserverCallback = (entries) =>
      this.#within = entries.at(-1)?.isIntersecting ?? false;
    const observer = new IntersectionObserver(heard, { rootMargin: MARGIN });
    observer.observe(element);
    return () => observer.disconnect();
  };

  close(): void {
    document.removeEventListener("visibilitychange", this.#visibility);
  }

  readonly #visibility = () => {
    this.#tab = document.visibilityState === "visible";
  };
}

/** A part of what the component around it shows; for the beginning of a component. */
export function provideShown(): Shown {
  const shown = new Shown(getContext<Shown | undefined>(CONTEXT));
  $effect(() => () => shown.close());
  return setContext(CONTEXT, shown);
}

export function useShown(): Shown {
  return getContext<Shown>(CONTEXT);
}
