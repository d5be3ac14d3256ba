/**
 * A pool of places that several groups share, such as the callers of several organizations.
 *
 * Groups are nested: an organization, a key in it. Each level has a share. A newcomer to a full group replaces a holder
 * that is idle, or else one of the largest group beside its own, as long as that group stays at least as large as the
 * newcomer's. So a group alone may use its whole share, and no group keeps the others out.
 *
 * The room owns how callers share what is scarce: places that they hold, and turns that they wait for.
 */

import type { Clock } from "../clock.ts";
import { BriefMap } from "../collections/brief_map.ts";
import { LinkedList } from "../collections/linked_list.ts";
import { SvcError } from "../error.ts";
import { RankedNames } from "./ranked_names.ts";

export interface PoolLimits {
  /** Places of all; then those of each group, level by level. */
  readonly shares: readonly number[];
  /** A name for each share, for people: `this control plane`, `an organization`. */
  readonly levels: readonly string[];
  /** For people: `WebRTC calls`. */
  readonly what: string;
  /** A holder that is unused for this long gives way to anybody; by default none does. */
  readonly idleMs?: number;
  /** In a full innermost group the newcomer replaces the least recently used holder; by default it is refused. */
  readonly replaces?: boolean;
}

/** A place that somebody holds. */
export interface PoolHolder {
  /** The holder is in use. */
  used(): void;
  /** Frees the place. Further calls do nothing. */
  release(): void;
}

/** Told that the place is gone: ends what uses it. Must not throw. */
export type GiveWay = (reason: SvcError) => void;

interface Holder extends PoolHolder {
  readonly leaf: Group;
  usedMs: number;
  readonly giveWay?: GiveWay;
}

/**
 * The holders at one place of the tree. Each group keeps its own groups in order, because a full pool is asked most
 * often when it may take the least time: a look for who gives way costs the logarithm of the groups.
 */
class Group {
  size = 0;
  readonly groups = new BriefMap<string, Group>();
  /** The holders of a group without further groups that can give way, the least recently used first. */
  readonly yielding = new LinkedList<Holder>();
  /** The groups by size, the largest first, and those with somebody who can give way, by the idlest of them. */
  readonly #bySize = new RankedNames();
  readonly #byUse = new RankedNames();
  #made = 0;

  private constructor(readonly name: string, private readonly number: number, readonly parent?: Group) {}

  static root(): Group {
    return new Group("", 0);
  }

  /** The group of this name, which is made if there is none. */
  within(name: string): Group {
    return this.groups.getOrInsertComputed(name, () => new Group(name, this.#made++, this));
  }

  /** The least recently used holder in this group that can give way. */
  get idlest(): Holder | undefined {
    return this.yielding.first ?? this.#named(this.#byUse.first)?.idlest;
  }

  get largest(): Group | undefined {
    return this.#named(this.#bySize.first);
  }

  /** Notes that the size or the idlest holder of one of its groups has changed. */
  arrange(group: Group): void {
    const { name, number, size, idlest } = group;
    if (size === 0) {
      this.groups.delete(name);
      this.#bySize.delete(name);
    } else {
      this.#bySize.set(name, [-size, number, 0]);
    }
    if (idlest) this.#byUse.set(name, [idlest.usedMs, number, 0]);
    else this.#byUse.delete(name);
  }

  #named(name: string | undefined): Group | undefined {
    return name === undefined ? undefined : this.groups.get(name);
  }
}

export class SharedPool {
  readonly #all = Group.root();

  constructor(private readonly limits: PoolLimits, private readonly clock: Clock) {}

  get size(): number {
    return this.#all.size;
  }

  /**
   * Takes a place for the group at `path`: one name for each share but the first. A holder without `giveWay` keeps its
   * place until it releases it. Throws `resource_exhausted` if a share is used up and nobody gives way.
   */
  take(path: readonly string[], giveWay?: GiveWay): PoolHolder {
    const { shares } = this.limits;
    const full = this.#along(path).findLastIndex((group, level) => group.size >= (shares[level] ?? Infinity));
    // Whoever leaves the innermost full group leaves all groups around it, too.
    if (full >= 0) this.#makeRoom(path, full);
    return this.#enter(path, giveWay);
  }

  /** The present groups of a path, the outermost first. */
  #along(path: readonly string[]): Group[] {
    const groups = [this.#all];
    let last: Group | undefined = this.#all;
    for (const name of path) {
      last = last.groups.get(name);
      if (!last) break;
      groups.push(last);
    }
    return groups;
  }

  #enter(path: readonly string[], giveWay: GiveWay | undefined): PoolHolder {
    const leaf = path.reduce((group, name) => group.within(name), this.#all);
    let isHeld = true;
    const holder: Holder = {
      leaf,
      usedMs: this.clock.monotonicMs(),
      giveWay,
      used: () => {
        if (!isHeld || !giveWay) return;
        holder.usedMs = this.clock.monotonicMs();
        leave();
        link = leaf.yielding.add(holder);
        resize(leaf, 0);
      },
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        leave();
        resize(leaf, -1);
      },
    };
    let link = giveWay && leaf.yielding.add(holder);
    const leave = () => void (link && leaf.yielding.delete(link));
    resize(leaf, 1);
    return holder;
  }

  #makeRoom(path: readonly string[], level: number): void {
    const { shares, levels, what } = this.limits;
    const holder = this.#yielding(path, level);
    const found = `${shares[level]} ${what} of ${levels[level]} exist already, the most that there may be`;
    if (!holder) throw new SvcError("resource_exhausted", `${found}: try again later`);
    holder.release();
    holder.giveWay!(new SvcError("resource_exhausted", `${found}: this one gave way to another`));
  }

  /** The holder that gives way to a newcomer at `path` in its full group of `level`. */
  #yielding(path: readonly string[], level: number): Holder | undefined {
    const along = this.#along(path);
    const idlest = along[level]?.idlest;
    if (idlest && this.clock.monotonicMs() - idlest.usedMs >= (this.limits.idleMs ?? Infinity)) return idlest;
    for (const [at, group] of along.entries()) {
      if (at < level || at === path.length) continue;
      const own = along[at + 1]?.size ?? 0;
      let largest = group.largest;
      if (!largest || largest.size <= own + 1) continue;
      for (let inner; (inner = largest.largest);) largest = inner;
      const found = largest.idlest;
      if (found) return found;
    }
    return this.limits.replaces ? along[path.length]?.idlest : undefined;
  }
}

/** Notes a change of a group, and of those around it, by so many places. */
function resize(leaf: Group, places: number): void {
  for (let group: Group | undefined = leaf; group; group = group.parent) {
    group.size += places;
    group.parent?.arrange(group);
  }
}
