/**
 * The path of a configuration from its source to the machine: read, held back while maintenance is not allowed,
 * applied.
 *
 * An unusable configuration changes nothing: the one in force stays, the log reports the problems once, and the
 * machine's status shows them under `rdk-internal:service:config/builtin` until a good one comes. Logging and
 * authentication change at once; the address changes with everything else. A configuration that is held back is not
 * queued: the newest one is tried periodically until the window opens.
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { ResourceName } from "../../resource/name.ts";
import type { MachineConfig } from "../config/config.ts";
import { configChanges, configDiff } from "../config/diff.ts";
import type { ConfigDraft } from "../config/source.ts";
import type { ConfigReading, UsableConfig } from "../config/reading.ts";
import type { MaintenanceDecision } from "./maintenance.ts";
import { mendingOf } from "./mending.ts";
import type { StatusNode } from "./pass/node.ts";

/** Interval of the attempts to apply a configuration that is held back. */
const HELD_BACK_RETRY_MS = 5_000;

/** The configuration's own entry among the resources of the machine's status. */
const NODE_NAME = ResourceName.of("rdk-internal:service:config", "builtin");

/** The steps of a configuration, in this order. */
export interface ReconfigurationSteps {
  /** Applies logging and authentication. Does not wait, never throws. */
  readonly adopt: (config: MachineConfig) => void;
  /** Applies the address, as soon as changes are allowed. Does not wait, never throws. */
  readonly move: (config: MachineConfig) => void;
  readonly mayChange: (config: MachineConfig) => Promise<MaintenanceDecision>;
  /** Prepares what the configuration needs before it takes force. False if a newer one has replaced it. */
  readonly prepare?: (config: MachineConfig) => Promise<boolean>;
  readonly apply: (config: MachineConfig) => Promise<void>;
}

export interface ReconfigurationParts extends ReconfigurationSteps {
  readonly reading: ConfigReading;
  /** The first configuration. */
  readonly first: UsableConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Logs the differences. */
  readonly showDiffs: boolean;
}

export class Reconfiguration {
  readonly #parts: ReconfigurationParts;
  /** Configurations are handled one after the other. */
  readonly #work = new SerialQueue();
  #inForce: MachineConfig | undefined;
  /** What was last applied, as it came. */
  #applied: UsableConfig | undefined;
  #heldBack: { candidate: UsableConfig; reason: string; sinceMs: number } | undefined;
  #refused: { error: string; sinceMs: number } | undefined;
  #callOffRetry = () => {};
  #unfollow = () => Promise.resolve();
  #closed = false;

  constructor(parts: ReconfigurationParts) {
    this.#parts = parts;
    const { first: { instead }, clock } = parts;
    if (instead !== undefined) this.#refused = { error: instead, sinceMs: clock.nowMs() };
  }

  /** Applies the first configuration, which maintenance does not hold back, and follows later ones. */
  async begin(): Promise<void> {
    const { reading, first } = this.#parts;
    this.#unfollow = reading.source.follow((news) => this.#enqueue(() => this.#take(news)));
    await this.#apply(first);
  }

  /** The configuration's entry in the machine's status: refused, or held back. */
  get status(): StatusNode | undefined {
    if (this.#refused) {
      const { error, sinceMs } = this.#refused;
      const revision = this.#inForce?.revision ?? "";
      return { name: NODE_NAME, state: "unhealthy", error, updatedMs: sinceMs, revision };
    }
    if (!this.#heldBack) return undefined;
    const { candidate: { config: { revision } }, sinceMs } = this.#heldBack;
    return { name: NODE_NAME, state: "configuring", updatedMs: sinceMs, revision };
  }

  /** Applies the configuration in force once more, when that is allowed: what it names has changed, not the text. */
  again(): void {
    this.#enqueue(async () => {
      // One that waits for its time, or has been overtaken, brings the change along.
      if (this.#applied && !this.#heldBack) await this.#attempt(this.#applied);
    });
  }

