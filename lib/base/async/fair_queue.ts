/**
 * Items that wait for a turn, and who comes next when only a few can have one at the same time.
 *
 * Fair among groups, and among the members of a group: a group has a limited number of turns at one time and of waiting
 * places, and whoever had the least time lately comes next. A turn costs a look at each waiting group, not at each
 * waiting item: a database has thousands of statements in a second.
 */

import type { Clock } from "../clock.ts";
import { assert, SvcError } from "../error.ts";

/** Who asks: `["organization", "key"]`. Members that are not named are one. */
export type TurnCaller = readonly [group: string, member?: string];

export interface FairLimits {
  /** Turns of one group at once; one by default. */
  readonly turnsOfGroupMax?: number;
  /** Limits of the waiting items, of one group and of all; none by default. */
  readonly waitingMax?: number;
  readonly waitingOfGroupMax?: number;
  /** For people: `queries`. */
  readonly what: string;
  /** Groups with fewer turns under way come first: for turns whose time counts only long after their start. */
  readonly byTurns?: boolean;
  /** A group without limits, which never is behind others: the server itself. */
  readonly ownGroup?: string;
  /** Whether a group has no turns for now, for another reason. */
  readonly isBlocked?: (group: string) => boolean;
}

/** The use of a time counts half after this, and nothing after the other. */
const HALF_MS = 60_000;
const LATELY_MS = 600_000;
/** Groups and members whose time is remembered. */
const USED_MAX = 20_000;

interface Used {
  ms: number;
  lastMs: number;
}

interface QueuedItem<T> {
  readonly item: T;
  readonly number: number;
}

/** The waiting items of a group, by member. */
interface Line<T> {
  readonly members: Map<string, QueuedItem<T>[]>;
  size: number;
}

/** A turn of a group; call `leave` once at its end. */
export interface FairTurn<T> {
  readonly item: T;
  /** By default it used the time since it began. */
  leave(usedMs?: number): void;
}

export class FairQueue<T> {
  readonly #lines = new Map<string, Line<T>>();
  /** Turns under way, by group. */
  readonly #inside = new Map<string, number>();
  readonly #used = new Map<string, Used>();
  #size = 0;
  #number = 0;

  constructor(private readonly limits: FairLimits, private readonly clock: Clock) {}

  /** How many items wait. */
  get size(): number {
    return this.#size;
  }

  /** Lets an item wait; the returned function takes it back. Throws `resource_exhausted` if too many wait. */
  add([group, member = ""]: TurnCaller, item: T): () => void {
    const { waitingMax = Infinity, waitingOfGroupMax = Infinity, what, ownGroup } = this.limits;
    const line = this.#lines.get(group) ?? { members: new Map(), size: 0 };
    const isFull = group !== ownGroup && line.size >= waitingOfGroupMax;
    if (isFull || this.#size >= waitingMax) {
      const whose = isFull ? " of this organization" : "";
      const found = isFull ? line.size : this.#size;
      throw new SvcError("resource_exhausted", `${found} ${what}${whose} wait already: try again later`);
    }
    const place = { item, number: this.#number++ };
    line.members.getOrInsertComputed(member, () => []).push(place);
    line.size++;
    this.#lines.set(group, line);
    this.#size++;
    return () => this.#remove(group, line, member, place);
  }

  /** The next item, whose group has a turn from now on; `undefined` if nobody waits that may have one. */
  next(): FairTurn<T> | undefined {
    const { turnsOfGroupMax = 1, isBlocked, byTurns, ownGroup } = this.limits;
    const groups = this.#lines.keys().filter((group) =>
      (group === ownGroup || this.#insideOf(group) < turnsOfGroupMax) && !isBlocked?.(group)
    );
    const group = this.#first(
      groups,
      (group) => [byTurns ? this.#insideOf(group) : 0, group === ownGroup ? 0 : this.#lately(group)],
      (group) => Math.min(...this.#lines.get(group)!.members.values().map(oldestNumber)),
    );
    if (group === undefined) return undefined;

    const line = this.#lines.get(group)!;
    const member = this.#first(
      line.members.keys(),
      (member) => [0, this.#lately(keyOf(group, member))],
      (member) => oldestNumber(line.members.get(member) ?? []),
    )!;
    const [place] = line.members.get(member) ?? [];
    assert(place, "a line has a member without items");
    this.#remove(group, line, member, place);

    return { item: place.item, leave: this.#enter(group, member) };
  }

  /** Takes every waiting item away, the oldest first. */
  drain(): T[] {
    const all = [...this.#lines.values()].flatMap(({ members }) => [...members.values()].flat());
    this.#lines.clear();
    this.#size = 0;
    return all.sort((a, b) => a.number - b.number).map(({ item }) => item);
  }

  /** The name with the least rank; of equal ones that of the oldest item. */
  #first(
    names: Iterable<string>,
    rankOf: (name: string) => readonly [turns: number, ms: number],
    oldestOf: (name: string) => number,
  ): string | undefined {
    let best: string | undefined;
    let [bestTurns, bestMs] = [Infinity, Infinity];
    for (const name of names) {
      const [turns, ms] = rankOf(name);
      const isEqual = best !== undefined && turns === bestTurns && ms === bestMs;
      const isBefore = turns < bestTurns || (turns === bestTurns && ms < bestMs);
      if (isBefore || (isEqual && oldestOf(name) < oldestOf(best!))) {
        [best, bestTurns, bestMs] = [name, turns, ms];
      }
    }

    return best;
  }

  #remove(group: string, line: Line<T>, member: string, place: QueuedItem<T>): void {
    const places = line.members.get(member) ?? [];
    const at = this.#lines.get(group) === line ? places.indexOf(place) : -1;
    if (at < 0) return;
    places.splice(at, 1);
    if (places.length === 0) line.members.delete(member);
    if (--line.size === 0) this.#lines.delete(group);
    this.#size--;
  }

  #enter(group: string, member: string): (usedMs?: number) => void {
    const beganMs = this.clock.monotonicMs();
    this.#inside.set(group, this.#insideOf(group) + 1);
    let left = false;
    return (usedMs = this.clock.monotonicMs() - beganMs) => {
      if (left) return;
      left = true;
      const rest = this.#insideOf(group) - 1;
      if (rest > 0) this.#inside.set(group, rest);
      else this.#inside.delete(group);
      this.#note(group, usedMs);
      if (member !== "") this.#note(keyOf(group, member), usedMs);
    };
  }

  #note(key: string, tookMs: number): void {
    const ms = this.#lately(key) + tookMs;
    this.#used.delete(key);
    this.#used.set(key, { ms, lastMs: this.clock.monotonicMs() });
    const [oldest] = this.#used.keys();
    if (oldest !== undefined && this.#used.size > USED_MAX) this.#used.delete(oldest);
  }

  #insideOf(group: string): number {
    return this.#inside.get(group) ?? 0;
  }

  #lately(key: string): number {
    const used = this.#used.get(key);
    const agoMs = used ? this.clock.monotonicMs() - used.lastMs : LATELY_MS;
    return agoMs < LATELY_MS ? used!.ms * 2 ** (-agoMs / HALF_MS) : 0;
  }
}

function keyOf(group: string, member: string): string {
  return `${group}\n${member}`;
}

/** The number of the first item of a list. */
function oldestNumber([oldest]: readonly { readonly number: number }[]): number {
  return oldest?.number ?? Infinity;
}
