/**
 * How the agent does, for whoever asks it.
 */

import type { BinaryName } from "../update/release.ts";
import type { RuntimeState } from "./runtime.ts";
import type { UpdaterStatus } from "../update/updater.ts";

export interface AgentStatus {
  readonly version: string;
  readonly uptimeMs: number;
  /** The cloud has answered the last question. */
  readonly online: boolean;
  readonly offlineWhy?: string;
  /** Since it last answered. */
  readonly sinceOnlineMs?: number;
  readonly runtime: RuntimeState;
  readonly versions: { readonly [N in BinaryName]: UpdaterStatus };
  /** What is wrong with the settings. */
  readonly problems: readonly string[];
}
