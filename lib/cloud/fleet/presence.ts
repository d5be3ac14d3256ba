/**
 * Which parts are there: a part is online while it keeps asking for its configuration.
 *
 * What was heard is kept in memory and brought to the database now and then, many parts at a time: of a crash, only
 * the last seconds of it are lost, and the next poll makes up for them. It stays in memory after that, so that whoever
 * read the database just before still finds here what has come since.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { Fleet } from "./fleet.ts";
import type { Store } from "../store/store.ts";

/** A part polls every 10 s unless told otherwise; one that misses three is offline. */
const ONLINE_MS = 35_000;
const SAVE_MS = 5_000;

/** When a part was last heard of, and what it told of itself, as JSON. */
interface Heard {
  readonly atMs: number;
  readonly info?: string;
}

export type Online = "online" | "offline" | "never";

export class Presence {
  readonly #heard = new Map<string, Heard>();
  /** Those of which the database does not have the latest. */
  readonly #unsaved = new Set<string>();
  #saving: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #closed = false;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** A part has just been heard of, and may have told of itself. */
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

  /** When a part was last heard of, given what the database says. */
  seenMs(partId: string, stored: number | null): number | undefined {
    return Math.max(this.#heard.get(partId)?.atMs ?? 0, stored ?? 0) || undefined;
  }

  state(seenMs: number | undefined): Online {
    if (seenMs === undefined) return "never";
    return this.clock.nowMs() - seenMs <= ONLINE_MS ? "online" : "offline";
  }

  /** Brings to the database what it does not have yet. */
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
    if (this.#unsaved.size === 0) return;
    const batch = new Map([...this.#unsaved].map((id) => [id, this.#heard.get(id)!]));
    this.#unsaved.clear();
    try {
      await this.store.transaction((sql) => new Fleet(sql).saw(batch));
    } catch (error) {
      for (const id of batch.keys()) this.#unsaved.add(id);
      this.logger.warn(`cannot save which machines are online: ${messageOf(error)}`);
    }
  }
}
