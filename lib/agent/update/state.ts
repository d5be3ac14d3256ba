/**
 * The update of one program as a pure state machine: what is on record and what is seen give the next step.
 *
 *     downloaded → verified → prepared → switched → probation → committed | rolled back
 *
 * Every step is a list of durable writes in an order that lets the power fail between any two of them: whatever of
 * it is done, the boot rule starts a version that works, or comes back to one, and `plan` goes on from there. No
 * step depends on the time of day. `tests/agent/update_model_test.ts` walks through every state there is.
 */

import { type LinkName, type Links, STARTS_MAX } from "./boot.ts";

/** A version that is wanted. */
export interface Wish {
  /** Two wishes with the same key are for the same bytes. */
  readonly key: string;
  readonly version: string;
}

/** A version on the disk. */
export interface Build extends Wish {
  /** Its name in the `cache` folder. */
  readonly file: string;
  /** Hexadecimal. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

export type Stage = "downloaded" | "verified" | "prepared" | "switched" | "probation";

export interface Trial {
  readonly build: Build;
  readonly stage: Stage;
  /** Somebody at the device asked for it: it does not wait for the next start. */
  readonly asked?: boolean;
}

/** A version that is not tried again while it is what is wanted. */
export interface Refusal extends Wish {
  readonly reason: string;
}

/** What is on record of one program. */
export interface Slot {
  /** The last version that proved itself. */
  readonly good?: Build;
  /** The one before it. */
  readonly previous?: Build;
  /** The one that may follow. */
  readonly trial?: Trial;
  readonly refused?: Refusal;
}

/** What is true now. */
export interface Seen {
  /** What the cloud wants; `undefined` where it has not said. `pinned`: the configuration names this very version. */
  readonly target?: Wish & { readonly pinned?: boolean };
  readonly links: Links;
  /** Names of the builds that are on the disk in full length. */
  readonly files: ReadonlySet<string>;
  /** Starts have been counted that are not forgotten. */
  readonly counted: boolean;
  /** The boot rule starts another file than `current`, which it could not change. */
  readonly gaveUp: boolean;
  /** The file that runs. */
  readonly running?: string;
  /** Of what runs: `healthy` when it has been for long enough, `failed` when it had its time. */
  readonly health: "starting" | "healthy" | "failed";
  /** Why it is `failed`. */
  readonly reason?: string;
  /** What went wrong last with what runs or ran: "ended by itself, …". */
  readonly lastFailure?: string;
  /** What runs may be stopped now. */
  readonly maySwitch: boolean;
  /** It may be stopped for a version that nobody asked for: in a maintenance window. */
  readonly mayUpdate: boolean;
  /** No earlier download has to be waited for. */
  readonly mayFetch: boolean;
}

/** One durable write. */
export type Op =
  | { readonly op: "save"; readonly slot: Slot }
  | { readonly op: "link"; readonly link: LinkName; readonly file: string }
  | { readonly op: "unlink"; readonly link: LinkName }
  | { readonly op: "forget_count" };

export type Step =
  /** Download it; then `downloaded`. */
  | { readonly do: "fetch" }
  /** Read it back and try it; then `verified` or `refused`. */
  | { readonly do: "check"; readonly build: Build }
  | { readonly do: "write"; readonly why: string; readonly ops: readonly Op[] }
  /** Stop what runs, and apply the boot rule. */
  | { readonly do: "restart"; readonly why: string }
  | { readonly do: "wait"; readonly why: string };

export function plan(slot: Slot, seen: Seen): Step {
  return restore(slot, seen) ?? (slot.trial ? advance(slot, slot.trial, seen) : begin(slot, seen));
}

/** What becomes of the record after a download. */
export function downloaded(slot: Slot, build: Build): Slot {
  return { ...slot, trial: { build, stage: "downloaded" } };
}

/** What becomes of the record after a check that went well. */
export function verified(slot: Slot): Slot {
  return atStage(slot, "verified");
}

/** What becomes of the record when the wish cannot be taken, whatever is done: a bad file, a failed trial. */
export function refused({ trial: _, ...slot }: Slot, { key, version }: Wish, reason: string): Slot {
  return { ...slot, refused: { key, version, reason } };
}

