/**
 * How much an idle machine tells and asks its control plane, by whether its connection is metered.
 */

import type { Level } from "../../base/log/log.ts";

export interface Traffic {
  /** Interval of polls while the control plane announces changes: how long a lost announcement lasts. */
  readonly rareMs: number;
  /** Interval of heartbeats on the streams that wait for WebRTC calls. */
  readonly heartbeatMs: number;
  /** How long log entries are collected for a batch. */
  readonly collectMs: number;
  /** The least level of log entries for the cloud. */
  readonly level: Level;
}

const USUAL: Traffic = { rareMs: 30 * 60_000, heartbeatMs: 5 * 60_000, collectMs: 1_000, level: "debug" };
const METERED: Traffic = {
  rareMs: 4 * 3600_000,
  heartbeatMs: 3600_000,
  collectMs: 10 * 60_000,
  level: "warn",
};

export function trafficOf(metered: boolean): Traffic {
  return metered ? METERED : USUAL;
}
