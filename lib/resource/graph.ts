/**
 * The dependency graph: pure functions that turn the needs of resources into the order in which to build
 * them.
 *
 * Nothing here holds state or acts. An impossible edge is refused by itself: a resource that requires it is
 * blocked with the reason, a resource for which it is optional goes without it, and all others continue.
 */

import { assert } from "../base/error.ts";
import { escapedBlanks } from "../base/escape.ts";

const NOTHING: readonly string[] = [];

/** The name of a needed resource: its full name, or its short name if that is unique. */
export interface Need {
  readonly name: string;
  /** If true and the resource is missing, the owner is built without it. */
  readonly optional: boolean;
}

export type Edges = ReadonlyMap<string, Iterable<string>>;

/** The result of `wire`; all names are full names. */
export interface ResolvedDependencies {
  /** All resources, each after those it uses. */
  readonly order: readonly string[];
  /** The resources that each resource uses, optional or not, without cycles; the list may be empty. */
  readonly uses: ReadonlyMap<string, readonly string[]>;
  /** The optional uses of a resource; absent if it has none. */
  readonly optional: ReadonlyMap<string, ReadonlySet<string>>;
  /** The edges of `uses` from the other end: the users of a resource. */
  usedBy(full: string): readonly string[];
  /** Why a resource cannot be built. */
  readonly blocked: ReadonlyMap<string, string>;
  /**
   * Why a resource goes without an optional dependency. A dependency that is merely missing is not listed.
   */
  readonly refused: ReadonlyMap<string, string>;
}

/**
 * Resolves the needs of every resource among all resources; refuses unknown, ambiguous, self and cyclic
 * edges.
 */
export function resolveDependencies(
  resources: ReadonlyMap<string, { readonly needs: readonly Need[] }>,
): ResolvedDependencies {
  const fulls = [...resources.keys()];
  const names = new Names(fulls);
  const wires = new ResolvedEdges(fulls, names.full);
  for (const [owner, full] of fulls.entries()) {
    const missing: string[] = [];
    wires.begin();
    for (const { name, optional } of resources.get(full)!.needs) {
      const found = names.find(name);
      if (typeof found === "number") wires.add(owner, found, name, optional);
      else if (found) {
        const choice = found.map((one) => fulls[one]).join(", ");
        wires.refuse(owner, `dependency "${name}" is ambiguous, name one of ${choice}`, optional);
      } else if (!optional) missing.push(name);
    }
    if (missing.length > 0) wires.refuse(owner, unresolved(missing), false);
  }

  return wires.wiring();
}

/**
 * Sorts `names` into groups, each of which needs only earlier groups. Uses of names outside the set count as
 * met. `uses` must be without cycles, as `wire` returns it.
 */
export function levels(names: Iterable<string>, uses: Edges): string[][] {
  return levelsOf(topological(names, uses), uses);
}

/** Like `levels`, for names that already come in an order in which each follows those that it uses. */
export function levelsOf(order: readonly string[], uses: Edges): string[][] {
  const depths = new Map<string, number>();
  const groups: string[][] = [];
  for (const name of order) {
    let depth = 0;
    for (const used of uses.get(name) ?? NOTHING) depth = Math.max(depth, (depths.get(used) ?? -1) + 1);
    depths.set(name, depth);
    (groups[depth] ??= []).push(name);
  }
  return groups.map((group) => group.sort());
}

/** Sorts `names` so that each follows those that it uses. `uses` must be without cycles. */
export function topological(names: Iterable<string>, uses: Edges): string[] {
  const list = [...names];
  const indices = new Map(list.map((name, index) => [name, index]));
  const links = new Links();
  for (const name of list) {
    links.begin();
    for (const used of uses.get(name) ?? NOTHING) {
      const index = indices.get(used);
      if (index !== undefined) links.to.push(index);
    }
  }
  return namesAt(links.order(links.reversed()), list);
}

/** `names` and all their users, direct or through users that `through` accepts. */
export function withUsers(
  names: Iterable<string>,
  usedBy: ResolvedDependencies["usedBy"],
  through: (name: string) => boolean = () => true,
): Set<string> {
  const found = new Set(names);
  // A loop over a set also visits members that are added during the loop.
  for (const name of found) {
    for (const user of usedBy(name)) if (through(user)) found.add(user);
  }
  return found;
}

/** Resources by name, as numbers: one, or several if the name is ambiguous. */
class Names {
  readonly full = new Map<string, number>();
  readonly #locals = new Map<string, number | number[]>();
  readonly #remotes = new Map<string, number | number[]>();

