/**
 * What a person has chosen in a list: kept while the page is open, so that the way back from one of its items leads to
 * the list as it was. The lists of another person begin anew.
 */

import { getContext, setContext } from "svelte";
import { useSession } from "./account/session.svelte.ts";

class KeptChoices {
  readonly #lists = new Map<string, object>();

  of<T extends object>(list: string, first: T): T {
    const known = this.#lists.get(list);
    if (known) return known as T;
    const choices = $state(first);
    this.#lists.set(list, choices);
    return choices;
  }
}

const CONTEXT = Symbol("the choices in lists");

/** For the beginning of the page. */
export function provideChoices(): void {
  setContext(CONTEXT, new KeptChoices());
}

/** The choices in a list, `first` where nobody has chosen yet; for the beginning of a component. */
export function useChoices<T extends object>(list: string, first: T): T {
  return getContext<KeptChoices>(CONTEXT).of(`${list} of ${useSession().viewsOf}`, first);
}
