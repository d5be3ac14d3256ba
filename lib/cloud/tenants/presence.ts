/**
 * Presence: a part is online as long as it polls for its configuration.
 *
 * Sightings are kept in memory and written to the database periodically, many parts at a time: a crash loses only the
 * last seconds, and the next poll replaces them. They stay in memory afterwards, so that a caller that has just read
 * the database finds newer sightings here.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { type Sighting, sightingsStatements } from "./parts.ts";
import type { Store } from "../store/store.ts";
import { OWN_GROUP } from "../store/callers.ts";

/** A part polls every 10 s by default; after three missed polls it is offline. */
export const ONLINE_MS = 35_000;
const SAVE_MS = 5_000;
/** Sightings of one change of the database. */
const SAVED_AT_ONCE = 250;

/**
 * The first and the last time of sightings by which a part is online. A clock that was ahead for a while leaves sightings
 * in the future: they would keep a part online until that time comes.
 */
export function onlineTimes(nowMs: number): readonly [firstMs: number, lastMs: number] {
  return [nowMs - ONLINE_MS, nowMs + ONLINE_MS];
}

/** Whether a part that was last seen then is online. */
export function isOnlineAt(seenMs: number, nowMs: number): boolean {
  const [firstMs, lastMs] = onlineTimes(nowMs);
  return seenMs >= firstMs && seenMs <= lastMs;
}

export type Online = "online" | "offline" | "never";

export class Presence {
  readonly #heard = new Map<string, Sighting>();
  /** Parts whose latest sighting the database lacks. */
  readonly #unsaved = new Set<string>();
  #saving: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #closed = false;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** Records a sighting of a part, and its report. */
  saw(partId: string, info?: JsonObject): void {
    const text = info ? JSON.stringify(info) : this.#heard.get(partId)?.info;
    this.#heard.set(partId, { atMs: this.clock.nowMs(), info: text });
    this.#unsaved.add(partId);
    if (this.#closed || this.#callOff) return;
    this.#callOff = this.clock.after(SAVE_MS, () => {
      this.#callOff = undefined;
      void this.save();
    });
  }

  /** The last sighting of a part, given the database's; one in the future counts only if there is no other. */
  seenMs(partId: string, stored: number | null): number | undefined {
    const all = [this.#heard.get(partId)?.atMs, stored].filter((atMs) => typeof atMs === "number");
    const [, lastMs] = onlineTimes(this.clock.nowMs());
    const past = all.filter((atMs) => atMs <= lastMs);
    return Math.max(0, ...past.length > 0 ? past : all) || undefined;
  }

  state(seenMs: number | undefined): Online {
    if (seenMs === undefined) return "never";
    return isOnlineAt(seenMs, this.clock.nowMs()) ? "online" : "offline";
  }

  /** Writes the missing sightings to the database. */
  save(): Promise<void> {
    return this.#saving ??= this.#save().finally(() => this.#saving = undefined);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#callOff?.();
    this.#callOff = undefined;
    await this.save();
  }

  async #save(): Promise<void> {
    const ids = [...this.#unsaved];
    this.#unsaved.clear();
    // Other changes have their turns in between.
    for (let at = 0; at < ids.length; at += SAVED_AT_ONCE) {
      const some = new Map(ids.slice(at, at + SAVED_AT_ONCE).map((id) => [id, this.#heard.get(id)!]));
      try {
        // Runs as svc-cloud's own work, not on behalf of the first caller.
        const save = () => this.store.batch(sightingsStatements(some, ONLINE_MS));
        await this.store.forCaller({ group: OWN_GROUP }, save);
      } catch (error) {
        for (const id of ids.slice(at)) this.#unsaved.add(id);
        return this.logger.warn(`cannot save which machines are online: ${messageOf(error)}`);
      }
    }
  }
}
