/**
 * Polls the cloud: what the device should run, and whether to restart svc-server.
 *
 * The polls run beside the agent's loop, so a cloud that hangs delays nothing. The loop takes the latest answer when
 * it is ready (`take`).
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import type {
  DeviceAgentConfigRequestSchema,
  DeviceAgentConfigResponse,
} from "../../../proto/gen/agent_pb.ts";
import { toMs } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { shownUrlsIn } from "../../base/log/shown_url.ts";
import type { Announcements } from "../../cloud_client/changes/change_feed.ts";
import { PollTimer } from "../../cloud_client/changes/poll_timer.ts";
import type { CloudClient } from "../../cloud_client/client.ts";
import type { MessageInitShape } from "../../wire/rpc/proto.ts";
import type { OfflineReboots } from "./offline.ts";

export interface CloudPollsParts {
  readonly cloud: Pick<CloudClient, "deviceAgentConfig" | "needsRestart">;
  /** The cloud's announcements: while they arrive, polls are rare; without them the published intervals apply. */
  readonly changes?: Announcements;
  /** The interval of rare polls. */
  readonly rareMs: number;
  readonly report: () => MessageInitShape<typeof DeviceAgentConfigRequestSchema>;
  /** Whether restart orders may be requested now, because nobody else requests them. */
  readonly mayOrder: (signal: AbortSignal) => Promise<boolean>;
  readonly restart: () => void;
  /** Called when an answer has arrived, or a request has failed. */
  readonly changed: () => void;
  readonly offline: Pick<OfflineReboots, "online" | "answered">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 to 1, so that a fleet does not poll all at once. */
  readonly random?: () => number;
}

const POLL_MS = 60_000;
const POLL_MIN_MS = 5_000;
/** Pause after a failed poll. */
export const RETRY_MS = 10_000;
const RESTART_POLL_MIN_MS = 5_000;
/** Longest interval, in case the cloud names an absurd one by mistake. */
const INTERVAL_MAX_MS = 3600_000;
/** Random share of the interval. */
const JITTER = 0.05;
export const POLL_ANSWER_MS = 15_000;
/** Error codes of a cloud that answers but refuses the machine: a revoked key, a deleted part, too many wrong keys. */
const REFUSALS = ["unauthenticated", "permission_denied", "not_found", "resource_exhausted"];

export class CloudPolls {
  readonly #parts: CloudPollsParts;
  readonly #polls: PollTimer;
  readonly #orders: PollTimer;
  #answer: DeviceAgentConfigResponse | undefined;
  #intervalMs = POLL_MS;
  #isOnline = false;
  #isRefused = false;
  #lastOnlineMs: number | undefined;
  #offlineWhy = "";
  readonly #problems = new LogOnChange();

  constructor(parts: CloudPollsParts) {
    const { changes, rareMs, clock, random } = parts;
    const timing = { changes, rareMs, clock, random };
    this.#parts = parts;
    this.#polls = new PollTimer({ ...timing, what: ["config", "release"] });
    this.#orders = new PollTimer({ ...timing, what: ["restart"] });
  }

  get isOnline(): boolean {
    return this.#isOnline;
  }

  /** Whether the cloud answers, but refuses the machine. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** How much longer the cloud wants no poll. */
  get heldMs(): number {
    return this.#polls.heldMs;
  }

  get lastOnlineMs(): number | undefined {
    return this.#lastOnlineMs;
  }

  get offlineWhy(): string {
    return this.#offlineWhy;
  }

  /** Returns the latest answer, once. */
  take(): DeviceAgentConfigResponse | undefined {
    const answer = this.#answer;
    this.#answer = undefined;
    return answer;
  }

  /** Polls until the signal aborts. The caller has made the first request with `poll`. */
  async run(signal: AbortSignal): Promise<void> {
    const close = () => [this.#polls, this.#orders].forEach((timer) => timer.close());
    signal.addEventListener("abort", close, { once: true });
    if (signal.aborted) close();
    await Promise.all([this.#pollOn(signal), this.#orderOn(signal)]);
    signal.removeEventListener("abort", close);
  }

  /** Asks once. */
  async poll(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { cloud, clock, logger, offline, report, changed } = this.#parts;
    try {
      const answer = await cloud.deviceAgentConfig(report(), { timeoutMs, signal });
      this.#intervalMs = toMs(answer.checkInterval) || POLL_MS;
      if (!this.#isOnline) {
        logger.info("the cloud is reached");
        // Requests the restart orders that were issued meanwhile at once.
        this.#orders.wake();
      }
      this.#lastOnlineMs = clock.monotonicMs();
      this.#isOnline = true;
      this.#isRefused = false;
      this.#problems.clear();
      this.#answer = answer;
      await offline.online();
    } catch (error) {
      if (signal.aborted) return;
      this.#isRefused = REFUSALS.includes(SvcError.from(error).code);
      if (this.#isRefused) offline.answered();
      this.#offlineWhy = shownUrlsIn(chainOf(error));
      if (this.#problems.isNew(this.#offlineWhy)) {
        const what = this.#isRefused ? "refuses this device" : "does not answer";
        logger.warn(`the cloud ${what}: ${this.#offlineWhy}`);
      }
      this.#isOnline = false;
      this.#intervalMs = RETRY_MS;
      this.#polls.failed(error);
    }
    changed();
  }

  async #pollOn(signal: AbortSignal): Promise<void> {
    const { random = Math.random } = this.#parts;
    for (;;) {
      const jitter = 1 + JITTER * (random() * 2 - 1);
      await this.#polls.next(between(POLL_MIN_MS, this.#intervalMs * jitter, INTERVAL_MAX_MS));
      if (signal.aborted) return;
      await this.poll(POLL_ANSWER_MS, signal);
    }
  }

  /** Obeys a restart order at once, even outside of a maintenance window. */
  async #orderOn(signal: AbortSignal): Promise<void> {
    const { cloud, logger, mayOrder, restart } = this.#parts;
    for (let usualMs = RESTART_POLL_MIN_MS;;) {
      await this.#orders.next(usualMs);
      if (signal.aborted) return;
      usualMs = RESTART_POLL_MIN_MS;
      if (!this.#isOnline || !await mayOrder(signal)) {
        this.#orders.failed();
        continue;
      }
      try {
        const { mustRestart, intervalMs } = await cloud.needsRestart({ timeoutMs: POLL_ANSWER_MS, signal });
        usualMs = between(RESTART_POLL_MIN_MS, intervalMs, INTERVAL_MAX_MS);
        if (mustRestart) restart();
      } catch (error) {
        logger.debug(`cannot ask whether to restart: ${chainOf(error)}`);
        this.#orders.failed(error);
      }
    }
  }
}

function between(min: number, value: number, max: number): number {
  return Math.max(min, Math.min(value, max));
}