/**
 * The way back to the version before, which a user asked for; `undefined` where there is none. That version is on
 * trial then like any other; what is left is not taken again while it is what is wanted.
 */
export function goBack(slot: Slot, seen: Seen, reason: string): readonly Op[] | undefined {
  const { good, previous, trial } = slot;
  // A switch may be done and not yet on record.
  const unnoted = trial?.stage === "prepared" && seen.links.current === trial.build.file;
  if (trial && (isSwitched(trial) || unnoted)) return good && rollBack(slot, trial, reason).ops;
  if (!good || !previous || !seen.files.has(previous.file)) return undefined;
  // Where the boot rule was there first, that is left to prove itself.
  const fallen = seen.running === previous.file && (seen.gaveUp || seen.links.current !== good.file);
  // What is wanted and refused already must not be tried again in its place.
  const isRefused = slot.refused !== undefined && slot.refused.key === seen.target?.key;
  const { trial: _, ...left } = isRefused ? slot : refused(slot, good, reason);
  return [{
    op: "save",
    slot: fallen ? left : { ...left, trial: { build: previous, stage: "verified", asked: true } },
  }];
}

/** Makes record and disk say the same, where a power loss or the boot rule left them apart. */
function restore(slot: Slot, seen: Seen): Step | undefined {
  const { good, previous, trial } = slot;
  const { links, files } = seen;
  const gaveUp = seen.gaveUp ? links.current : undefined;
  // Before the preparation it says something of an earlier trial.
  const begun = trial && (trial.stage === "prepared" || isSwitched(trial));
  if (begun && [links.broken, gaveUp].includes(trial.build.file)) {
    return rollBack(slot, trial, reasonOf(`it did not start ${STARTS_MAX} times in a row`, seen));
  }
  if (trial && isSwitched(trial)) {
    if (links.current === trial.build.file && files.has(trial.build.file)) return undefined;
    return rollBack(slot, trial, "it was left for the version before it");
  }
  if (good && (links.current !== good.file || !files.has(good.file) || gaveUp === good.file)) {
    // A switch that was not put on record.
    if (trial?.stage === "prepared" && links.current === trial.build.file) return undefined;
    return amend(slot, good, seen);
  }
  // It is prepared for this very trial.
  if (trial?.stage === "prepared") return undefined;
  if (previous && links.previous !== previous.file && files.has(previous.file)) {
    return write("the way back is restored", { op: "link", link: "previous", file: previous.file });
  }
  if (seen.health !== "healthy" || links.current !== seen.running) return undefined;
  if (links.broken !== undefined) {
    return write("what was given up is known", { op: "unlink", link: "broken" });
  }
  if (seen.counted) return write("what runs is well", { op: "forget_count" });
}

/** The good version is not what is started. */
function amend(slot: Slot, good: Build, seen: Seen): Step | undefined {
  const { previous } = slot;
  const { links, files, running, health } = seen;
  const other = previous && previous.file !== good.file && files.has(previous.file) ? previous : undefined;
  const whole = files.has(good.file);
  const fallen = links.current === other?.file || !whole || seen.gaveUp;
  const well = health === "healthy" ? running : undefined;
  if (fallen && other && !(whole && well === good.file)) {
    // Until the other is known to be well, the boot rule goes on to look for one that is.
    if (whole && well !== other.file) return undefined;
    // Not refused: it may have been the machine's fault, and it gets another trial.
    return write(
      `${good.version} no longer starts, back to ${other.version}`,
      { op: "link", link: "current", file: other.file },
      { op: "save", slot: { ...unprepared(slot), good: other, previous: good } },
    );
  }
  if (whole) {
    return write(
      `${good.version} is what is to be started`,
      { op: "link", link: "current", file: good.file },
      ...(fallen ? [{ op: "forget_count" } as const] : []),
    );
  }
  const { good: _, previous: __, ...rest } = unprepared(slot);
  return write(`${good.version} is gone from the disk`, { op: "save", slot: rest });
}

