/**
 * Routes: which machines a resource comes through, so that machines that are each other's remotes do not take their own
 * resources for the other's.
 *
 * The published list of resources has only names. A machine that lists a remote's resources gives its own id in the
 * request's header; the answer then has no resource that came through this machine, the rest is ordered by route, and
 * the answer's header has a value for each route: the number of its resources and the ids of its machines. Published
 * clients and machines ignore these headers, and get and give the plain list.
 */

import type { Metadata } from "../../wire/metadata.ts";

/** Key of a request's header: the id of the machine that asks. */
export const ASKING_MACHINE = "svc-machine";
/** Key of an answer's header: `<count> <id of the machine that answers> <id of its remote> …` */
const ROUTES = "svc-routes";

/** Machines in a row, and routes in an answer; resources over longer or further routes are left out. */
const ROUTE_MAX = 8;
const ROUTES_MAX = 64;
const ID = /^[0-9a-f]{12}$/;

/** The ids of the machines that a resource comes through, the nearest first; none for a machine's own resource. */
export type Route = readonly string[];

/** The id of a machine until its process ends. */
export function newMachineId(): string {
  return crypto.randomUUID().slice(-12);
}

/** The part of a machine's list that concerns the machine `asking`, ordered by route; sets the answer's header. */
export function routed<T extends { readonly route: Route }>(
  list: readonly T[],
  { own, asking, header }: { own: string; asking: string; header: Metadata },
): T[] {
  const groups = new Map<string, T[]>();
  for (const item of list.toSorted((a, b) => a.route.length - b.route.length)) {
    const route = [own, ...item.route];
    if (route.includes(asking) || route.length > ROUTE_MAX) continue;
    const key = route.join(" ");
    const group = groups.get(key);
    if (group) group.push(item);
    else if (groups.size < ROUTES_MAX) groups.set(key, [item]);
  }
  for (const [key, { length }] of groups) header.append(ROUTES, `${length} ${key}`);
  return [...groups.values()].flat();
}

/** The route of each resource of an answer; the routes of a published machine's answer are empty. */
export function routesIn(header: Metadata | undefined): Route[] {
  const routes: Route[] = [];
  for (const value of header?.all(ROUTES).slice(0, ROUTES_MAX) ?? []) {
    const [count, ...ids] = value.split(" ");
    if (!/^\d{1,5}$/.test(count) || ids.length > ROUTE_MAX || !ids.every((id) => ID.test(id))) return [];
    for (let left = Number(count); left > 0; left--) routes.push(ids);
  }
  return routes;
}
