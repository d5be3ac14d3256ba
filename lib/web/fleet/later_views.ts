/** The views that are loaded when somebody opens them. */

import type { Component } from "svelte";

interface LaterView {
  /** In the address. */
  readonly view: string;
  readonly load: () => Promise<{ readonly default: Component }>;
}

export const LATER_VIEWS: readonly LaterView[] = [
  { view: "locations", load: () => import("./machines/locations.svelte") },
  { view: "logs", load: () => import("./records/fleet_logs.svelte") },
  { view: "fragments", load: () => import("./fragments/fragments.svelte") },
  { view: "compare", load: () => import("./configurations/compare.svelte") },
  { view: "registry", load: () => import("./registry/registry.svelte") },
  { view: "alerts", load: () => import("./alerts/alerts.svelte") },
  { view: "releases", load: () => import("./releases/releases.svelte") },
  { view: "backups", load: () => import("./backups/backups.svelte") },
  { view: "usage", load: () => import("./usage/usage.svelte") },
  { view: "audit", load: () => import("./records/audit.svelte") },
];
