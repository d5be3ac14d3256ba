/**
 * Announces changes of a part to its followers: a new configuration, a restart order, other releases. The change may
 * come from any control plane on the database, or from a command.
 *
 * An announcement only says that there is news; machines fetch it by the published calls. A change costs work only for
 * the parts that it may concern, and nobody waits for followers.
 */

import { Semaphore } from "../../base/async/semaphore.ts";
import { SharedInterval } from "../../base/async/shared_interval.ts";
import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import { nextTurn, Waker } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { CloudContext } from "../access/context.ts";
import { UNKNOWN_CHANGE } from "../store/notices.ts";
import { type Part, Parts } from "../tenants/parts.ts";
import type { ConfigMessages } from "../config/config_messages.ts";
import { Releases } from "../packages/releases.ts";

/** The kinds of news. */
export interface PartNews {
  readonly config: boolean;
  readonly restart: boolean;
  readonly release: boolean;
}

const NO_NEWS: PartNews = { config: false, restart: false, release: false };

/** Interval at which a follower counts as seen. */
const SEEN_MS = 15_000;
/** Followers that begin at once. When all machines come back together, the others wait in their order. */
const BEGUN_AT_ONCE = 8;
/** Parts to examine before other work gets a turn. */
const PARTS_A_TURN = 20;
/** A follower. */
interface Follower {
  readonly partId: string;
  readonly place: PoolHolder;
  readonly waker: Waker;
  /** The last announced configuration, identified by its message. */
  reported: unknown;
  change: PartNews;
  ended?: SvcError;
}

export class PartChanges {
  /** By part, newest last. */
  readonly #followers = new Map<string, Set<Follower>>();
  readonly #places: SharedPool;
  readonly #beginning = new Semaphore(BEGUN_AT_ONCE);
  readonly #signsOfLife: SharedInterval;
  /** The parts to examine; `undefined` means all. */
  readonly #due = new Set<string | undefined>();
  #looking: Promise<void> | undefined;
  /** The releases and their channels, as comparable text; `undefined` until the first look. */
  #releases: string | undefined;
  #listening: Promise<() => Promise<void>> | undefined;
  #closed = false;

  constructor(private readonly cloud: CloudContext, private readonly messages: ConfigMessages) {
    const { followersAtOnce, followersPerOrganization, followersPerPart } = cloud.limits;
    const shares = [followersAtOnce, followersPerOrganization, followersPerPart];
    const levels = ["this control plane", "one organization", "one part"];
    // A machine with a broken connection may return before the old one is known to be gone.
    const limits = { shares, levels, what: "connections for notices of changes", replaces: true };
    this.#places = new SharedPool(limits, cloud.clock);
    this.#signsOfLife = new SharedInterval(cloud.clock, SEEN_MS);
  }

  /**
   * Yields an empty change first, which promises that all later ones will be announced, then each change until `signal`
   * aborts. Calls `alive` every few seconds of that time; if that returns true, the follower is to ask for its
   * configuration again.
   */
  async *follow(
    partId: string,
    signal: AbortSignal,
    alive: () => boolean = () => false,
  ): AsyncGenerator<PartNews> {
    await this.#hear();
    const follower = await this.#begin(partId, signal);
    const wake = () => follower.waker.wake();
    signal.addEventListener("abort", wake, { once: true });
    const lives = () => {
      if (!alive()) return;
      follower.change = { ...follower.change, config: true };
      wake();
    };
    const stopSigns = this.#signsOfLife.every(lives);
    try {
      // The follower fetches the current state; news starts after it.
      yield NO_NEWS;
      lives();
      while (!signal.aborted && !this.#closed) {
        if (follower.ended) throw follower.ended;
        const { change } = follower;
        follower.change = NO_NEWS;
        if (change !== NO_NEWS) yield change;
        else await follower.waker.sleep();
      }
      signal.throwIfAborted();
      throw new SvcError("unavailable", "the control plane is stopping");
    } finally {
      signal.removeEventListener("abort", wake);
      stopSigns();
      this.#leave(follower);
    }
  }

