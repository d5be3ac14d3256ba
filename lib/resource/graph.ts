/**
 * The dependency graph: pure functions from what resources say they need to who is built after whom.
 *
 * Nothing here holds state or acts. An edge that cannot be is refused alone: a resource that cannot do without it
 * is blocked with the reason, one that can goes without, and the others go on.
 */

import { ResourceName } from "./name.ts";

/** A resource named by another: short if unique among all, or full. */
export interface Need {
  readonly name: string;
  /** May be missing; the resource is then built without it. */
  readonly optional: boolean;
}

export type Edges = ReadonlyMap<string, ReadonlySet<string>>;

/** Everything by full name. */
export interface Wiring {
  /** What each resource uses, optional or not, without cycles; those that use nothing have an empty set. */
  readonly uses: Edges;
  /** Those of its uses that a resource can do without; absent for resources that have none. */
  readonly optional: Edges;
  /** The same edges as `uses` from the other end; absent for what nobody uses. */
  readonly usedBy: Edges;
  /** Why a resource cannot be built. */
  readonly blocked: ReadonlyMap<string, string>;
  /** Why a resource goes without something it named as optional. What is merely not there is not mentioned. */
  readonly refused: ReadonlyMap<string, string>;
}

/** Resolves what every resource needs among all resources, refusing unknown, ambiguous, self and cyclic edges. */
export function wire(needs: ReadonlyMap<string, readonly Need[]>): Wiring {
  const names = new Names(needs.keys());
  const edges = new MutableWiring(needs.keys());
  for (const [full, wanted] of needs) {
    const missing: string[] = [];
    for (const { name, optional } of wanted) {
      const found = names.find(name);
      if (found.length === 0) {
        if (!optional) missing.push(name);
      } else if (found.length > 1) {
        const choice = found.join(", ");
        edges.refuse(full, `dependency "${name}" is ambiguous, name one of ${choice}`, optional);
      } else if (found[0] === full) {
        edges.refuse(full, `depends on itself through "${name}"`, optional);
      } else {
        edges.add(full, found[0], optional);
      }
    }
    if (missing.length > 0) edges.refuse(full, unresolved(missing), false);
  }
  edges.refuseCycles();
  return edges.wiring();
}

/**
 * Sorts `names` into groups, each of which needs only earlier ones. Uses of names outside the set count as met.
 * `uses` must be without cycles, as `wire` leaves it.
 */
export function levels(names: Iterable<string>, uses: Edges): string[][] {
  const members = new Set(names);
  const depths = new Map<string, number>();
  const groups: string[][] = [];
  for (const name of topological(members, uses)) {
    let depth = 0;
    for (const used of uses.get(name) ?? []) {
      if (members.has(used)) depth = Math.max(depth, depths.get(used)! + 1);
    }
    depths.set(name, depth);
    (groups[depth] ??= []).push(name);
  }
  return groups.map((group) => group.sort());
}

/** `names` in an order in which each comes after those of them that it uses. `uses` must be without cycles. */
export function topological(names: Iterable<string>, uses: Edges): string[] {
  const members = new Set(names);
  const waiting = new Map<string, number>();
  const usedBy = new Map<string, string[]>();
  for (const name of members) {
    let count = 0;
    for (const used of uses.get(name) ?? []) {
      if (!members.has(used)) continue;
      count++;
      append(usedBy, used, name);
    }
    waiting.set(name, count);
  }
  const order = [...members].filter((name) => waiting.get(name) === 0);
  for (let index = 0; index < order.length; index++) {
    for (const user of usedBy.get(order[index]) ?? []) {
      const left = waiting.get(user)! - 1;
      waiting.set(user, left);
      if (left === 0) order.push(user);
    }
  }
  return order;
}

/** `names` and all that use one of them, directly or through others that `through` lets pass. */
export function withUsers(
  names: Iterable<string>,
  usedBy: Edges,
  through: (name: string) => boolean = () => true,
): Set<string> {
  const found = new Set(names);
  // A set hands out what is added while it is gone through.
  for (const name of found) {
    for (const user of usedBy.get(name) ?? []) if (through(user)) found.add(user);
  }
  return found;
}

/** Who is called what. */
class Names {
  readonly #full = new Set<string>();
  readonly #locals = new Map<string, string[]>();
  readonly #remotes = new Map<string, string[]>();

