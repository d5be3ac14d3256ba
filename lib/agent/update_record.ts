/**
 * What of the disk belongs to one program's updates, and its record rebuilt from the disk.
 */

import type { Links } from "./update_boot.ts";
import type { Build, Slot, Wish } from "./update_state.ts";

/** The files in `cache` that must not be removed. */
export function inUse(slot: Slot, links: Links, running: string | undefined, _target?: Wish): Set<string> {
  const { good, previous, trial } = slot;
  const files = [good?.file, previous?.file, trial?.build.file, running, ...Object.values(links)];
  return new Set(files.filter((file) => file !== undefined));
}

/**
 * The record when every copy of it is lost: what is started was perhaps on trial, so it proves itself anew where
 * there is another to go back to.
 */
export function rebuilt({ current, previous }: Links, build: (file: string) => Build | undefined): Slot {
  const first = current === undefined ? undefined : build(current);
  const before = previous === undefined || previous === current ? undefined : build(previous);
  if (!first || !before) return first ?? before ? { good: first ?? before } : {};
  return { good: before, trial: { build: first, stage: "switched" } };
}