  /** A follower that knows its configuration, so that later ones are news. */
  async #begin(partId: string, signal: AbortSignal): Promise<Follower> {
    await this.#beginning.acquire();
    let follower: Follower | undefined;
    try {
      signal.throwIfAborted();
      follower = this.#enter(await new Parts(this.cloud.store).get(partId));
      follower.reported = await this.messages.identity(partId);
      return follower;
    } catch (error) {
      if (follower) this.#leave(follower);
      throw error;
    } finally {
      this.#beginning.release();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const follower of this.#all()) follower.waker.wake();
    await this.#looking;
    await (await this.#listening?.catch(() => undefined))?.();
  }

  #all(): Follower[] {
    return [...this.#followers.values()].flatMap((followers) => [...followers]);
  }

  /** Listens for changes, from the first follower on. */
  #hear(): Promise<unknown> {
    const { notices } = this.cloud.store;
    return this.#listening ??= (async () => {
      const stop = await notices.hear(
        "changes",
        (text) => this.#heard(text),
        () => this.#heard(UNKNOWN_CHANGE),
      );
      await this.#lookAtReleases();
      return stop;
    })().catch((error) => {
      this.#listening = undefined;
      throw error;
    });
  }

  #heard(text: string): void {
    // For any other object the parts that use it are unknown.
    const [, id] = /^part (\S+)$/.exec(text) ?? [];
    if (this.#closed || this.#followers.size === 0 || id !== undefined && !this.#followers.has(id)) return;
    this.#due.add(id);
    this.#looking ??= this.#look();
  }

  async #look(): Promise<void> {
    while (this.#due.size > 0 && !this.#closed) {
      const isAll = this.#due.has(undefined);
      const parts = isAll ? [...this.#followers.keys()] : [...this.#due] as string[];
      this.#due.clear();
      if (isAll) {
        await this.#lookAtReleases().catch((error) =>
          this.cloud.logger.warn(`cannot tell machines of releases: ${chainOf(error)}`)
        );
      }
      for (const [index, partId] of parts.entries()) {
        if (index % PARTS_A_TURN === PARTS_A_TURN - 1) await new Promise<void>((turn) => void nextTurn(turn));
        await this.#lookAt(partId);
      }
    }
    // Set in the same step that finds nothing left, so that the next change starts a new round.
    this.#looking = undefined;
  }

  async #lookAtReleases(): Promise<void> {
    const known = this.#releases;
    const now = this.#releases = JSON.stringify(await new Releases(this.cloud.store).channels());
    if (known === undefined || known === now) return;
    for (const follower of this.#all()) {
      follower.change = { ...follower.change, release: true };
      follower.waker.wake();
    }
  }

  async #lookAt(partId: string): Promise<void> {
    const followers = [...this.#followers.get(partId) ?? []];
    if (followers.length === 0) return;
    try {
      const now = await this.messages.identity(partId);
      const restart = await new Parts(this.cloud.store).restartOrdered(partId);
      for (const follower of followers) {
        // Before the first look there was nothing to announce.
        const config = follower.reported !== undefined && follower.reported !== now;
        follower.reported = now;
        if (!config && !restart) continue;
        const { change } = follower;
        follower.change = {
          ...change,
          config: change.config || config,
          restart: change.restart || restart,
        };
        follower.waker.wake();
      }
    } catch (thrown) {
      const error = SvcError.from(thrown);
      if (error.code !== "not_found") {
        return this.cloud.logger.warn(`cannot tell part ${partId} what has changed: ${chainOf(error)}`);
      }
      for (const follower of followers) {
        follower.ended = error;
        follower.waker.wake();
      }
    }
  }

  #enter({ id: partId, organizationId }: Part): Follower {
    const place = this.#places.take([organizationId, partId], (reason) => {
      follower.ended = reason;
      follower.waker.wake();
      this.#leave(follower);
    });
    const follower: Follower = {
      partId,
      place,
      waker: new Waker(this.cloud.clock),
      reported: undefined,
      change: NO_NEWS,
    };
    this.#followers.getOrInsertComputed(partId, () => new Set()).add(follower);
    return follower;
  }

  #leave(follower: Follower): void {
    follower.place.release();
    const followers = this.#followers.get(follower.partId);
    if (followers?.delete(follower) && followers.size === 0) this.#followers.delete(follower.partId);
  }
}
