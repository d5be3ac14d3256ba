/**
 * Semantic versions and ranges of them, as `@std/semver` reads them.
 *
 * Ranges are those people know from package managers: `1.2`, `1.x`, `^1.2.3`, `~1.2`, `>=1.2 <2`, and alternatives
 * with `||`. A version before its release (`1.0.0-rc1`) is in a range only where the range names one itself.
 */

import { compare, parse, parseRange as parseBounds, satisfies, type SemVer } from "@std/semver";

export type Version = SemVer;

/** Tells whether a version is in it. */
export type Range = (version: Version) => boolean;

const TEXT_LENGTH_MAX = 200;

/** Reads `1.2.3` or `v1.2.3-rc.1+build`; undefined where the text is no version. */
export function parseVersion(text: string): Version | undefined {
  return read(text, parse);
}

/** Below 0 where `a` comes before `b`. */
export function compareVersions(a: Version, b: Version): number {
  return compare(a, b);
}

/** Reads a range; a whole version is the range of itself alone. Undefined where the text is none. */
export function parseRange(text: string): Range | undefined {
  // The library takes an empty alternative for every version.
  if (text.split("||").some((one) => one.trim() === "")) return undefined;
  const bounds = read(text, parseBounds);
  return bounds && ((version) => satisfies(version, bounds));
}

function read<T>(text: string, reader: (text: string) => T): T | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined;
  try {
    return reader(text);
  } catch {
    return undefined;
  }
}
