/**
 * A good version that ends by itself again and again, each time after it was healthy: the count of failed starts is
 * cleared each time, and never sees that. Pure; the caller says which ends count.
 *
 * The cause may be another one than the version: a configuration, a module. Then the version before ends as well, so
 * each version is left for another at most once until it has lasted.
 */

import { goBack, type LateEnds, type Op, type Seen, type Slot } from "./state.ts";

/** After so many late ends of the good version, the one before it gets a trial. */
const LATE_ENDS_MAX = 5;
/** The reason of a refusal begins with this. */
const REASON = `it ended by itself ${LATE_ENDS_MAX} times, each time soon after it had been healthy`;

/** Durable writes, and for the log why, unless they only count. */
export interface Noted {
  readonly why?: string;
  readonly ops: readonly Op[];
}

/** After a late end; `how` says how the version ended. */
export function noteLateEnd(slot: Slot, file: string, how: string, seen: Seen): Noted {
  const { good, previous, trial, late } = slot;
  // Another version is about to start anyway.
  if (good?.file !== file || trial) return { ops: [] };
  const before: LateEnds = late?.file === file ? late : { file, ends: 0, left: late?.left ?? [] };
  const counted = { ...before, ends: Math.min(before.ends + 1, LATE_ENDS_MAX) };
  const kept: Slot = { ...slot, late: counted };
  const count = (slot: Slot, why?: string): Noted => ({ why, ops: [{ op: "save", slot }] });
  if (counted.ends < LATE_ENDS_MAX) return count(kept);
  if (previous && counted.left.includes(previous.file)) return forgiven(kept, count);

  const reason = `${REASON}; the last time it ${how}`;
  const back = goBack(slot, seen, reason);
  if (!previous || !back) return count(kept);
  const left = [...new Set([...counted.left, file, previous.file])];
  const returned = { file: previous.file, ends: 0, left };
  return {
    why: `back from ${good.version} to ${previous.version}: ${reason}`,
    ops: back.map((one) => one.op === "save" ? { ...one, slot: { ...one.slot, late: returned } } : one),
  };
}

/** The writes once a version has run for long. */
export function noteLasting(slot: Slot, file: string): Noted {
  const { late, ...rest } = slot;
  if (!late || (late.file !== file && !late.left.includes(file))) return { ops: [] };
  const left = late.left.filter((one) => one !== file);
  const kept = { ...late, ends: late.file === file ? 0 : late.ends, left };
  const isOver = kept.ends === 0 && left.length === 0;
  return { ops: [{ op: "save", slot: isOver ? rest : { ...rest, late: kept } }] };
}

/** The version before ends by itself, too, so the one that was left is wanted as before. */
function forgiven(slot: Slot, count: (slot: Slot, why?: string) => Noted): Noted {
  const { refused, ...rest } = slot;
  if (!refused?.reason.startsWith(REASON)) return count(slot);
  return count(rest, `${refused.version} is no longer refused: the version before it ends by itself, too`);
}
