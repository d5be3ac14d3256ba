/** The parts of all machines, as choices of a field. Pure. */

import type { appApi } from "@viamrobotics/sdk";

export interface PartChoice {
  readonly id: string;
  readonly machineId: string;
  /** `rover · arm`; the machine's name alone for its main part. */
  readonly name: string;
  /** For searches, in lower case. */
  readonly text: string;
}

export function partChoices(locations: readonly appApi.LocationSummary[]): PartChoice[] {
  const found = locations.flatMap(({ locationName, machineSummaries }) =>
    machineSummaries.flatMap(({ machineId, machineName, partSummaries }) =>
      partSummaries.map(({ partId: id, partName, isMainPart }): PartChoice => {
        const name = isMainPart ? machineName : `${machineName} · ${partName}`;
        return {
          id,
          machineId,
          name,
          text: `${machineName}\n${partName}\n${locationName}\n${id}`.toLowerCase(),
        };
      })
    )
  );
  const order = new Intl.Collator(undefined, { numeric: true });
  return found.sort((a, b) => order.compare(a.name, b.name));
}
