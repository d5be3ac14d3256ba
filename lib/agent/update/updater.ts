/**
 * Carries out the updates of one program: observes, asks `plan` for the next step and takes it.
 *
 * Downloads and checks run in the background; the rest of a pass is a few small durable writes. A failed step is logged
 * and repeated after a growing pause. The guarantees of `state.ts` and of the boot rule hold as long as the caller
 * reports correctly which file runs and whether it is healthy.
 *
 * The room owns the versions of programs on a device: it downloads, checks, installs, tries and rolls back.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { AttemptProgress, type DownloadProgress } from "../../base/download/http_download.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { shownUrl } from "../../base/log/shown_url.ts";
import type { Logger } from "../../base/log/log.ts";
import { basename } from "node:path";
import { type BinaryName, fileNameOf, keyOf, type Release } from "./release.ts";
import { TargetRelease } from "./target_release.ts";
import { UpdateRetries } from "./update_retries.ts";
import { bootPlan, startedInstead } from "./boot.ts";
import type { Noted } from "./late_ends.ts";
import { inUse, type UpdateRecord } from "./record.ts";
import {
  type Build,
  downloaded,
  goBack,
  type Op,
  plan,
  type Refusal,
  refused,
  type Seen,
  type Slot,
  type TargetVersion,
  type Trial,
  type UpdateStep,
  verified,
} from "./state.ts";
import { TEMPORARY } from "../../base/files/files.ts";
import type { Fetcher } from "./fetcher.ts";

/** Reads a build back and checks that it is the wanted program. `isFinal` classifies its errors. */
export interface Checker {
  check(path: string, build: Build, signal: AbortSignal): Promise<void>;
}

export interface UpdaterParts {
  readonly name: BinaryName;
  readonly record: UpdateRecord;
  readonly files: ReadFiles & WriteFiles;
  readonly fetcher: Fetcher;
  readonly checker: Checker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** `false`: the updater fetches and checks new versions, and does nothing else. */
  readonly manages: boolean;
  /** From 0 to 1; spreads the retries of a fleet. */
  readonly random?: () => number;
}

/** The caller's observations. */
export interface Now {
  /** The running file of `cache`. */
  readonly running?: string;
  readonly health: Seen["health"];
  /** Why it is `failed`. */
  readonly reason?: string;
  /** How the program last ended unexpectedly. */
  readonly lastFailure?: string;
  readonly maySwitch: boolean;
  readonly mayUpdate: boolean;
  /**
   * Whether a start is about to happen, which must not wait for the network: the pass begins no download and no check.
   */
  readonly atStart?: boolean;
}

export interface UpdaterStatus {
  readonly good?: Build;
  readonly previous?: Build;
  readonly trial?: Trial;
  readonly refused?: Refusal;
  readonly target?: TargetVersion;
  /** The last failure, until a success. */
  readonly problem?: string;
  /** The reason why it waits. */
  readonly waiting?: string;
  readonly progress?: DownloadProgress;
}

/** Limit of steps, above the longest plan: a pass with more steps runs in a circle, and the next pass continues. */
const STEPS_MAX = 20;
/** A partial file that has not been written for this long belongs to no download under way. */
const LEFTOVER_MS = 10 * 60_000;
/** The operations of an updater, for its users. */
export type Updates = { readonly [K in Exclude<keyof Updater, "install" | "fileOf">]: Updater[K] };

export class Updater {
  readonly #parts: UpdaterParts;
  #slot: Slot = {};
  readonly #target: TargetRelease;
  readonly #retries: UpdateRetries;
  #now: Now = { health: "starting", maySwitch: false, mayUpdate: false };
  #work?: Promise<void>;
  #stopWork?: AbortController;
  /** Ends a download, but no check. */
  #stopFetch?: AbortController;
  #waiting?: string;
  #progress?: DownloadProgress;

  constructor(parts: UpdaterParts) {
    this.#parts = parts;
    this.#target = new TargetRelease(parts, () => this.#slot);
    this.#retries = new UpdateRetries(parts.clock, parts.random);
  }

  /** Reads the record. An unreadable record is logged and replaced. */
  async open(): Promise<void> {
    const { record, logger, name } = this.#parts;
    const { slot, problems } = await record.open();
    this.#slot = slot;
    for (const problem of problems) logger.error(`the record of ${name}: ${problem}`);
    if (problems.length > 0) logger.warn(`${name}: continuing with ${slot.good?.version ?? "nothing"}`);
  }

