/** The versions of the programs, released here or only running, as rows of a table. Pure. */

import { millisOf } from "../../machine/link/wire.ts";
import type { ShownReport } from "../machines/report_calls.ts";
import type { ShownRelease } from "./release_calls.ts";

export interface VersionRow {
  readonly name: string;
  readonly version: string;
  /** Empty for a version that has no release here. */
  readonly channel: string;
  /** With their sizes. */
  readonly platforms: readonly (readonly [platform: string, bytes: number])[];
  readonly createdMs: number;
  /** How many parts run it. */
  readonly running: number;
}

/** By program, newest version first; versions without a release come last. */
export function versionRows(
  releases: readonly ShownRelease[],
  reports: readonly Pick<ShownReport, "serverVersion" | "agentVersion">[],
): VersionRow[] {
  const running = new Map<string, number>();
  const count = (name: string, version: string) => {
    if (version !== "") running.set(keyOf(name, version), (running.get(keyOf(name, version)) ?? 0) + 1);
  };
  for (const { serverVersion, agentVersion } of reports) {
    count("svc-server", serverVersion);
    count("svc-agent", agentVersion);
  }

  const released = new Map<string, VersionRow>();
  for (const { name, version, channel, platform, bytes, created } of releases.toReversed()) {
    const key = keyOf(name, version);
    const { platforms = [], createdMs = millisOf(created) } = released.get(key) ?? {};
    released.set(key, {
      name,
      version,
      channel,
      platforms: [...platforms, [platform, Number(bytes)]],
      createdMs,
      running: running.get(key) ?? 0,
    });
  }
  const others = [...running].filter(([key]) => !released.has(key)).map(([key, parts]): VersionRow => {
    const [name = "", version = ""] = key.split("\n", 2);
    return { name, version, channel: "", platforms: [], createdMs: 0, running: parts };
  });
  return [...released.values(), ...others];
}

function keyOf(name: string, version: string): string {
  return `${name}\n${version.replace(/^v(?=\d)/, "")}`;
}
