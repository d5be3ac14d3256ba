/**
 * The plan: the steps from the present to the wanted resources, as a pure function.
 *
 * Equal resources stay untouched. Removed and changed resources, and the holders of these, are closed, dependents
 * first; wanted resources are built, dependencies first. Within a group the order is free. An optional dependency is
 * used if it is available: when that changes, its holder is rebuilt.
 */

import {
  levels,
  levelsOf,
  type Need,
  type ResolvedDependencies,
  resolveDependencies,
  topological,
  withUsers,
} from "../../../resource/graph.ts";

/** A present resource. */
export interface Standing {
  /** The inputs of its construction, as comparable text. */
  readonly fingerprint: string;
  /** Its dependencies. */
  readonly holds: ReadonlySet<string>;
  readonly condition: Condition;
}

/** Whether an instance exists, is being built, or neither. */
export type Condition = "ready" | "building" | "down";

/** A wanted resource. */
export interface WantedResource {
  readonly fingerprint: string;
  readonly needs: readonly Need[];
  /** Why it cannot be built, independent of the others. */
  readonly problem?: string;
}

export interface Plan {
  /** Full names, group after group. They include unwanted ones, with and without an instance. */
  readonly close: readonly (readonly string[])[];
  readonly build: readonly (readonly string[])[];
}

type Stand = ReadonlyMap<string, Standing>;
type Want = ReadonlyMap<string, WantedResource>;

/** Why a wanted resource cannot be built; `undefined` if it can. */
export function obstacle(full: string, wanted: Want, { blocked }: ResolvedDependencies): string | undefined {
  const reasons = [wanted.get(full)?.problem, blocked.get(full)].filter((reason) => reason !== undefined);
  return reasons.length > 0 ? reasons.join("; ") : undefined;
}

/**
 * The steps to the wanted resources; resources without an instance are retried. `scope` limits them to some names: it
 * must contain, with each name, all present resources that use it.
 */
export function planOf(
  standing: Stand,
  wanted: Want,
  wiring: ResolvedDependencies = resolveDependencies(wanted),
  scope?: ReadonlySet<string>,
): Plan {
  const gone = scope ? [] : [...standing.keys()].filter((full) => !wanted.has(full));
  const stale = new Set<string>();
  const build: string[] = [];
  for (const full of scope ? topological(scope, wiring.uses) : wiring.order) {
    const old = standing.get(full);
    const possible = wanted.get(full)!.problem === undefined && !wiring.blocked.has(full);
    if (old && old.condition !== "down") {
      const same = possible && old.fingerprint === wanted.get(full)!.fingerprint;
      if (!same || !holdsRight(full, old, standing, wiring, stale)) stale.add(full);
    }
    if (possible && (old?.condition !== "ready" || stale.has(full))) build.push(full);
  }

  const close = [...gone, ...stale];
  const holds = new Map(close.map((full) => [full, standing.get(full)!.holds]));
  return { close: levels(close, holds).reverse(), build: levelsOf(build, wiring.uses) };
}

/** Whether it has exactly the dependencies that it should have, and all of them stay. */
function holdsRight(
  full: string,
  { holds }: Standing,
  standing: Stand,
  { uses, optional }: ResolvedDependencies,
  stale: ReadonlySet<string>,
): boolean {
  let held = 0;
  for (const used of uses.get(full)!) {
    if (holds.has(used)) {
      if (stale.has(used)) return false;
      held++;
      continue;
    }
    const available = standing.get(used)?.condition === "ready" && !stale.has(used);
    if (available || !optional.get(full)?.has(used)) return false;
  }
  return held === holds.size;
}

/** The scope of a retry of `failed`: they and those that wait for them. */
export function retryScope(
  failed: Iterable<string>,
  standing: Stand,
  { usedBy }: ResolvedDependencies,
): Set<string> {
  return withUsers(failed, usedBy, (full) => standing.get(full)?.condition !== "ready");
}

/** The scope that remains after `built` were built: holders that lack one of them, and their users. */
export function unsettled(
  built: Iterable<string>,
  standing: Stand,
  { usedBy, optional }: ResolvedDependencies,
): Set<string> {
  const without = new Set<string>();
  for (const full of built) {
    if (standing.get(full)?.condition !== "ready") continue;
    for (const user of usedBy(full)) {
      const holder = standing.get(user);
      if (holder?.condition !== "ready" || holder.holds.has(full)) continue;
      if (optional.get(user)?.has(full)) without.add(user);
    }
  }
  return withUsers(without, usedBy);
}
