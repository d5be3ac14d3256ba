/**
 * Items that wait for a turn, and who comes next when only a few can have one at the same time.
 *
 * Fair among groups, and among the members of a group: a group has a limited number of turns at one time and of waiting
 * places, and whoever had the least time lately comes next. A turn costs about the same however many wait: a database
 * has thousands of statements in a second, and most when many callers wait.
 */

import type { Clock } from "../clock.ts";
import { BriefMap } from "../collections/brief_map.ts";
import { LinkedList, type ListLink } from "../collections/linked_list.ts";
import { assert, SvcError } from "../error.ts";
import { KeyCounts } from "./key_counts.ts";
import { type NameRank, RankedNames } from "./ranked_names.ts";

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

/**
 * The time that somebody had. All times fade alike, so the order of two of them stays the same while nobody has another
 * turn: `rank`, the logarithm of the time as it would be without fading, is compared.
 */
interface Used {
  readonly rank: number;
  readonly lastMs: number;
}

interface QueuedItem<T> {
  readonly item: T;
  readonly number: number;
  readonly group: string;
  readonly member: string;
  readonly line: Line<T>;
  /** Its places among the items of the member, and of the group. */
  ofMember?: ListLink<QueuedItem<T>>;
  ofGroup?: ListLink<QueuedItem<T>>;
}

/** The waiting items of a group, the oldest first. */
interface Line<T> {
  readonly members: BriefMap<string, LinkedList<QueuedItem<T>>>;
  /** The members by who is next. */
  readonly order: RankedNames;
  readonly items: LinkedList<QueuedItem<T>>;
}

/** A turn of a group; call `leave` once at its end. */
export interface FairTurn<T> {
  readonly item: T;
  /** By default it used the time since it began. */
  leave(usedMs?: number): void;
}

export class FairQueue<T> {
  readonly #lines = new BriefMap<string, Line<T>>();
  /** The groups with waiting items that may have another turn, by who is next. */
  readonly #order = new RankedNames();
  /** Turns under way, by group. */
  readonly #inside = new KeyCounts();
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
    const ofGroup = this.#lines.get(group)?.items.size ?? 0;
    const isFull = group !== ownGroup && ofGroup >= waitingOfGroupMax;
    if (isFull || this.#size >= waitingMax) {
      const whose = isFull ? " of this organization" : "";
      const found = isFull ? ofGroup : this.#size;
      throw new SvcError("resource_exhausted", `${found} ${what}${whose} wait already: try again later`);
    }

    const line = this.#lines.getOrInsertComputed(
      group,
      () => ({ members: new BriefMap(), order: new RankedNames(), items: new LinkedList() }),
    );
    const items = line.members.getOrInsertComputed(member, () => new LinkedList());
    const queued: QueuedItem<T> = { item, number: this.#number++, group, member, line };
    queued.ofMember = items.add(queued);
    queued.ofGroup = line.items.add(queued);
    this.#size++;
    this.#arrange(group, member);
    return () => this.#remove(queued);
  }

  /** The next item, whose group has a turn from now on; `undefined` if nobody waits that may have one. */
  next(): FairTurn<T> | undefined {
    const group = this.#firstGroup();
    const line = group === undefined ? undefined : this.#lines.get(group);
    if (group === undefined || !line) return undefined;

    const member = line.order.first;
    const queued = member === undefined ? undefined : line.members.get(member)?.first;
    assert(member !== undefined && queued, "a line has no items");
    // Its turn is counted first, so that its group is arranged once.
    const leave = this.#enter(group, member);
    this.#remove(queued);

    return { item: queued.item, leave };
  }

  /** Takes every waiting item away, the oldest first. */
  drain(): T[] {
    const all: QueuedItem<T>[] = [];
    for (const { items } of this.#lines.values()) {
      for (let queued = items.shift(); queued; queued = items.shift()) all.push(queued);
    }
    this.#lines.clear();
    this.#order.clear();
    this.#size = 0;
    return all.sort((a, b) => a.number - b.number).map(({ item }) => item);
  }

  /** The group that is next. Few groups are blocked at a time, and each is one step. */
  #firstGroup(): string | undefined {
    const blocked: string[] = [];
    let group = this.#order.first;
    while (group !== undefined && this.limits.isBlocked?.(group)) {
      blocked.push(group);
      this.#order.delete(group);
      group = this.#order.first;
    }
    for (const one of blocked) this.#arrange(one);
    return group;
  }

  /** Puts a group, and one of its members, where they belong now. */
  #arrange(group: string, member?: string): void {
    const { turnsOfGroupMax = 1, byTurns, ownGroup } = this.limits;
    const line = this.#lines.get(group);
    if (line && member !== undefined) {
      const oldest = line.members.get(member)?.first;
      if (oldest) line.order.set(member, this.#rankOf(keyOf(group, member), 0, oldest.number));
      else line.order.delete(member);
    }

    const turns = this.#inside.of(group);
    if (!line || (group !== ownGroup && turns >= turnsOfGroupMax)) return this.#order.delete(group);
    const rank = this.#rankOf(group, byTurns ? turns : 0, line.items.first?.number);
    this.#order.set(group, group === ownGroup ? [rank[0], -Infinity, rank[2]] : rank);
  }

  #rankOf(key: string, turns: number, oldest = Infinity): NameRank {
    return [turns, this.#lately(key), oldest];
  }

  #remove({ group, member, line, ofMember, ofGroup }: QueuedItem<T>): void {
    if (!ofGroup || !line.items.delete(ofGroup)) return;
    const items = line.members.get(member);
    if (ofMember) items?.delete(ofMember);
    if (items?.size === 0) line.members.delete(member);
    if (line.items.size === 0) this.#lines.delete(group);
    this.#size--;
    this.#arrange(group, member);
  }

  #enter(group: string, member: string): (usedMs?: number) => void {
    const beganMs = this.clock.monotonicMs();
    this.#inside.add(group, 1);
    let left = false;
    return (usedMs = this.clock.monotonicMs() - beganMs) => {
      if (left) return;
      left = true;
      this.#inside.add(group, -1);
      this.#note(group, usedMs);
      if (member !== "") this.#note(keyOf(group, member), usedMs);
      this.#arrange(group, member);
    };
  }

  #note(key: string, tookMs: number): void {
    const nowMs = this.clock.monotonicMs();
    const rank = sumOf(this.#lately(key), Math.log2(Math.max(0, tookMs)) + nowMs / HALF_MS);
    this.#used.delete(key);
    this.#used.set(key, { rank, lastMs: nowMs });
    const [oldest] = this.#used.keys();
    if (oldest !== undefined && this.#used.size > USED_MAX) this.#used.delete(oldest);
  }

  /** The rank of the time that somebody had lately. */
  #lately(key: string): number {
    const used = this.#used.get(key);
    return used && this.clock.monotonicMs() - used.lastMs < LATELY_MS ? used.rank : -Infinity;
  }
}

function keyOf(group: string, member: string): string {
  return `${group}\n${member}`;
}

/** The logarithm of the sum of two numbers with these logarithms, which may be too large for a number. */
function sumOf(one: number, other: number): number {
  const [less, more] = one < other ? [one, other] : [other, one];
  return less === -Infinity ? more : more + Math.log2(1 + 2 ** (less - more));
}
