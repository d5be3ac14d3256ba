/**
 * The update of one program as a pure state machine: the record and the observations give the next step.
 *
 *     downloaded → verified → prepared → switched → probation → committed | rolled back
 *
 * Every step is a list of durable writes, in an order that allows a power loss between any two of them: after any
 * prefix the boot rule starts a working version, or returns to one, and `plan` continues from there. No step depends on
 * the time of day. `tests/agent/update_model_test.ts` walks through every reachable state.
 */

import { type LinkName, STARTS_MAX, type VersionLinks } from "./boot.ts";

/** A wanted version. */
export interface TargetVersion {
  /** Targets with the same key have the same bytes. */
  readonly key: string;
  readonly version: string;
}

/** A version on the disk. */
export interface Build extends TargetVersion {
  /** Its file name in the `cache` folder. */
  readonly file: string;
  /** Hexadecimal. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

export type Stage = "downloaded" | "verified" | "prepared" | "switched" | "probation";

export interface Trial {
  readonly build: Build;
  readonly stage: Stage;
  /** A person at the device asked for it, so it does not wait for the next start. */
  readonly asked?: boolean;
}

/** A version that is not tried again as long as it is the target. */
export interface Refusal extends TargetVersion {
  readonly reason: string;
}

/** The late ends of one version, one soon after the other. */
export interface LateEnds {
  /** The version's file. */
  readonly file: string;
  readonly ends: number;
  /** The files of the versions that were left, or returned to, for this and have not lasted since. */
  readonly left: readonly string[];
}

/** The record of one program. */
export interface Slot {
  /** The last version that proved itself. */
  readonly good?: Build;
  /** The good version before it. */
  readonly previous?: Build;
  /** The next version, if it proves itself. */
  readonly trial?: Trial;
  /** The version that failed its trial while nothing was good: it still starts, because there is no other. */
  readonly unproven?: Build;
  readonly refused?: Refusal;
  readonly late?: LateEnds;
}

/** The present observations. */
export interface Seen {
  /**
   * The version that the cloud wants; `undefined` if it has not said. `pinned`: the configuration names this very
   * version.
   */
  readonly target?: TargetVersion & { readonly pinned?: boolean };
  readonly links: VersionLinks;
  /** Names of the complete builds on the disk. */
  readonly files: ReadonlySet<string>;
  /** Whether there are counted starts to clear. */
  readonly counted: boolean;
  /** Whether the boot rule starts another file than `current`, because it could not change that link. */
  readonly gaveUp: boolean;
  /** The running file. */
  readonly running?: string;
  /** Health of the running file: `healthy` after the probation, `failed` after its time limit. */
  readonly health: "starting" | "healthy" | "failed";
  /** Why it is `failed`. */
  readonly reason?: string;
  /** The last failure of the running or last run file: "ended by itself, …". */
  readonly lastFailure?: string;
  /** Whether the running process may be stopped now. */
  readonly maySwitch: boolean;
  /** Whether a maintenance window is open, so that it may stop for a version that nobody requested. */
  readonly mayUpdate: boolean;
  /** Whether a download may begin now, or has to wait after a failed one. */
  readonly mayFetch: boolean;
}

/** One durable write. */
export type Op =
  | { readonly op: "save"; readonly slot: Slot }
  | { readonly op: "link"; readonly link: LinkName; readonly file: string }
  | { readonly op: "unlink"; readonly link: LinkName }
  | { readonly op: "forget_count" };

export type UpdateStep =
  /** Download it; the result is `downloaded`. */
  | { readonly do: "fetch" }
  /** Read it back and try it; the result is `verified` or `refused`. */
  | { readonly do: "check"; readonly build: Build }
  | { readonly do: "write"; readonly why: string; readonly ops: readonly Op[] }
  /** Stop the running process, and apply the boot rule. */
  | { readonly do: "restart"; readonly why: string }
  | { readonly do: "wait"; readonly why: string };

export function plan(slot: Slot, seen: Seen): UpdateStep {
  return restore(slot, seen) ?? (slot.trial ? advance(slot, slot.trial, seen) : begin(slot, seen));
}

/** The record after a download. */
export function downloaded(slot: Slot, build: Build): Slot {
  return { ...slot, trial: { build, stage: "downloaded" } };
}

/** The record after a passed check. */
export function verified(slot: Slot): Slot {
  return atStage(slot, "verified");
}

/** The record after a target has failed for good: a bad file, a failed trial. */
export function refused({ trial: _, ...slot }: Slot, { key, version }: TargetVersion, reason: string): Slot {
  return { ...slot, refused: { key, version, reason } };
}

/**
 * The return to the previous version at a user's request; `undefined` if there is none. That version goes on trial like
 * any other, and the abandoned version is refused as long as it is the target.
 */
