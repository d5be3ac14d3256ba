/**
 * Tells those who follow a part what becomes of it: that its configuration reads differently, or that it is ordered to
 * restart, whichever control plane on the database, or command beside it, has made the change.
 *
 * What is told is only that something is new; what it is, machines ask by the published calls. Promises that a change
 * makes work for no more parts than it may concern, and that nobody waits for those who follow.
 */

import { nextTurn, Waker } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { CloudContext } from "../context.ts";
import { overLimit } from "../access/limits.ts";
import { Fleet } from "./fleet.ts";
import type { ConfigMessages } from "./robot_service.ts";

/** What is new. */
export interface PartChange {
  readonly config: boolean;
  readonly restart: boolean;
}

/** So many parts are looked at before others have their turn. */
const PARTS_A_TURN = 20;
/** One who follows. */
interface Follower {
  readonly partId: string;
  readonly waker: Waker;
  /** The configuration that was last told of, by the message that it makes. */
  told: unknown;
  change: { config: boolean; restart: boolean };
  ended?: SvcError;
}

export class PartChanges {
  /** By part, the newest last. */
  readonly #followers = new Map<string, Set<Follower>>();
  #count = 0;
  /** What is to be looked at; `undefined` is everything. */
  readonly #due = new Set<string | undefined>();
  #looking: Promise<void> | undefined;
  #hearing: Promise<() => Promise<void>> | undefined;
  #closed = false;

  constructor(private readonly cloud: CloudContext, private readonly messages: ConfigMessages) {}

  /** First an empty change, once all that comes later will be told; then each change until `signal` aborts. */
  async *follow(partId: string, signal: AbortSignal): AsyncGenerator<PartChange> {
    await this.#hear();
    const follower = this.#enter(partId);
    const stop = () => follower.waker.wake();
    signal.addEventListener("abort", stop, { once: true });
    try {
      // What it reads now it will ask; what comes after that is news.
      follower.told = await this.#read(partId);
      yield { config: false, restart: false };
      while (!signal.aborted && !this.#closed) {
        if (follower.ended) throw follower.ended;
        const { change } = follower;
        follower.change = { config: false, restart: false };
        if (change.config || change.restart) yield change;
        else await follower.waker.sleep();
      }
      signal.throwIfAborted();
      throw new SvcError("unavailable", "the control plane is stopping");
    } finally {
      signal.removeEventListener("abort", stop);
      this.#leave(follower);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const follower of this.#all()) follower.waker.wake();
    await this.#looking;
    await (await this.#hearing?.catch(() => undefined))?.();
  }

  #all(): Follower[] {
    return [...this.#followers.values()].flatMap((followers) => [...followers]);
  }

  /** Hears of changes from when the first one follows. */
  #hear(): Promise<unknown> {
    const { notices } = this.cloud.store;
    return this.#hearing ??= notices.hear("changes", (text) => this.#heard(text)).catch((error) => {
      this.#hearing = undefined;
      throw error;
    });
  }

  #heard(text: string): void {
    // Of all else it is not known which parts use it.
    const [, id] = /^part (\S+)$/.exec(text) ?? [];
    if (this.#closed || this.#count === 0 || id !== undefined && !this.#followers.has(id)) return;
    this.#due.add(id);
    this.#looking ??= this.#look();
  }

  async #look(): Promise<void> {
    while (this.#due.size > 0 && !this.#closed) {
      const parts = this.#due.has(undefined) ? [...this.#followers.keys()] : [...this.#due] as string[];
      this.#due.clear();
      for (const [index, partId] of parts.entries()) {
        if (index % PARTS_A_TURN === PARTS_A_TURN - 1) await new Promise<void>((turn) => void nextTurn(turn));
        await this.#lookAt(partId);
      }
    }
    // In the same moment in which there was nothing left: what comes next is looked at anew.
    this.#looking = undefined;
  }

  async #lookAt(partId: string): Promise<void> {
    const followers = [...this.#followers.get(partId) ?? []];
    if (followers.length === 0) return;
    try {
      const now = await this.#read(partId);
      const restart = await new Fleet(this.cloud.store).restartOrdered(partId);
      for (const follower of followers) {
        // Before it knew anything there was nothing to tell.
        const config = follower.told !== undefined && follower.told !== now;
        follower.told = now;
        follower.change = {
          config: follower.change.config || config,
          restart: follower.change.restart || restart,
        };
        if (config || restart) follower.waker.wake();
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

  /** The same value for as long as the configuration reads the same. */
  async #read(partId: string): Promise<unknown> {
    const part = await new Fleet(this.cloud.store).part(partId);
    return await this.messages.of(part);
  }

  #enter(partId: string): Follower {
    const { limits, clock } = this.cloud;
    if (this.#count >= limits.followersAtOnce) {
      throw overLimit(limits, "followersAtOnce", `${this.#count} machines follow already`);
    }
    const followers = this.#followers.getOrInsertComputed(partId, () => new Set());
    if (followers.size >= limits.followersPerPart) {
      // A machine whose connection broke without a word comes back before the old one is known to be gone.
      const [oldest] = followers;
      oldest.ended = overLimit(limits, "followersPerPart", "a newer one took the place of this");
      oldest.waker.wake();
      followers.delete(oldest);
      this.#count--;
    }
    const waker = new Waker(clock);
    const follower: Follower = {
      partId,
      waker,
      told: undefined,
      change: { config: false, restart: false },
    };
    followers.add(follower);
    this.#count++;
    return follower;
  }

  #leave(follower: Follower): void {
    const followers = this.#followers.get(follower.partId);
    if (!followers?.delete(follower)) return;
    this.#count--;
    if (followers.size === 0) this.#followers.delete(follower.partId);
  }
}