  /** Sets the target of the cloud; `undefined` for none. */
  setTarget(release: Release | undefined): void {
    const { key, wanted } = this.#target.release ?? {};
    // A configuration that names this version itself may allow what the channel does not.
    if (release?.key !== key || release?.wanted !== wanted) this.#retries.reset();
    if (release?.key !== key) this.#stopFetch?.abort(new SvcError("canceled", "another version is wanted"));
    this.#target.set(release);
  }

  /** Adopts a file that somebody has put into `cache` as the first good version. */
  async install(file: string, version: string): Promise<void> {
    const { record, name } = this.#parts;
    const found = await record.readBuild(file);
    if (!found) throw new SvcError("not_found", `cannot install ${name}: there is no ${record.pathOf(file)}`);
    const build = { ...found, version, key: keyOf(version, found.sha256) };
    const { good } = this.#slot;
    const before = good && good.file !== file ? good : this.#slot.previous;
    if (before) await record.apply({ op: "link", link: "previous", file: before.file });
    await this.#apply([
      { op: "link", link: "current", file },
      { op: "save", slot: { good: build, ...(before && { previous: before }) } },
      { op: "forget_count" },
    ]);
  }

  /** The path at which `install` expects a file with this content. */
  fileOf(version: string, sha256: string): string {
    return fileNameOf(this.#parts.name, version, sha256);
  }

  /**
   * Takes steps until it has to wait. `restart`: the caller has to stop the process and ask `boot`. `began`: a
   * background download or check; the next pass is worthwhile after it.
   */
  async pass(now: Now, signal: AbortSignal): Promise<{ restart: boolean; began?: Promise<void> }> {
    this.#now = now;
    if (this.#work) return { restart: false };
    if (!now.atStart) void this.refresh(signal);
    try {
      for (let steps = 0; steps < STEPS_MAX && !signal.aborted; steps++) {
        const step = plan(this.#slot, await this.#look(now));
        if (!this.#mayTake(step)) break;
        const reported = this.#waiting;
        this.#waiting = step.do === "wait" || step.do === "restart" ? step.why : undefined;
        if (step.do === "wait") break;
        if (step.do === "restart") {
          // The caller repeats waiting passes, so the reason is logged only once.
          if (reported !== step.why) this.#parts.logger.info(`${this.#parts.name}: ${step.why}`);
          return { restart: true };
        }
        if (step.do === "write") {
          const { good } = this.#slot;
          await this.#write(step.why, step.ops);
          if (this.#slot.good?.file !== good?.file && this.#slot.trial === undefined) {
            await this.#removeUnused();
          }
        } else {
          if (now.atStart || !this.#retries.mayTry) break;
          return { restart: false, began: this.#begin(step, signal) };
        }
      }
    } catch (error) {
      // The next pass repeats the step without a pause, because a rollback must not wait.
      const problem = `the update cannot go on: ${chainOf(error)}`;
      if (this.#retries.note(problem)) this.#parts.logger.error(`${this.#parts.name}: ${problem}`);
    }
    return { restart: false };
  }

  /**
   * Asks for the present content of a custom URL, if that is due; passes do not wait for a server, and use the last
   * answer. The caller need not wait, either.
   */
  async refresh(signal: AbortSignal): Promise<void> {
    if (!this.#work) await this.#target.refresh(signal);
  }

  /** Resolves when no download and no check is running. */
  async idle(): Promise<void> {
    await this.#target.idle();
    await this.#work;
  }

  /** The file behind the link `current`. */
  async current(): Promise<string | undefined> {
    return (await this.#parts.record.links()).current;
  }

  /** Counts a start and returns the file to start; gives up a version that does not start. */
  async boot(): Promise<{ file: string; path: string; delayMs: number } | undefined> {
    const { record, files, logger, name } = this.#parts;
    const links = await record.links();
    const runnable = new Set<string>();
    for (const file of Object.values(links)) {
      if ((await files.findFile(record.pathOf(file)))?.sizeBytes) runnable.add(file);
    }
    const seen = { links, ...await record.counts(), runnable: (file: string) => runnable.has(file) };
    const { file, ops, delayMs } = bootPlan(seen);
    if (links.current !== undefined && file !== undefined && file !== links.current) {
      logger.error(`${name}: ${links.current} was given up, back to ${file}`);
    }
    for (const op of ops) {
      // A disk that refuses writes does not prevent the start.
      await (op.op === "count" ? record.count(op.count) : record.apply(op))
        .catch((error) => logger.warn(`${name}: ${chainOf(error)}`));
    }
    return file === undefined ? undefined : { file, path: record.pathOf(file), delayMs };
  }

  /** Clears the counted starts: the running version is healthy, or was asked to stop. */
  async settled(): Promise<void> {
    const { record, logger, name } = this.#parts;
    await record.apply({ op: "forget_count" }).catch((error) => logger.warn(`${name}: ${chainOf(error)}`));
  }

  /** Takes note of how a version ran. */
  async note(run: (slot: Slot, seen: Seen) => Noted): Promise<void> {
    const seen = await this.#look({ ...this.#now, atStart: true });
    // A download or a check writes the record when it ends.
    if (this.#work) return;
    const { why, ops } = run(this.#slot, seen);
    await (why === undefined ? this.#apply(ops) : this.#write(why, ops));
  }

  /** Returns to the previous version. Throws `failed_precondition` if there is none. */
  async goBack(reason: string): Promise<void> {
    // A person who requests a rollback must not wait for the network.
    const now = { ...this.#now, atStart: true };
    const ops = goBack(this.#slot, await this.#look(now), reason);
    if (!ops) {
      const { name } = this.#parts;
      const found = this.#slot.good ? `only ${this.#slot.good.version} is there` : "none is installed";
      throw new SvcError("failed_precondition", `there is no version of ${name} to go back to: ${found}`);
    }
    this.#stopWork?.abort(new SvcError("canceled", reason));
    await this.#work;
    await this.#write(reason, ops);
  }

  /**
   * Takes back a refusal whose reason begins like this and turned out not to be the version's fault: it is tried again if
   * it is still wanted.
   */
  async forgive(reason: string, why: string): Promise<void> {
    const { refused, ...slot } = this.#slot;
    if (this.#work || !refused?.reason.startsWith(reason)) return;
    await this.#write(`${refused.version} is no longer refused: ${why}`, [{ op: "save", slot }]);
  }

  status(): UpdaterStatus {
    const { key, version } = this.#target.release ?? {};
    const problem = this.#retries.problem ?? this.#target.withheld;
    return {
      ...this.#slot,
      ...(key !== undefined && version !== undefined && { target: { key, version } }),
      ...(problem !== undefined && { problem }),
      ...(this.#waiting !== undefined && { waiting: this.#waiting }),
      ...(this.#progress && { progress: this.#progress }),
    };
  }

  /** Removes unused versions and the leftovers of writes; returns the names of the removed files. */
  async clean(keepMs: number): Promise<string[]> {
    if (this.#work) return [];
    return [...await this.#removeUnused(), ...await this.#parts.fetcher.clean(keepMs)];
  }

  async #removeUnused(): Promise<string[]> {
    const { record, files, name, logger } = this.#parts;
    const used = inUse(this.#slot, await record.links(), this.#now.running);
    const removed: string[] = [];
    const folder = record.pathOf("");
    for (const file of await files.readFolder(folder).catch(() => [])) {
      const leftover = file.endsWith(TEMPORARY);
      if (!file.startsWith(`${name}-`) || (used.has(file) && !leftover)) continue;
      try {
        await files.remove(record.pathOf(file));
        removed.push(file);
      } catch (error) {
        logger.warn(`${name}: ${chainOf(error)}`);
      }
    }
    return removed;
  }

  /** A program outside its own folder only downloads. */
  #mayTake(step: UpdateStep): boolean {
    if (this.#parts.manages || step.do === "fetch" || step.do === "check" || step.do === "wait") return true;
    this.#waiting = "it does not run from its own folder, so it is not replaced";
    return false;
  }

  async #look(now: Now): Promise<Seen> {
    const { record, files } = this.#parts;
    const links = await record.links();
    const counts = await record.counts();
    const { good, previous, trial } = this.#slot;
    const whole = new Set<string>();
    for (const build of [good, previous, trial?.build]) {
      if (!build) continue;
      const found = await files.findFile(record.pathOf(build.file));
      if (found?.sizeBytes === build.sizeBytes) whole.add(build.file);
    }
    return {
      target: this.#target.now(now.atStart),
      links,
      files: whole,
      counted: counts.count !== undefined || counts.passing !== undefined,
      gaveUp: startedInstead({ links, passing: counts.passing }) !== undefined,
      running: now.running,
      health: now.health,
      reason: now.reason,
      lastFailure: now.lastFailure,
      maySwitch: now.maySwitch,
      mayUpdate: now.mayUpdate,
      mayFetch: this.#retries.mayTry,
    };
  }

  async #write(why: string, ops: readonly Op[]): Promise<void> {
    this.#parts.logger.info(`${this.#parts.name}: ${why}`);
    await this.#apply(ops);
  }

  async #apply(ops: readonly Op[]): Promise<void> {
    for (const op of ops) {
      await this.#parts.record.apply(op);
      if (op.op === "save") this.#slot = op.slot;
    }
  }

  /** Begins a download or a check in the background. */
  #begin(step: UpdateStep & { do: "fetch" | "check" }, signal: AbortSignal): Promise<void> {
    this.#stopWork = new AbortController();
    this.#stopFetch = step.do === "fetch" ? this.#stopWork : undefined;
    const both = AbortSignal.any([signal, this.#stopWork.signal]);
    const work = step.do === "fetch" ? this.#fetch(both) : this.#check(step.build, both);
    return this.#work = work.catch((error) => this.#failed(`cannot record the ${step.do}`, error))
      .finally(() => {
        this.#work = undefined;
        this.#stopFetch = undefined;
        this.#progress = undefined;
      });
  }

  async #fetch(signal: AbortSignal): Promise<void> {
    const { fetcher, logger, name } = this.#parts;
    const release = this.#target.now();
    if (!release) return;
    logger.info(`${name}: getting ${release.version} from ${shownUrl(release.url)}`);
    const attempt = new AttemptProgress();
    const fetchNow = () =>
      fetcher.fetch(release, (progress) => {
        attempt.add(progress);
        this.#progress = progress;
      }, signal);
    let build: Build;
    try {
      await this.#removeUnused();
      build = await fetchNow().catch(async (error) => {
        if (SvcError.from(error).code !== "resource_exhausted") throw error;
        // Removes leftovers of other downloads before it refuses one for lack of space.
        if ((await fetcher.clean(LEFTOVER_MS)).length === 0) throw error;
        return await fetchNow();
      });
    } catch (error) {
      if (attempt.isWorthwhile) this.#retries.progress();
      return await this.#refuseOrRetry(`cannot get ${release.version}`, release, error, signal);
    }
    this.#retries.succeed();
    await this.#write(`${release.version} is downloaded`, [{
      op: "save",
      slot: downloaded(this.#slot, build),
    }]);
  }

  async #check(build: Build, signal: AbortSignal): Promise<void> {
    const { checker, record, files } = this.#parts;
    try {
      await checker.check(record.pathOf(build.file), build, signal);
    } catch (error) {
      // A damaged file is fetched again.
      const { trial: _, ...without } = this.#slot;
      const kept = [this.#slot.good, this.#slot.previous].some((one) => one?.file === build.file);
      if (SvcError.from(error).code === "data_loss" && !kept) {
        await files.remove(record.pathOf(build.file)).catch(() => {});
        await this.#apply([{ op: "save", slot: without }]);
      }
      return await this.#refuseOrRetry(`${build.version} does not pass`, build, error, signal);
    }
    this.#retries.reset();
    await this.#write(`${build.version} is checked`, [{ op: "save", slot: verified(this.#slot) }]);
  }

  async #refuseOrRetry(
    what: string,
    target: TargetVersion,
    error: unknown,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    if (!isFinal(error)) return this.#failed(what, error);
    const reason = chainOf(error);
    this.#parts.logger.error(`${this.#parts.name}: ${what}, and is not tried again: ${reason}`);
    await this.#apply([{ op: "save", slot: refused(this.#slot, target, reason) }]);
  }

  #failed(what: string, error: unknown): void {
    const { logger, name } = this.#parts;
    const delayMs = this.#retries.fail(what, error);
    const pause = `the next attempt is in ${Math.round(delayMs / 1000)} s`;
    logger.warn(`${name}: ${this.#retries.problem}; ${pause}`);
  }
}

/** Whether a repetition would end the same way. */
function isFinal(error: unknown): boolean {
  return ["failed_precondition", "invalid_argument", "unauthenticated"].includes(SvcError.from(error).code);
}

/** The name of the running program in the folder `cache`, if it is there. Both paths are without links. */
export function ownFile(cache: string, program: string): string | undefined {
  const normal = (path: string) => path.replaceAll("\\", "/");
  return normal(program).startsWith(`${normal(cache)}/`) ? basename(normal(program)) : undefined;
}
