/** A list that is read page by page: the first when somebody looks, each further one when it is asked for. */

import { untrack } from "svelte";
import { useSession } from "./session.svelte.ts";
import type { FleetCalls } from "./fleet_calls.ts";

export interface ListPage<T> {
  readonly items: readonly T[];
  readonly nextPageToken: string;
}

/** So many stay on the page; a search narrows the list down. */
const KEPT = 5000;

class Pages<T> {
  items = $state.raw<readonly T[]>();
  problem = $state<string>();
  busy = $state(false);
  #token = $state("");
  /** The question whose answer counts. */
  #asked = 0;

  constructor(
    private readonly ask: (pageToken: string) => Promise<ListPage<T> | undefined>,
    private readonly problemOf: (error: unknown) => string,
  ) {}

  get hasMore(): boolean {
    return this.#token !== "" && (this.items?.length ?? 0) < KEPT;
  }

  /** Reads the first page. What was read before stays in sight until then. */
  again(): Promise<void> {
    return this.#read("");
  }

  more(): Promise<void> {
    return this.hasMore && !this.busy ? this.#read(this.#token) : Promise.resolve();
  }

  async #read(token: string): Promise<void> {
    const question = ++this.#asked;
    this.busy = true;
    try {
      const page = await this.ask(token);
      if (question !== this.#asked || !page) return;
      this.items = token === "" ? page.items : [...this.items ?? [], ...page.items];
      this.#token = page.nextPageToken;
      this.problem = undefined;
    } catch (error) {
      if (question === this.#asked) this.problem = this.problemOf(error);
    } finally {
      if (question === this.#asked) this.busy = false;
    }
  }
}

/** For the beginning of a component. `question` is followed: another one begins the list anew. */
export function pagesOf<Q, T>(
  question: () => Q,
  ask: (calls: FleetCalls, question: Q, pageToken: string) => Promise<ListPage<T>>,
): Pages<T> {
  const session = useSession();
  let asked: Q;
  const pages = new Pages<T>(
    async (token) => session.calls && await ask(session.calls, asked, token),
    (error) => session.problemOf(error),
  );
  $effect(() => {
    asked = question();
    if (session.calls) untrack(() => void pages.again());
  });
  return pages;
}
