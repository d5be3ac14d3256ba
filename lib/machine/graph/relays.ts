/**
 * Relays: the machines that a resource comes through, so that machines that are each other's remotes do not take their
 * own resources for the other's.
 *
 * The published list of resources has only names. A machine that lists a remote's resources gives its own id in the
 * request's header. The answer then has no resource that came through that machine, the rest is ordered by relays, and
 * the answer's header has a value for each group: the number of its resources, and the ids of the machines. Published
 * clients and machines ignore these headers; they get and give the plain list.
 */

import type { Metadata } from "../../wire/rpc/metadata.ts";

/** Key of a request's header: the id of the machine that asks. */
export const ASKING_MACHINE = "svc-machine";
/** Key of an answer's header: `<count> <id of the machine that answers> <id of its remote> …` */
const RELAYS = "svc-relays";

/** Machines in a row, and groups in an answer; resources beyond that are left out. */
const RELAYS_MAX = 8;
const GROUPS_MAX = 64;
/** An answer with more was given by nobody. */
const RESOURCES_MAX = 100_000;
const ID = /^[0-9a-f]{12}$/;

/** The ids of the machines that a resource comes through, the nearest first; none for a machine's own resource. */
export type Relays = readonly string[];

/** The id of a machine until its process ends. */
export function newMachineId(): string {
  return crypto.randomUUID().slice(-12);
}

/** The part of a machine's list that concerns the machine `asking`, ordered by relays; sets the answer's header. */
export function relayed<T extends { readonly relays: Relays }>(
  list: readonly T[],
  { own, asking, header }: { own: string; asking: string; header: Metadata },
): T[] {
  const groups = new Map<string, T[]>();
  for (const item of list.toSorted((a, b) => a.relays.length - b.relays.length)) {
    const relays = [own, ...item.relays];
    if (relays.includes(asking) || relays.length > RELAYS_MAX) continue;
    const key = relays.join(" ");
    const group = groups.get(key);
    if (group) group.push(item);
    else if (groups.size < GROUPS_MAX) groups.set(key, [item]);
  }
  for (const [key, { length }] of groups) header.append(RELAYS, `${length} ${key}`);
  return [...groups.values()].flat();
}

/** The relays of each resource of an answer; none for the answer of a published machine. */
export function relaysIn(header: Metadata | undefined): Relays[] {
  const all: Relays[] = [];
  for (const value of header?.all(RELAYS).slice(0, GROUPS_MAX) ?? []) {
    const [count = "", ...ids] = value.split(" ");
    if (!/^\d{1,5}$/.test(count) || ids.length > RELAYS_MAX || !ids.every((id) => ID.test(id))) return [];
    if (all.length + Number(count) > RESOURCES_MAX) return [];
    for (let left = Number(count); left > 0; left--) all.push(ids);
  }
  return all;
}
