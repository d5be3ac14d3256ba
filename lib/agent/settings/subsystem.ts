/**
 * A part of the system that the agent brings to what its settings want: journald, upgrades of the system, networks.
 */

import type { AgentSettings } from "./settings.ts";

export interface Subsystem {
  /** What the log calls it. */
  readonly name: string;
  /**
   * Brings the system to what the settings want: with every change of them, and every few minutes, for others change
   * systems too. Throws what cannot be done, which is told in the log and the status, and hinders nothing else.
   */
  apply(settings: AgentSettings, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
