/**
 * The maintenance window: whether a sensor of the machine allows changes and restarts now.
 *
 * A thin reader reads the sensor; a pure function decides. Without a configured sensor, changes are allowed: otherwise
 * nobody could repair a machine whose sensor is missing. A configured sensor that does not clearly say yes forbids
 * everything, except changes that the sensor itself needs.
 */

import type { Readings } from "../../api/shared/readings.ts";
import type { Sensor } from "../../api/sensors/sensor.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { show } from "../../base/schema/schema.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Machine } from "./machine.ts";
import type { MaintenanceConfig } from "../config/settings.ts";

/** Time limit of the sensor's answer. */
const SENSOR_TIMEOUT_MS = 5_000;

/** The result of reading the sensor. */
export type SensorFinding =
  | { readonly kind: "not a name"; readonly error: string }
  | { readonly kind: "not there"; readonly error: string }
  /** The machine knows the sensor by this full name; it was not built, has failed, or its remote is away. */
  | { readonly kind: "unhealthy"; readonly error: string; readonly full: string }
  | { readonly kind: "no answer"; readonly error: string }
  | { readonly kind: "readings"; readonly readings: Readings };

export interface MaintenanceDecision {
  readonly allowed: boolean;
  /** For the log; absent if nothing needs an explanation: no window, or a clear yes. */
  readonly reason?: string;
  /** What may change nevertheless, with all its dependencies: a sensor that cannot be read. */
  readonly mendable?: string;
}

/** Whether changes are allowed under `maintenance`, whose sensor gave `finding`. */
export function decideMaintenance(
  { sensorName, maintenanceAllowedKey: key }: MaintenanceConfig,
  finding: SensorFinding,
): MaintenanceDecision {
  switch (finding.kind) {
    case "not a name":
    case "not there":
      return { allowed: true, reason: `maintenance is allowed, there is no sensor to ask: ${finding.error}` };
    case "unhealthy": {
      const reason = `no maintenance, ${sensorName} cannot be asked: ${finding.error}`;
      return { allowed: false, reason, mendable: finding.full };
    }
    case "no answer":
      return { allowed: false, reason: `no maintenance, ${sensorName} cannot be read: ${finding.error}` };
  }

  const { readings } = finding;
  const value = Object.hasOwn(readings, key) ? readings[key] : undefined;
  if (value === true) return { allowed: true };
  if (value === false) {
    return { allowed: false, reason: `no maintenance, ${sensorName} says ${key} is false` };
  }

  const found = value === undefined ? `no "${key}" among its readings` : `${show(value)} for "${key}"`;
  return { allowed: false, reason: `no maintenance, ${sensorName} gives ${found}, wanted true or false` };
}

/** Reads the sensor, if there is a window at all. Never rejects. */
export async function maintenanceAllowed(
  maintenance: MaintenanceConfig | undefined,
  machine: Pick<Machine, "find" | "nodes">,
  clock: Clock,
): Promise<MaintenanceDecision> {
  return maintenance
    ? decideMaintenance(maintenance, await find(maintenance, machine, clock))
    : { allowed: true };
}

async function find(
  { sensorName }: MaintenanceConfig,
  machine: Pick<Machine, "find" | "nodes">,
  clock: Clock,
): Promise<SensorFinding> {
  let name: ResourceName;
  try {
    name = ResourceName.parse(sensorName);
  } catch (error) {
    return { kind: "not a name", error: chainOf(error) };
  }

  let sensor: Partial<Sensor>;
  try {
    sensor = machine.find(name.api, name.short);
  } catch (error) {
    const known = [...machine.nodes].find((node) => isNamed(node.name, name.full));
    if (!known) return { kind: "not there", error: chainOf(error) };
    return { kind: "unhealthy", error: chainOf(error), full: known.name.full };
  }

  if (typeof sensor.getReadings !== "function") {
    return { kind: "not there", error: `${sensorName} has no readings` };
  }
  const late = () => new SvcError("deadline_exceeded", `no readings within ${SENSOR_TIMEOUT_MS / 1000} s`);
  const { signal, done } = deadline(clock, SENSOR_TIMEOUT_MS, late);
  try {
    const readings = await race(Promise.resolve().then(() => sensor.getReadings!({ signal })), signal);
    return { kind: "readings", readings };
  } catch (error) {
    return { kind: "no answer", error: chainOf(error) };
  } finally {
    done();
  }
}

/** Whether a resource has this full name; a remote's resource has one without the remote, too. */
function isNamed({ api, full, simple }: ResourceName, wanted: string): boolean {
  return full === wanted || `${api}/${simple}` === wanted;
}
