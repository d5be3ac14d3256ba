/** How a machine is, as its control plane hears it. */

import type { HealthReport } from "../../cloud_client/changes/health_reports.ts";
import type { Machine } from "./machine.ts";
import type { Reconfiguration } from "./reconfiguration.ts";

/** The configuration in force and what does not work; `undefined` while a change is under way. */
export function healthOf(machine: Machine, change: Reconfiguration["status"]): HealthReport | undefined {
  const { config } = machine;
  if (!config || machine.busy) return undefined;
  const broken = [...machine.nodes, ...change ? [change] : []].filter(({ state }) => state === "unhealthy");
  return {
    revision: config.revision,
    unhealthy: broken.map(({ name, error = "" }) => `${name.full}: ${error}`),
    heldBack: change?.state === "configuring",
  };
}
