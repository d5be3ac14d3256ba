/**
 * A part of the system that the agent keeps in line with its settings: journald, system upgrades, networks.
 */

import type { AgentSettings } from "./settings.ts";

export interface Subsystem {
  /** The name in the log. */
  readonly name: string;
  /**
   * Brings the system in line with the settings. The agent calls it at every change of the settings, and every few
   * minutes, because others change the system, too. If it throws, the agent shows the error in its log and status
   * and continues with the next subsystem.
   */
  apply(settings: AgentSettings, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
