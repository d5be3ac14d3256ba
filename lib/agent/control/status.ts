/**
 * The agent's status, as `svc-agent status` shows it.
 */

import type { BinaryName } from "../update/release.ts";
import type { RuntimeState } from "../supervise/runtime.ts";
import type { UpdaterStatus } from "../update/updater.ts";

export interface AgentStatus {
  readonly version: string;
  readonly uptimeMs: number;
  /** Whether the cloud answered the last request. */
  readonly online: boolean;
  /** Whether it answered, but refuses the device: a revoked key, a deleted machine. */
  readonly refused: boolean;
  readonly offlineWhy?: string;
  /** Time since its last answer. */
  readonly sinceOnlineMs?: number;
  readonly runtime: RuntimeState;
  readonly versions: { readonly [N in BinaryName]: UpdaterStatus };
  /** Problems in the settings and in applying them. */
  readonly problems: readonly string[];
}
