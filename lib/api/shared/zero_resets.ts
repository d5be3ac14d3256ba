/**
 * Resets of positions: who adds up the way between two positions of a motor must know that the motor was given another
 * zero position meanwhile, which is no way at all.
 *
 * Only resets by calls to this machine are known, not those within a module or a remote (`hasUnseenResets`).
 */

import type { Resource } from "../../resource/resource.ts";
import { ResourceClient } from "./resource.ts";

interface Resets {
  /** Begun or ended. */
  count: number;
  underway: number;
}

const RESETS = new WeakMap<Resource, Resets>();
const SOURCES = new WeakMap<Resource, Resource>();

/** Runs a reset of a resource's position, so that `zeroMark` tells of it. */
export async function resetting(resource: Resource, reset: () => Promise<void>): Promise<void> {
  const resets = RESETS.get(resource) ?? { count: 0, underway: 0 };
  RESETS.set(resource, resets);
  resets.count++;
  resets.underway++;
  try {
    await reset();
  } finally {
    resets.underway--;
    resets.count++;
  }
}

/** The resource's position is that of `source`, in other units: a reset of the source is one of the resource. */
export function countsBy(resource: Resource, source: Resource): void {
  SOURCES.set(resource, source);
}

/** Is the same for two positions with the same zero position; `undefined` while it is reset. */
export function zeroMark(resource: Resource): number | undefined {
  const { count, underway } = RESETS.get(resource) ?? { count: 0, underway: 0 };
  const source = SOURCES.get(resource);
  const below = source ? zeroMark(source) : 0;
  return underway > 0 || below === undefined ? undefined : count + below;
}

/** Whether the position may be reset without a change of `zeroMark`: it is counted in a module or by a remote. */
export function hasUnseenResets(resource: Resource): boolean {
  const source = SOURCES.get(resource);
  return resource instanceof ResourceClient || source !== undefined && hasUnseenResets(source);
}