  /** Takes no more configurations. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#callOffRetry();
    await this.#unfollow();
    await this.#work.idle();
  }

  /** A failure with one configuration must not block all later ones. */
  #enqueue(work: () => Promise<void>): void {
    this.#work.run(() => this.#closed ? undefined : work()).catch((error) => this.#bug(error));
  }

  #bug(error: unknown): void {
    this.#parts.logger.error(`Bug: a configuration is applied only in part: ${chainOf(error)}`);
  }

  async #take(news: ConfigDraft | SvcError): Promise<void> {
    const { reading, logger, adopt } = this.#parts;
    let candidate: UsableConfig;
    try {
      if (news instanceof SvcError) throw news;
      candidate = await reading.candidate(news);
    } catch (thrown) {
      const known = this.#refused?.error;
      const error = chainOf(thrown);
      this.#refused = { error, sinceMs: this.#parts.clock.nowMs() };
      if (known !== error) logger.error(`${error}\n  the configuration in force stays`);
      return;
    }

    if (this.#refused) logger.info(`${reading.source.name} can be used again`);
    this.#refused = undefined;
    adopt(candidate.config);
    await this.#attempt(candidate);
  }

  /** Applies a configuration if that is allowed now, else retries it later unless a newer one has come. */
  async #attempt(candidate: UsableConfig): Promise<void> {
    const { clock, logger, mayChange } = this.#parts;
    this.#callOffRetry();

    const { allowed, reason = "", mendable } = await mayChange(candidate.config);
    if (this.#closed) return;
    if (allowed) {
      if (reason !== "") logger.warn(reason);
      if (this.#heldBack) logger.info("maintenance is allowed, the configuration changes now");
      this.#heldBack = undefined;
      void this.#apply(candidate);
      return;
    }

    if (this.#heldBack?.reason !== reason) logger.info(`a new configuration is held back: ${reason}`);
    this.#heldBack = { candidate, reason, sinceMs: this.#heldBack?.sinceMs ?? clock.nowMs() };
    if (mendable !== undefined) this.#mend(mendable, candidate);
    this.#callOffRetry = clock.after(HELD_BACK_RETRY_MS, () => this.#enqueue(() => this.#attempt(candidate)));
  }

  /** Applies the changes of an unreadable sensor, so that it can allow the rest. */
  #mend(sensor: string, { config }: UsableConfig): void {
    const mended = this.#inForce && mendingOf(this.#inForce, config, sensor);
    if (!mended) return;
    this.#parts.logger.info(
      `${sensor} and its dependencies change nevertheless, so that the sensor can recover`,
    );
    this.#inForce = mended;
    void this.#parts.apply(mended).catch((error) => this.#bug(error));
  }

  /** Never rejects. A pass that is under way when a newer configuration comes is the machine's to end or to give up. */
  async #apply(candidate: UsableConfig): Promise<void> {
    const { draft, config } = candidate;
    const { reading, logger, move, prepare, apply, showDiffs } = this.#parts;
    if (this.#inForce) move(config);
    if (prepare && !await prepare(config)) return;

    const old = this.#inForce;
    this.#inForce = config;
    this.#applied = candidate;
    if (!showDiffs && old) tellChanges(old, config, logger);

    if (showDiffs && old) {
      logger.info(
        `the configuration changes:\n${configDiff(old, config) || "  in nothing but secrets, or not at all"}`,
      );
    }

    try {
      await reading.source.keep(draft);
    } catch (error) {
      logger.warn(`cannot store the configuration for the next start: ${chainOf(error)}`);
    }

    await apply(config).catch((error) => this.#bug(error));
  }
}

function tellChanges(old: MachineConfig, config: MachineConfig, logger: Logger): void {
  const changes = configChanges(old, config);
  if (changes !== "") logger.info(`configuration: ${changes}`);
}
