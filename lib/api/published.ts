/**
 * The published APIs that no built-in model implements. The machine serves them so that clients get the
 * published answers, and so that modules can implement them.
 */

import { NavigationService } from "../../proto/gen/navigation_pb.ts";
import { PoseTrackerService } from "../../proto/gen/pose_tracker_pb.ts";
import type { Api } from "../resource/registry.ts";
import { type ForwardingResource, passthrough } from "./shared/passthrough.ts";

export const PUBLISHED: readonly Api<ForwardingResource>[] = [
  passthrough("rdk:component:pose_tracker", PoseTrackerService),
  passthrough("rdk:service:navigation", NavigationService),
];