  constructor(fulls: readonly string[]) {
    for (const [index, full] of fulls.entries()) {
      this.full.set(full, index);
      const short = full.slice(full.indexOf("/") + 1);
      const colon = short.indexOf(":");
      if (colon < 0) join(this.#locals, short, index);
      else {
        const simple = short.slice(colon + 1);
        join(this.#remotes, short, index);
        join(this.#remotes, simple, index);
        join(this.#remotes, `${full.slice(0, full.indexOf("/"))}/${simple}`, index);
      }
    }
  }

  /**
   * A full name with its remote means one resource, other names may mean several. If a local resource has the name,
   * remotes do not count.
   */
  find(name: string): number | readonly number[] | undefined {
    return this.full.get(name) ?? this.#locals.get(name) ?? this.#remotes.get(name);
  }
}

function join(map: Map<string, number | number[]>, name: string, index: number): void {
  const known = map.get(name);
  map.set(name, known === undefined ? index : [known, index].flat());
}

/** The names of numbered nodes. */
function namesAt(nodes: readonly number[], names: readonly string[]): string[] {
  return nodes.map((node) => nameAt(node, names));
}

function nameAt(node: number, names: readonly string[]): string {
  const name = names[node];
  assert(name !== undefined, `there is no node ${node}`);
  return name;
}

/** Edges between numbered nodes, stored node after node; compact, because there may be many. */
class Links {
  /**
   * For each node, where its edges begin in `to`. `to` holds the target of each edge, or -1 for a removed
   * edge.
   */
  readonly #starts: number[] = [];

  constructor(readonly to: number[] = []) {}

  /** Starts the next node: it owns everything added to `to` from now on. */
  begin(): void {
    this.#starts.push(this.to.length);
  }

  start(node: number): number {
    return this.#starts[node] ?? this.to.length;
  }

  end(node: number): number {
    return this.#starts[node + 1] ?? this.to.length;
  }

  of(node: number): number[] {
    const all = this.to.slice(this.start(node), this.end(node));
    return all.includes(-1) ? all.filter((to) => to >= 0) : all;
  }

  reversed(): Links {
    const counts = this.#counts();
    const total = counts.reduce((sum, count) => sum + count, 0);
    const links = new Links(new Array(total).fill(0));
    let start = 0;
    for (const count of counts) {
      links.#starts.push(start);
      start += count;
    }

    const next = Int32Array.from(links.#starts);
    for (const node of this.#starts.keys()) {
      for (let edge = this.start(node); edge < this.end(node); edge++) {
        const to = this.to[edge] ?? -1;
        if (to < 0) continue;
        const place = next[to] ?? 0;
        links.to[place] = node;
        next[to] = place + 1;
      }
    }

    return links;
  }

  /** For each node the number of edges that lead to it. */
  #counts(): Int32Array {
    const counts = new Int32Array(this.#starts.length);
    for (const to of this.to) {
      if (to >= 0) counts[to] = (counts[to] ?? 0) + 1;
    }
    return counts;
  }

  /** The nodes, each after those that it leads to; leaves out nodes on or above a cycle. */
  order(reversed: Links): number[] {
    // A node waits for as many nodes as it leads to.
    const waitingFor = reversed.#counts();
    const order: number[] = [];
    for (const [node, count] of waitingFor.entries()) if (count === 0) order.push(node);
    // A loop over an array also visits elements that are added during the loop.
    for (const node of order) {
      for (const user of reversed.of(node)) {
        const left = (waitingFor[user] ?? 0) - 1;
        waitingFor[user] = left;
        if (left === 0) order.push(user);
      }
    }
    return order;
  }
}

/** A wiring under construction; resources are added one after the other. */
class ResolvedEdges {
  readonly #links = new Links();
  /** For every link, whether it is optional for its owner. */
  readonly #optional: boolean[] = [];
  readonly #blocked = new Map<string, string[]>();
  readonly #refused = new Map<string, string[]>();

  constructor(
    private readonly fulls: readonly string[],
    private readonly indices: ReadonlyMap<string, number>,
  ) {}

  begin(): void {
    this.#links.begin();
  }

  /** A resource named twice is used once; it is optional only if both names are. */
  add(owner: number, used: number, name: string, optional: boolean): void {
    if (used === owner) return this.refuse(owner, `depends on itself through "${name}"`, optional);
    const known = this.#links.to.indexOf(used, this.#links.start(owner));
    if (known < 0) {
      this.#links.to.push(used);
      this.#optional.push(optional);
    } else this.#optional[known] &&= optional;
  }

  refuse(owner: number, reason: string, optional: boolean): void {
    append(optional ? this.#refused : this.#blocked, nameAt(owner, this.fulls), reason);
  }

  wiring(): ResolvedDependencies {
    const { fulls } = this;
    let usedBy = this.#links.reversed();
    let order = this.#links.order(usedBy);
    if (order.length < fulls.length) {
      this.#refuseCycles(new Set(order));
      usedBy = this.#links.reversed();
      order = this.#links.order(usedBy);
    }

    const reasons = (map: Map<string, string[]>) =>
      new Map([...map].map(([full, all]) => [full, all.join("; ")]));
    return {
      order: namesAt(order, fulls),
      ...this.#edges(),
      usedBy: (full) => namesAt(usedBy.of(this.indices.get(full)!), fulls),
      blocked: reasons(this.#blocked),
      refused: reasons(this.#refused),
    };
  }

  #edges(): Pick<ResolvedDependencies, "uses" | "optional"> {
    const uses = new Map<string, readonly string[]>();
    const optional = new Map<string, Set<string>>();
    for (const [owner, full] of this.fulls.entries()) {
      const used = this.#links.of(owner);
      uses.set(full, used.length === 0 ? NOTHING : namesAt(used, this.fulls));
      for (let link = this.#links.start(owner); link < this.#links.end(owner); link++) {
        const to = this.#links.to[link] ?? -1;
        if (!this.#optional[link] || to < 0) continue;
        const without = optional.get(full) ?? new Set();
        optional.set(full, without.add(nameAt(to, this.fulls)));
      }
    }
    return { uses, optional };
  }

  /** Removes one edge of every cycle: an optional edge if there is one, else the edge found last. */
  #refuseCycles(done: Set<number>): void {
    for (const start of this.fulls.keys()) if (!done.has(start)) this.#walk(start, done);
  }

  /**
   * Uses an explicit stack, because a chain of thousands of resources must not overflow the program's own.
   */
  #walk(start: number, done: Set<number>): void {
    const step = (node: number) => ({ node, rest: this.#links.of(node).values() });
    const path = [step(start)];
    const onPath = new Set([start]);
    for (let last = path.at(-1); last; last = path.at(-1)) {
      const { node, rest } = last;
      const { done: exhausted, value: next } = rest.next();
      if (exhausted) {
        done.add(node);
        onPath.delete(node);
        path.pop();
      } else if (onPath.has(next)) {
        const from = path.findIndex((one) => one.node === next);
        const cycle = [...path.slice(from).map((one) => one.node), next];
        // The nodes below the removed edge leave the path; the walk visits them again when it meets them.
        for (const one of path.splice(from + this.#break(cycle) + 1)) onPath.delete(one.node);
      } else if (!done.has(next)) {
        path.push(step(next));
        onPath.add(next);
      }
    }
  }

  /** Refuses one edge of the cycle and returns the index at which that edge begins. */
  #break(cycle: readonly number[]): number {
    const edges = cycle.slice(1).map((to, index) => {
      const owner = cycle[index] ?? to;
      return { index, owner, link: this.#links.to.indexOf(to, this.#links.start(owner)) };
    });
    const spare = edges.findLast(({ link }) => this.#optional[link]);
    const refused = spare ?? edges.at(-1);
    assert(refused, "a cycle has no edges");

    const { index, owner, link } = refused;
    const whole = namesAt([...cycle.slice(index, -1), ...cycle.slice(0, index + 1)], this.fulls);
    const reason = `dependency on ${whole[1]} closes a cycle: ${shown(whole)}`;
    this.refuse(owner, reason, spare !== undefined);
    this.#links.to[link] = -1;
    return index;
  }
}

/** An error shows only the beginning and end of a longer cycle. */
const CYCLE_SHOWN = 16;

function shown(cycle: readonly string[]): string {
  const half = CYCLE_SHOWN / 2;
  const parts = cycle.length <= CYCLE_SHOWN
    ? cycle
    : [...cycle.slice(0, half), `(${cycle.length - CYCLE_SHOWN} more)`, ...cycle.slice(-half)];
  return parts.join(" -> ");
}

/** Beginning of the reason of a resource that names a missing one. */
export const UNRESOLVED = "resource has unresolved dependencies";

function unresolved(names: readonly string[]): string {
  const shown = escapedBlanks(names.join(", "));
  return `${UNRESOLVED} not found in machine config or connected remotes: [${shown}]`;
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const values = map.get(key);
  if (values) values.push(value);
  else map.set(key, [value]);
}