  constructor(fulls: Iterable<string>) {
    for (const full of fulls) {
      this.#full.add(full);
      const { short, simple, isRemote } = ResourceName.parse(full);
      if (isRemote) {
        append(this.#remotes, short, full);
        append(this.#remotes, simple, full);
      } else append(this.#locals, short, full);
    }
  }

  /** A full name is one resource, a short one may be several; where a local one has it, remotes do not matter. */
  find(name: string): readonly string[] {
    if (this.#full.has(name)) return [name];
    return this.#locals.get(name) ?? this.#remotes.get(name) ?? [];
  }
}

class MutableWiring {
  readonly #uses: Map<string, Set<string>>;
  readonly #optional = new Map<string, Set<string>>();
  readonly #blocked = new Map<string, string[]>();
  readonly #refused = new Map<string, string[]>();

  constructor(fulls: Iterable<string>) {
    this.#uses = new Map([...fulls].map((full) => [full, new Set<string>()]));
  }

  /** What is needed once as optional and once not is not optional. */
  add(full: string, used: string, optional: boolean): void {
    const uses = this.#uses.get(full)!;
    const optionals = this.#optional.get(full);
    if (!optional) optionals?.delete(used);
    else if (!uses.has(used)) {
      if (optionals) optionals.add(used);
      else this.#optional.set(full, new Set([used]));
    }
    uses.add(used);
  }

  refuse(full: string, reason: string, optional: boolean): void {
    append(optional ? this.#refused : this.#blocked, full, reason);
  }

  /** Takes one edge out of every cycle: one that its owner can do without, else the one found last. */
  refuseCycles(): void {
    const done = new Set<string>();
    for (const start of this.#uses.keys()) if (!done.has(start)) this.#walk(start, done);
  }

  /** An explicit stack: a chain of thousands of resources must not overflow the program's own. */
  #walk(start: string, done: Set<string>): void {
    const path = [this.#step(start)];
    const onPath = new Set([start]);
    while (path.length > 0) {
      const top = path[path.length - 1];
      const { done: exhausted, value: next } = top.rest.next();
      if (exhausted) {
        done.add(top.name);
        onPath.delete(top.name);
        path.pop();
      } else if (onPath.has(next)) {
        const from = path.findIndex(({ name }) => name === next);
        const cycle = [...path.slice(from).map(({ name }) => name), next];
        // What hung below the edge that goes is no longer on the path; it is walked again when it is come by.
        for (const { name } of path.splice(from + this.#break(cycle) + 1)) onPath.delete(name);
      } else if (!done.has(next)) {
        path.push(this.#step(next));
        onPath.add(next);
      }
    }
  }

  #step(name: string): { name: string; rest: Iterator<string> } {
    return { name, rest: [...this.#uses.get(name)!].values() };
  }

  /** Refuses one edge of the cycle and tells where in it the edge begins. */
  #break(cycle: readonly string[]): number {
    const isOptional = (index: number) => this.#optional.get(cycle[index])?.has(cycle[index + 1]) ?? false;
    let index = cycle.length - 2;
    while (index >= 0 && !isOptional(index)) index--;
    const optional = index >= 0;
    if (!optional) index = cycle.length - 2;
    const [full, used] = [cycle[index], cycle[index + 1]];
    const whole = [...cycle.slice(index, -1), ...cycle.slice(0, index + 1)];
    this.#uses.get(full)!.delete(used);
    this.#optional.get(full)?.delete(used);
    this.refuse(full, `dependency on ${used} closes a cycle: ${shown(whole)}`, optional);
    return index;
  }

  wiring(): Wiring {
    const usedBy = new Map<string, Set<string>>();
    for (const [full, uses] of this.#uses) {
      for (const used of uses) {
        const users = usedBy.get(used);
        if (users) users.add(full);
        else usedBy.set(used, new Set([full]));
      }
    }
    const reasons = (map: Map<string, string[]>) =>
      new Map([...map].map(([full, all]) => [full, all.join("; ")]));
    return {
      uses: this.#uses,
      optional: this.#optional,
      usedBy,
      blocked: reasons(this.#blocked),
      refused: reasons(this.#refused),
    };
  }
}

/** A cycle longer than this is shown by its beginning and end. */
const CYCLE_SHOWN = 16;

function shown(cycle: readonly string[]): string {
  const half = CYCLE_SHOWN / 2;
  const parts = cycle.length <= CYCLE_SHOWN
    ? cycle
    : [...cycle.slice(0, half), `(${cycle.length - CYCLE_SHOWN} more)`, ...cycle.slice(-half)];
  return parts.join(" -> ");
}

function unresolved(names: readonly string[]): string {
  return `resource has unresolved dependencies not found in machine config or connected remotes: [${
    names.join(", ")
  }]`;
}

function append(map: Map<string, string[]>, key: string, value: string): void {
  const values = map.get(key);
  if (values) values.push(value);
  else map.set(key, [value]);
}
