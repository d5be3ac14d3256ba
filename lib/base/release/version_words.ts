/**
 * The words that a configuration may have in place of a version: each stands for a version that changes.
 */

import { parseVersion } from "../semver.ts";

/**
 * `latest` and `latest-with-prerelease` are published; `stable` and `dev` are a control plane's. `latest` leaves out
 * prereleases such as `1.3.0-rc.1`.
 */
export const VERSION_WORDS: readonly string[] = ["latest", "latest-with-prerelease", "stable", "dev"];

/** Whether a version is one to try before its release: `1.3.0-rc.1`. One that is no number, such as a time, is not. */
export function isPrerelease(version: string): boolean {
  return (parseVersion(version)?.prerelease ?? []).length > 0;
}
