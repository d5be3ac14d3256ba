/** Maps and mapping sessions as people read them. Pure. */

import { millisOf } from "../../machine/link/wire.ts";
import type { ListedPackage, ListedSession } from "./map_calls.ts";

/** By the number of the published PackageType. */
export const MAP_TYPE = 4;

export interface MapVersion {
  readonly version: string;
  readonly createdMs: number;
  /** The mapping session that has made it; empty for an upload. */
  readonly sessionId: string;
}

export interface ShownMap {
  readonly name: string;
  /** Newest first; never empty. */
  readonly versions: readonly [MapVersion, ...MapVersion[]];
}

/** The maps among packages that are listed oldest first, the last changed one first. */
export function mapsOf(packages: readonly ListedPackage[]): ShownMap[] {
  const maps = new Map<string, [MapVersion, ...MapVersion[]]>();
  for (const { info, createdOn } of packages.toReversed()) {
    if (!info) continue;
    const { session_id: made } = (info.metadata?.toJson() ?? {}) as { readonly session_id?: unknown };
    const sessionId = typeof made === "string" ? made : "";
    const one = { version: info.version, createdMs: millisOf(createdOn), sessionId };
    const known = maps.get(info.name);
    if (!known) maps.set(info.name, [one]);
    else if (!known.some(({ version }) => version === one.version)) known.push(one);
  }
  return [...maps].map(([name, versions]) => ({ name, versions }))
    .sort((a, b) => b.versions[0].createdMs - a.versions[0].createdMs);
}

interface SessionState {
  readonly word: string;
  readonly tone: "good" | "bad" | "warn" | "";
  readonly isOver: boolean;
  /** Whether its map is in the registry. */
  readonly hasMap: boolean;
}

/** By the numbers of the published EndStatus. */
const ENDS: readonly (SessionState | undefined)[] = [
  undefined,
  { word: "map made", tone: "good", isOver: true, hasMap: true },
  { word: "ended by its limit of time", tone: "warn", isOver: true, hasMap: true },
  { word: "failed", tone: "bad", isOver: true, hasMap: false },
];

export function sessionState(session: ListedSession): SessionState {
  const end = ENDS[session.endStatus];
  if (end) return end;
  return { word: activityOf(session), tone: "", isOver: false, hasMap: false };
}

function activityOf(session: ListedSession): string {
  if (session.timeEndSubmitted) return "stopped, finishing its map";
  return session.timeCloudRunJobStarted ? "mapping" : "waiting";
}

export function mapHref(name: string): string {
  return `#/data/maps/${encodeURIComponent(name)}`;
}

export function sessionHref(id: string): string {
  return `#/data/mapping/${encodeURIComponent(id)}`;
}