export function goBack(slot: Slot, seen: Seen, reason: string): readonly Op[] | undefined {
  const { good, previous, trial } = slot;
  // The switch may be done and not yet recorded.
  const unnoted = trial?.stage === "prepared" && seen.links.current === trial.build.file;
  if (trial && (isSwitched(trial) || unnoted)) return good && rollBack(slot, trial, reason).ops;
  if (!good || !previous || !seen.files.has(previous.file)) return undefined;
  // If the boot rule has already returned to it, that version stays, and has to prove itself.
  const fallen = seen.running === previous.file && (seen.gaveUp || seen.links.current !== good.file);
  // A refused target must stay refused.
  const isRefused = slot.refused !== undefined && slot.refused.key === seen.target?.key;
  const { trial: _, ...left } = isRefused ? slot : refused(slot, good, reason);
  return [{
    op: "save",
    slot: fallen ? left : { ...left, trial: { build: previous, stage: "verified", asked: true } },
  }];
}

/** Makes record and disk agree after a power loss or an action of the boot rule. */
function restore(slot: Slot, seen: Seen): UpdateStep | undefined {
  const { good, previous, trial } = slot;
  const { links, files } = seen;
  const gaveUp = seen.gaveUp ? links.current : undefined;
  // Before the preparation, the count belongs to an earlier trial.
  const begun = trial && (trial.stage === "prepared" || isSwitched(trial));
  if (begun && [links.broken, gaveUp].includes(trial.build.file)) {
    return rollBack(slot, trial, reasonOf(`it did not start ${STARTS_MAX} times in a row`, seen));
  }
  if (trial && isSwitched(trial)) {
    if (links.current === trial.build.file && files.has(trial.build.file)) return undefined;
    return rollBack(slot, trial, "the boot rule left it for the previous version");
  }
  if (good && (links.current !== good.file || !files.has(good.file) || gaveUp === good.file)) {
    // A switch that is not recorded yet.
    if (trial?.stage === "prepared" && links.current === trial.build.file) return undefined;
    return amend(slot, good, seen);
  }
  // The link was prepared for this very trial.
  if (trial?.stage === "prepared") return undefined;
  if (!good && slot.unproven) {
    const late = proveLate(slot, slot.unproven, seen);
    if (late) return late;
  }
  if (previous && links.previous !== previous.file && files.has(previous.file)) {
    return write("the way back is restored", { op: "link", link: "previous", file: previous.file });
  }
  if (seen.health !== "healthy" || links.current !== seen.running) return undefined;
  if (links.broken !== undefined) {
    return write("what was given up is recorded", { op: "unlink", link: "broken" });
  }
  if (seen.counted) return write("the running version is healthy", { op: "forget_count" });
}

/** The version that failed its trial is healthy now: the computer was slow or in trouble, not the version. */
function proveLate(slot: Slot, build: Build, { links, running, health }: Seen): UpdateStep | undefined {
  if (health !== "healthy" || running !== build.file) return undefined;
  const { unproven: _, refused: no, ...rest } = slot;
  const isRefused = no !== undefined && no.key !== build.key;
  return write(
    `${build.version} has proved itself after all`,
    // A full disk may have kept the boot rule from writing it.
    ...(links.current === build.file ? [] : [{ op: "link", link: "current", file: build.file } as const]),
    { op: "save", slot: { ...rest, ...(isRefused && { refused: no }), good: build } },
  );
}

/** Handles a `current` that is not the good version. */
function amend(slot: Slot, good: Build, seen: Seen): UpdateStep | undefined {
  const { previous } = slot;
  const { links, files, running, health } = seen;
  const other = previous && previous.file !== good.file && files.has(previous.file) ? previous : undefined;
  const whole = files.has(good.file);
  const fallen = links.current === other?.file || !whole || seen.gaveUp;
  const well = health === "healthy" ? running : undefined;
  if (fallen && other && !(whole && well === good.file)) {
    // Until the other version is known to be healthy, the boot rule keeps trying.
    if (whole && well !== other.file) return undefined;
    // Not refused: the fault may have been the machine's, and the version gets another trial.
    return write(
      `${good.version} no longer starts, back to ${other.version}`,
      { op: "link", link: "current", file: other.file },
      { op: "save", slot: { ...unprepared(slot), good: other, previous: good } },
    );
  }
  if (whole) {
    return write(
      `${good.version} starts next`,
      { op: "link", link: "current", file: good.file },
      ...(fallen ? [{ op: "forget_count" } as const] : []),
    );
  }
  const { good: _, previous: __, ...rest } = unprepared(slot);
  return write(`${good.version} is gone from the disk`, { op: "save", slot: rest });
}