function advance(slot: Slot, trial: Trial, seen: Seen): Step {
  const { build, stage } = trial;
  const { target, files, running, health, maySwitch, mayUpdate } = seen;
  const { trial: _, ...without } = slot;
  switch (stage) {
    case "downloaded":
    case "verified":
      // A way back that a user asked for leaves what is wanted.
      if (target && target.key !== build.key && target.key !== slot.refused?.key) {
        return write(`${build.version} is no longer wanted`, { op: "save", slot: without });
      }
      if (build.file === slot.good?.file) {
        return write(`${build.version} has proved itself already`, { op: "save", slot: without });
      }
      if (!files.has(build.file)) return write(`${build.version} is gone`, { op: "save", slot: without });
      if (stage === "downloaded") return { do: "check", build };
      if (running !== undefined && health === "starting") return wait("what runs has to be well first");
      if (running !== undefined && !mayUpdate && !isAsked(slot, trial, target)) {
        return wait(`${build.version} is ready for the next start, or a maintenance window`);
      }
      if (running !== undefined && !maySwitch) return wait("what runs may not be stopped now");
      return write(
        `${build.version} is prepared`,
        { op: "forget_count" },
        ...(seen.links.broken === build.file ? [{ op: "unlink", link: "broken" } as const] : []),
        // What runs well is not to lose its last link.
        ...(running === build.file ? [{ op: "link", link: "current", file: build.file } as const] : []),
        ...(slot.good ? [{ op: "link", link: "previous", file: slot.good.file } as const] : []),
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
      if (running !== undefined && !maySwitch) return wait("what runs may not be stopped now");
      return { do: "restart", why: `${build.version} is to run` };
    case "probation":
      if (running !== build.file) return { do: "restart", why: `${build.version} is to run` };
      if (health === "failed") {
        return rollBack(slot, trial, reasonOf(seen.reason ?? "it did not get well in its time", seen));
      }
      if (health === "starting") return wait("it is on probation");
      return write(
        `${build.version} has proved itself`,
        { op: "save", slot: { ...without, good: build, ...before(slot, build) } },
        { op: "forget_count" },
      );
  }
}

function begin(slot: Slot, seen: Seen): Step {
  const { good, refused: no } = slot;
  const { target, running, links } = seen;
  if (running !== undefined && running !== links.current && !seen.gaveUp) {
    return { do: "restart", why: `${links.current ?? "nothing"} is to run` };
  }
  if (!target) return wait("the cloud has not said which version");
  if (target.key === good?.key) return wait("it is what is wanted");
  if (no && no.key === target.key) return wait(`${no.version} was refused: ${no.reason}`);
  if (no) {
    const { refused: _, ...rest } = slot;
    return write("something else is wanted", { op: "save", slot: rest });
  }
  return seen.mayFetch ? { do: "fetch" } : wait("the next attempt to download it comes later");
}

function reasonOf(reason: string, { lastFailure }: Seen): string {
  return lastFailure === undefined ? reason : `${reason}; the last time it ${lastFailure}`;
}

function rollBack(slot: Slot, { build }: Trial, reason: string) {
  const { good } = slot;
  return write(
    `back from ${build.version}: ${reason}`,
    // Should what is gone back to not start any more, this is better than nothing.
    { op: "link", link: "broken", file: build.file },
    good ? { op: "link", link: "current", file: good.file } : { op: "unlink", link: "current" },
    { op: "save", slot: refused(slot, build, reason) },
  );
}

function write(why: string, ...ops: Op[]) {
  return { do: "write", why, ops } as const;
}

function wait(why: string): Step {
  return { do: "wait", why };
}

function atStage(slot: Slot, stage: Stage): Slot {
  return { ...slot, trial: { ...slot.trial!, stage } };
}

/** A trial whose preparation counts no more. */
function unprepared(slot: Slot): Slot {
  return slot.trial?.stage === "prepared" ? verified(slot) : slot;
}

/** What is gone back to from a build that is good now. */
function before({ good, previous }: Slot, build: Build): Pick<Slot, "previous"> {
  const other = [good, previous].find((one) => one !== undefined && one.file !== build.file);
  return other ? { previous: other } : {};
}

/** An operator chose this version in the place of another, or somebody at the device did. */
function isAsked({ good }: Slot, { build, asked }: Trial, target: Seen["target"]): boolean {
  return asked === true ||
    (target?.pinned === true && target.key === build.key && target.version !== good?.version);
}

function isSwitched({ stage }: Trial): boolean {
  return stage === "switched" || stage === "probation";
}
