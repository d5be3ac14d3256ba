/**
 * The dependency graph: pure functions from what resources say they need to who is built after whom.
 *
 * Nothing here holds state or acts. An edge that cannot be is refused alone: the resource that asked for it is
 * blocked with the reason, the others go on.
 */

import { ResourceName } from "./name.ts";

/** A resource named by another: short if unique among all, or full. */
export interface Need {
  readonly name: string;
  /** May be missing; the resource is then built without it. */
  readonly optional: boolean;
}

export interface Wiring {
  /** The full names each resource uses, by its full name; resources without any have an empty set. */
  readonly uses: ReadonlyMap<string, ReadonlySet<string>>;
  /** Why a resource cannot be built, by full name. */
  readonly blocked: ReadonlyMap<string, string>;
}

/** Resolves what every resource needs among all resources, refusing unknown, ambiguous, self and cyclic edges. */
export function wire(needs: ReadonlyMap<string, readonly Need[]>): Wiring {
  const byShort = new Map<string, string[]>();
  for (const full of needs.keys()) {
    const short = ResourceName.parse(full).short;
    byShort.set(short, [...byShort.get(short) ?? [], full]);
  }
  const uses = new Map<string, Set<string>>([...needs.keys()].map((full) => [full, new Set()]));
  const reasons = new Map<string, string[]>();
  const refuse = (full: string, reason: string) => reasons.set(full, [...reasons.get(full) ?? [], reason]);

  for (const [full, wanted] of needs) {
    const missing: string[] = [];
    for (const { name, optional } of wanted) {
      const found = needs.has(name) ? [name] : byShort.get(name) ?? [];
      if (found.length === 0) {
        if (!optional) missing.push(name);
      } else if (found.length > 1) {
        refuse(full, `dependency "${name}" is ambiguous, name one of ${found.join(", ")}`);
      } else if (found[0] === full) {
        refuse(full, `depends on itself through "${name}"`);
      } else {
        uses.get(full)!.add(found[0]);
      }
    }
    if (missing.length > 0) refuse(full, unresolved(missing));
  }
  refuseCycles(uses, refuse);
  const blocked = new Map([...reasons].map(([full, reason]) => [full, reason.join("; ")]));
  return { uses, blocked };
}

/**
 * Sorts `names` into groups, each of which needs only earlier ones. Uses of names outside the set count as met.
 * `uses` must be without cycles, as `wire` leaves it.
 */
export function levels(names: Iterable<string>, uses: Wiring["uses"]): string[][] {
  const members = new Set(names);
  const depths = new Map<string, number>();
  const order = topological(members, uses);
  for (const name of order) {
    let depth = 0;
    for (const used of uses.get(name) ?? []) {
      if (members.has(used)) depth = Math.max(depth, depths.get(used)! + 1);
    }
    depths.set(name, depth);
  }
  const groups: string[][] = [];
  for (const name of order) (groups[depths.get(name)!] ??= []).push(name);
  return groups.map((group) => group.sort());
}

/** All that use one of `names`, directly or not, `names` left out. */
export function dependents(names: Iterable<string>, uses: Wiring["uses"]): Set<string> {
  const usedBy = new Map<string, string[]>();
  for (const [name, used] of uses) for (const one of used) usedBy.set(one, [...usedBy.get(one) ?? [], name]);
  const start = new Set(names);
  const found = new Set<string>();
  const pending = [...start];
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    for (const user of usedBy.get(name) ?? []) {
      if (found.has(user) || start.has(user)) continue;
      found.add(user);
      pending.push(user);
    }
  }
  return found;
}

/** Takes out one edge of every cycle: the one found last in the order of the configuration. */
function refuseCycles(uses: Map<string, Set<string>>, refuse: (full: string, reason: string) => void): void {
  const done = new Set<string>();
  for (const start of uses.keys()) {
    if (done.has(start)) continue;
    // An explicit stack: a chain of thousands of resources must not overflow the program's own.
    const path: { name: string; rest: string[] }[] = [{ name: start, rest: [...uses.get(start)!] }];
    const onPath = new Set([start]);
    while (path.length > 0) {
      const top = path[path.length - 1];
      const next = top.rest.shift();
      if (next === undefined) {
        done.add(top.name);
        onPath.delete(top.name);
        path.pop();
      } else if (onPath.has(next)) {
        const cycle = path.slice(path.findIndex((one) => one.name === next)).map((one) => one.name);
        uses.get(top.name)!.delete(next);
        refuse(top.name, `dependency on ${next} closes a cycle: ${[...cycle, next].join(" -> ")}`);
      } else if (!done.has(next)) {
        path.push({ name: next, rest: [...uses.get(next)!] });
        onPath.add(next);
      }
    }
  }
}

function topological(members: ReadonlySet<string>, uses: Wiring["uses"]): string[] {
  const waiting = new Map<string, number>();
  const usedBy = new Map<string, string[]>();
  for (const name of members) {
    const inside = [...uses.get(name) ?? []].filter((used) => members.has(used));
    waiting.set(name, inside.length);
    for (const used of inside) {
      const users = usedBy.get(used);
      if (users) users.push(name);
      else usedBy.set(used, [name]);
    }
  }
  const order = [...members].filter((name) => waiting.get(name) === 0);
  for (let at = 0; at < order.length; at++) {
    for (const user of usedBy.get(order[at]) ?? []) {
      const left = waiting.get(user)! - 1;
      waiting.set(user, left);
      if (left === 0) order.push(user);
    }
  }
  return order;
}

function unresolved(missing: readonly string[]): string {
  return "resource has unresolved dependencies not found in machine config or connected remotes: " +
    `[${missing.join(", ")}]`;
}