function advance(slot: Slot, trial: Trial, seen: Seen): UpdateStep {
  const { build, stage } = trial;
  const { target, files, running, health, maySwitch, mayUpdate } = seen;
  const { trial: _, ...without } = slot;
  const back = otherThan(slot, build);
  switch (stage) {
    case "downloaded":
    case "verified":
      // A return at a user's request leaves the target.
      if (target && target.key !== build.key && target.key !== slot.refused?.key) {
        return write(`${build.version} is no longer wanted`, { op: "save", slot: without });
      }
      if (build.file === slot.good?.file) {
        // Same bytes under a new version or date: record the new key, or they would be downloaded again at every poll.
        return write(`${build.version} has proved itself already`, {
          op: "save",
          slot: { ...without, good: build },
        });
      }
      if (!files.has(build.file)) return write(`${build.version} is gone`, { op: "save", slot: without });
      if (stage === "downloaded") return { do: "check", build };
      if (running !== undefined && health === "starting") {
        return wait("the running version has to be healthy first");
      }
      if (running !== undefined && !mayUpdate && !isAsked(slot, trial, target)) {
        return wait(`${build.version} is ready for the next start, or a maintenance window`);
      }
      if (running !== undefined && !maySwitch) return wait("the running process may not be stopped now");
      return write(
        `${build.version} is prepared`,
        { op: "forget_count" },
        // The running version, or the only one there is, must not lose its last link.
        ...(running === build.file || !back
          ? [{ op: "link", link: "current", file: build.file } as const]
          : []),
        ...(seen.links.broken === build.file ? [{ op: "unlink", link: "broken" } as const] : []),
        ...(back ? [{ op: "link", link: "previous", file: back.file } as const] : []),
        { op: "save", slot: atStage(slot, "prepared") },
      );
    case "prepared":
      if (!files.has(build.file)) return write(`${build.version} is gone`, { op: "save", slot: without });
      return write(
        `${build.version} is next`,
        { op: "link", link: "current", file: build.file },
        { op: "save", slot: atStage(slot, "switched") },
      );
    case "switched":
      if (running === build.file) {
        return write(`${build.version} is on probation`, { op: "save", slot: atStage(slot, "probation") });
      }
      if (running !== undefined && !maySwitch) return wait("the running process may not be stopped now");
      return { do: "restart", why: `${build.version} has to run` };
    case "probation":
      if (running !== build.file) return { do: "restart", why: `${build.version} has to run` };
      if (health === "failed") {
        return rollBack(slot, trial, reasonOf(seen.reason ?? "it was not healthy in time", seen));
      }
      if (health === "starting") return wait("it is on probation");
      return write(
        `${build.version} has proved itself`,
        { op: "save", slot: { ...proven(without), good: build, ...before(slot, build) } },
        { op: "forget_count" },
      );
  }
}

function begin(slot: Slot, seen: Seen): UpdateStep {
  const { good, refused: no } = slot;
  const { target, running, links } = seen;
  if (running !== undefined && running !== links.current && !seen.gaveUp) {
    return { do: "restart", why: `${links.current ?? "nothing"} has to run` };
  }
  if (!target) return wait("the cloud has not said which version");
  if (target.key === good?.key) return wait("the wanted version runs");
  if (no && no.key === target.key) return wait(`${no.version} was refused: ${no.reason}`);
  if (no) {
    const { refused: _, ...rest } = slot;
    return write("another version is wanted", { op: "save", slot: rest });
  }
  return seen.mayFetch ? { do: "fetch" } : wait("the next attempt to download it comes later");
}

function reasonOf(reason: string, { lastFailure }: Seen): string {
  return lastFailure === undefined ? reason : `${reason}; the last time it ${lastFailure}`;
}

function rollBack(slot: Slot, { build }: Trial, reason: string) {
  const back = otherThan(slot, build);
  const left = back ? slot : { ...slot, unproven: build };
  return write(
    `back from ${build.version}: ${reason}`,
    // If the previous version no longer starts, this one is better than none.
    { op: "link", link: "broken", file: build.file },
    back ? { op: "link", link: "current", file: back.file } : { op: "unlink", link: "current" },
    { op: "save", slot: refused(left, build, reason) },
  );
}

function write(why: string, ...ops: Op[]) {
  return { do: "write", why, ops } as const;
}

function wait(why: string): UpdateStep {
  return { do: "wait", why };
}

function atStage(slot: Slot, stage: Stage): Slot {
  return { ...slot, trial: { ...slot.trial!, stage } };
}

/** A trial whose preparation is void. */
function unprepared(slot: Slot): Slot {
  return slot.trial?.stage === "prepared" ? verified(slot) : slot;
}

/** The version that starts in place of this one: the good one or, if there is none, the one that may have been slow. */
function otherThan({ good, unproven }: Slot, build: Build): Build | undefined {
  return good ?? (unproven?.file === build.file ? undefined : unproven);
}

/** The record once a version has proved itself: from then on that one is the version to return to. */
function proven({ unproven: _, ...slot }: Slot): Slot {
  return slot;
}

/** The previous version after a build becomes good. */
function before({ good, previous }: Slot, build: Build): Pick<Slot, "previous"> {
  const other = [good, previous].find((one) => one !== undefined && one.file !== build.file);
  return other ? { previous: other } : {};
}

/** Whether an operator chose this version in place of another, or a person at the device did. */
function isAsked({ good }: Slot, { build, asked }: Trial, target: Seen["target"]): boolean {
  return asked === true ||
    (target?.pinned === true && target.key === build.key && target.version !== good?.version);
}

function isSwitched({ stage }: Trial): boolean {
  return stage === "switched" || stage === "probation";
}
