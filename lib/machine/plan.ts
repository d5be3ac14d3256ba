/**
 * The plan: from what stands and what is wanted to the steps between, as a pure function.
 *
 * Equal resources are left alone. What is gone, has changed, or uses something that does, is closed, dependents
 * first; what is to stand is built, dependencies first. Within a group order does not matter.
 */

import { dependents, levels, type Need, wire } from "../resource/graph.ts";

/** A resource as it stands. */
export interface Standing {
  /** What it was built from, as comparable text. */
  readonly fingerprint: string;
  readonly uses: ReadonlySet<string>;
  /** It works; one that does not is built again. */
  readonly healthy: boolean;
}

/** A resource as it is wanted. */
export interface Wanted {
  readonly fingerprint: string;
  readonly needs: readonly Need[];
}

export interface Plan {
  /** Full names, group after group. */
  readonly close: readonly (readonly string[])[];
  readonly build: readonly (readonly string[])[];
  /** Why a wanted resource cannot be built. */
  readonly blocked: ReadonlyMap<string, string>;
  /** What each wanted resource uses. */
  readonly uses: ReadonlyMap<string, ReadonlySet<string>>;
}

export function planOf(standing: ReadonlyMap<string, Standing>, wanted: ReadonlyMap<string, Wanted>): Plan {
  const { uses, blocked } = wire(new Map([...wanted].map(([full, { needs }]) => [full, needs])));
  const oldUses = new Map([...standing].map(([full, one]) => [full, one.uses]));

  const stale = new Set<string>();
  for (const [full, old] of standing) {
    const next = wanted.get(full);
    const same = next?.fingerprint === old.fingerprint && sameSet(uses.get(full)!, old.uses);
    if (!same || !old.healthy || blocked.has(full)) stale.add(full);
  }
  for (const full of dependents(stale, oldUses)) stale.add(full);

  const build = [...wanted.keys()].filter((full) => !blocked.has(full) && (!standing.has(full) || stale.has(full)));
  return { close: levels(stale, oldUses).reverse(), build: levels(build, uses), blocked, uses };
}

function sameSet(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((one) => b.has(one));
}
