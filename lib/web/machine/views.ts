/**
 * The views of the page, in the order of their tabs. A view is a folder of `views/`; it is loaded when it is first
 * opened. Its address is `#/PATH`, and what stands behind another slash is its own.
 */

import type { Component } from "svelte";

export interface PageView {
  /** Of its address. */
  readonly path: string;
  readonly title: string;
  /** Fills the screen, without the tabs, and has none itself. */
  readonly fills?: boolean;
  readonly load: () => Promise<{ readonly default: Component<ViewProps> }>;
}

/** What a view gets. */
export interface ViewProps {
  /** The rest of the address after the view's path, decoded, `rdk:component:motor/motor1`. */
  readonly rest: string;
}

export const VIEWS: readonly [PageView, ...PageView[]] = [
  { path: "control", title: "Control", load: () => import("./views/control/control.svelte") },
  { path: "scene", title: "Scene", load: () => import("./views/scene/scene.svelte") },
  { path: "resources", title: "Resources", load: () => import("./views/resources/resources.svelte") },
  {
    path: "configuration",
    title: "Configuration",
    load: () => import("./views/configuration/configuration.svelte"),
  },
  { path: "logs", title: "Logs", load: () => import("./views/logs/logs.svelte") },
  { path: "activity", title: "Activity", load: () => import("./views/activity/activity.svelte") },
  {
    path: "diagnostics",
    title: "Diagnostics",
    load: () => import("./views/diagnostics/diagnostics.svelte"),
  },
  { path: "connect", title: "Connect", load: () => import("./views/connect/connect.svelte") },
  { path: "screen", title: "Dashboard", fills: true, load: () => import("./views/screen/screen.svelte") },
];
