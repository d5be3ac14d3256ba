/**
 * Stored readings of one component, as a query gets them.
 */

import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { payloadBytes } from "../../lib/cloud/capture/payload.ts";
import type { ReadingBatch } from "../../lib/cloud/data/tabular_data.ts";

/** The time of the first reading; the others follow each an hour later. */
export const FIRST_MS = Date.UTC(2026, 2, 15, 14);
export const HOUR_MS = 3_600_000;

export function readingBatch(
  componentName: string,
  data: readonly JsonObject[],
  tags: readonly string[] = [],
): ReadingBatch {
  return {
    origin: {
      organizationId: "org",
      locationId: "place",
      machineId: "machine",
      machineName: "rover",
      partId: "part",
      partName: "rover-main",
      componentType: "rdk:component:sensor",
      componentName,
      methodName: "Readings",
      parameters: '{"deep":true}',
    },
    rows: data.map((payload, hour) => ({
      capturedUs: (FIRST_MS + hour * HOUR_MS) * 1000 + 123,
      receivedUs: (FIRST_MS + hour * HOUR_MS) * 1000 + 5_900,
      tags: JSON.stringify(tags),
      payload: payloadBytes(payload),
    })),
  };
}

/** The content of readings with these temperatures. */
export function celsius(...values: readonly (number | null)[]): JsonObject[] {
  return values.map((value) => ({ readings: { celsius: value } }));
}
