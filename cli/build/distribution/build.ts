/** What archives and packages are made from. */

import { execute } from "../compiler.ts";

export interface DistributedBuild {
  /** The executable. */
  readonly path: string;
  /** The notices of third-party software. */
  readonly notices: string;
  readonly version: string;
  /** Where the archive or package goes. */
  readonly folder: string;
}

/** Midnight of 2025-01-01, in seconds since 1970. */
const FALLBACK_TIME = "1735689600";

/** When the tree's commit was made, in seconds since 1970; outside of a repository a fixed time. */
export async function revisionTime(): Promise<string> {
  const { code, output } = await execute("git", ["log", "-1", "--format=%ct"])
    .catch(() => ({ code: 1, output: "" }));
  return code === 0 ? output.trim() : FALLBACK_TIME;
}
