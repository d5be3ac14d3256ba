/** Whether the caller may change an organization, asked for again and again. */

import { mayChange } from "./fleet_calls.ts";
import { pollCloud } from "./session.svelte.ts";

const EVERY_MS = 30_000;

export interface Ownership {
  /** Why not; `undefined` also while that is not known: the calls check it themselves. */
  readonly refusal: string | undefined;
  /** Why it cannot be found out. */
  readonly problem: string | undefined;
}

/** For the beginning of a component. */
export function pollOwnership(organizationId: () => string): Ownership {
  const rights = pollCloud((calls) => mayChange(calls, "organization", organizationId()), EVERY_MS);
  return {
    get refusal() {
      return rights.value === false ? "Only an owner of the organization may do this." : undefined;
    },
    get problem() {
      return rights.problem;
    },
  };
}
