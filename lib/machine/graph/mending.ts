/**
 * The changes that are allowed outside of maintenance: to a sensor that cannot be read, and to its dependencies.
 *
 * Without them, nobody could repair a machine whose sensor is broken. Pure.
 */

import type { MachineConfig, ResourceConfig } from "../config/config.ts";

/**
 * The configuration in force, with the sensor (`rdk:component:sensor/door`), its dependencies in either configuration,
 * and its remote as they are in the newer one. `undefined` if none of that differs.
 */
export function mendingOf(
  inForce: MachineConfig,
  newer: MachineConfig,
  sensorName: string,
): MachineConfig | undefined {
  const needed = new Set([...neededBy(sensorName, inForce), ...neededBy(sensorName, newer)]);
  const isNeeded = ({ name }: ResourceConfig) => needed.has(name.full);
  const remoteName = /\/([^:]+):/.exec(sensorName)?.[1];
  const parts = (config: MachineConfig) => ({
    resources: config.resources.filter(isNeeded),
    remotes: config.remotes.filter(({ name }) => name === remoteName),
  });
  const [old, mended] = [parts(inForce), parts(newer)];
  if (shown(old) === shown(mended)) return undefined;

  return {
    ...inForce,
    resources: [...inForce.resources.filter((one) => !isNeeded(one)), ...mended.resources],
    remotes: [...inForce.remotes.filter(({ name }) => name !== remoteName), ...mended.remotes],
  };
}

/** Full names of a resource and of all its dependencies. */
function neededBy(full: string, { resources }: MachineConfig): string[] {
  const needed = new Set<string>();
  const waiting = [full];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    for (const one of resources.filter((one) => one.name.full === name || one.name.short === name)) {
      if (needed.has(one.name.full)) continue;
      needed.add(one.name.full);
      waiting.push(...one.dependsOn, ...one.implicit.map(({ name }) => name));
    }
  }
  return [...needed];
}

/** The comparable text of a configuration: without the entries' positions in the file, with secrets. */
function shown({ resources, remotes }: Pick<MachineConfig, "resources" | "remotes">): string {
  const entries = resources.map(({ path: _, decoded: __, ...one }) => ({ ...one, name: one.name.full }));
  const secrets = remotes.map(({ auth, secret }) =>
    [auth?.credentials?.payload, secret].map((one) => one?.reveal())
  );
  return JSON.stringify([entries, remotes, secrets]);
}
