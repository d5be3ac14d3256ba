/**
 * The release that the cloud wants on the device, and what its server has at present.
 *
 * A custom URL names no version of its content, so the updater asks for the content's mark from time to time. Passes do
 * not wait for a server: they use the last answer.
 */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import { keyOf, type Release } from "./release.ts";
import type { Slot } from "./state.ts";
import type { Fetcher } from "./fetcher.ts";

export interface TargetReleaseParts {
  readonly name: string;
  readonly fetcher: Pick<Fetcher, "stamp" | "withheld">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Interval of the checks whether a custom URL has new content. */
const STAMP_MS = 120_000;

export class TargetRelease {
  #release?: Release;
  #stamp?: { url: string; mark?: string; nextMs: number };
  #looking?: Promise<void>;
  #withheld?: string;

  /** `slot` gives the versions that the device has. */
  constructor(private readonly parts: TargetReleaseParts, private readonly slot: () => Slot) {}

  /** As the cloud named it. */
  get release(): Release | undefined {
    return this.#release;
  }

  /** Why newer versions may be withheld. */
  get withheld(): string | undefined {
    return this.#withheld;
  }

  set(release: Release | undefined): void {
    this.#release = release;
  }

  /**
   * The release to get; for a custom URL, its content as last seen. `undefined` while that is not known at all, unless a
   * start is about to happen.
   */
  now(atStart = false): Release | undefined {
    const release = this.#release;
    if (!release?.custom || release.sha256 !== undefined) return release;
    const seen = this.#stamp?.url === release.url ? this.#stamp : undefined;
    const mark = seen ? seen.mark : this.#knownMark(release);
    if (!seen && mark === undefined && !atStart) return undefined;
    return { ...release, key: keyOf(release.version, mark) };
  }

  /** Asks the server, if that is due and nobody is asking. */
  async refresh(signal: AbortSignal): Promise<void> {
    return await (this.#looking ??= this.#lookAtServer(signal).finally(() => this.#looking = undefined));
  }

  /** Resolves when nobody is asking. */
  async idle(): Promise<void> {
    await this.#looking;
  }

  async #lookAtServer(signal: AbortSignal): Promise<void> {
    await this.#lookAtUrl(signal);
    const { fetcher, logger, name } = this.parts;
    const installed = this.#release?.key === this.slot().good?.key ? this.#release : undefined;
    const withheld = installed && await fetcher.withheld(installed, signal).catch(() => undefined);
    if (withheld !== undefined && withheld !== this.#withheld) logger.warn(`${name}: ${withheld}`);
    this.#withheld = withheld;
  }

  /** Asks for the present content of a custom URL. */
  async #lookAtUrl(signal: AbortSignal): Promise<void> {
    const release = this.#release;
    if (!release?.custom || release.sha256 !== undefined) return;
    const { clock, fetcher } = this.parts;
    if (this.#stamp?.url === release.url && clock.monotonicMs() < this.#stamp.nextMs) return;
    const mark = await fetcher.stamp(release, signal).catch(() => undefined);
    if (signal.aborted || this.#release?.url !== release.url) return;
    const last = this.#stamp?.url === release.url ? this.#stamp.mark : this.#knownMark(release);
    this.#stamp = { url: release.url, mark: later(mark, last), nextMs: clock.monotonicMs() + STAMP_MS };
  }

  /** The mark of the last content taken from this URL; without an answer it counts as the present one. */
  #knownMark({ version }: Release): string | undefined {
    const { good, trial, refused } = this.slot();
    const known = [trial?.build, refused, good].find((build) => build?.version === version);
    return known?.key.slice(version.length + 1) || undefined;
  }
}

/** The later of two marks, which are times; a clock that was set back changes nothing. */
function later(mark: string | undefined, last: string | undefined): string | undefined {
  if (mark === undefined || last === undefined) return mark ?? last;
  return Number(mark) >= Number(last) ? mark : last;
}
