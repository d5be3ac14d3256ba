/** Machines and parts as the control plane sees them: online, offline, or never seen. Pure. */

import type { appApi } from "@viamrobotics/sdk";
import { millisOf } from "../../machine/link/wire.ts";
import { shortDuration } from "../../shared/format.ts";
import type { CallTime } from "../account/call_time.ts";

export type ShownPresence = "online" | "offline" | "never seen";

/** A row of the list. */
export interface ListedMachine {
  readonly id: string;
  readonly name: string;
  readonly locationId: string;
  readonly locationName: string;
  readonly parts: number;
  readonly presence: ShownPresence;
  /** Of its main part; 0 for never. */
  readonly seenMs: number;
  /** For filters, in lower case. */
  readonly text: string;
}

/** A part, or a summary of one. */
export interface SeenPart {
  readonly onlineState: number;
  readonly lastAccess?: CallTime;
}

/** The numbers are those of the published OnlineState. */
export function presenceOf({ onlineState, lastAccess }: SeenPart): ShownPresence {
  if (onlineState === 1) return "online";
  return millisOf(lastAccess) > 0 ? "offline" : "never seen";
}

export function toneOf(presence: ShownPresence): "good" | "bad" | "" {
  return ({ online: "good", offline: "bad", "never seen": "" } as const)[presence];
}

/** `3 min ago`, `never`. */
export function agoText(seenMs: number, nowMs: number): string {
  return seenMs > 0 ? `${shortDuration(Math.max(0, nowMs - seenMs))} ago` : "never";
}

/** Sorted by name. */
export function machinesOf(locations: readonly appApi.LocationSummary[]): ListedMachine[] {
  const listed = locations.flatMap(({ locationId, locationName: known, machineSummaries }) => {
    // A caller with a role on single machines learns the id of their location alone.
    const locationName = known || locationId;
    return machineSummaries.map(({ machineId: id, machineName: name, partSummaries }): ListedMachine => {
      const main = partSummaries.find(({ isMainPart }) => isMainPart) ?? partSummaries[0];
      return {
        id,
        name,
        locationId,
        locationName,
        parts: partSummaries.length,
        presence: main ? presenceOf(main) : "never seen",
        seenMs: millisOf(main?.lastAccess),
        text: `${name}\n${locationName}\n${id}`.toLowerCase(),
      };
    });
  });
  const order = new Intl.Collator(undefined, { numeric: true });
  return listed.sort((a, b) => order.compare(a.name, b.name));
}
