/** What a person has ordered: whether it is under way, and why it failed. */

import { useSession } from "./session.svelte.ts";

class Attempt {
  busy = $state(false);
  problem = $state<string>();

  constructor(private readonly problemOf: (error: unknown) => string) {}

  /** Does `work`. Never rejects: a failure becomes the problem. */
  async run(work: () => Promise<unknown>): Promise<void> {
    this.busy = true;
    this.problem = undefined;
    try {
      await work();
    } catch (error) {
      this.problem = this.problemOf(error);
    } finally {
      this.busy = false;
    }
  }
}

/** For the beginning of a component. */
export function useAttempt(): Attempt {
  const session = useSession();
  return new Attempt((error) => session.problemOf(error));
}
