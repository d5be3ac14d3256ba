/**
 * Semantic versions and ranges of them, as `@std/semver` reads them.
 *
 * Ranges have the syntax of package managers: `1.2`, `1.x`, `^1.2.3`, `~1.2`, `>=1.2 <2`, and alternatives with `||`.
 * A pre-release (`1.0.0-rc1`) is in a range only if the range names a pre-release itself.
 */

import { compare, parse, parseRange as parseBounds, satisfies, type SemVer } from "@std/semver";

export type Version = SemVer;

/** Whether a version is in the range. */
export type Range = (version: Version) => boolean;

const TEXT_LENGTH_MAX = 200;

/** Reads `1.2.3` or `v1.2.3-rc.1+build`; `undefined` if the text is no version. */
export function parseVersion(text: string): Version | undefined {
  return read(text, parse);
}

/** Negative if `a` precedes `b`. */
export function compareVersions(a: Version, b: Version): number {
  return compare(a, b);
}

/** Reads a range; a complete version is a range of itself alone. `undefined` if the text is no range. */
export function parseRange(text: string): Range | undefined {
  // The library accepts an empty alternative as every version.
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
