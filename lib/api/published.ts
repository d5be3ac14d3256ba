/**
 * The published APIs that no built-in model implements. The machine serves them so that clients get the
 * published answers, and so that modules can implement them. (`rdk:service:base_remote_control` is published
 * too, but has no service of its own, so there is nothing to serve.)
 */

import { AudioInService } from "../../proto/gen/audio_in_pb.ts";
import { AudioOutService } from "../../proto/gen/audio_out_pb.ts";
import { NavigationService } from "../../proto/gen/navigation_pb.ts";
import { PoseTrackerService } from "../../proto/gen/pose_tracker_pb.ts";
import { VideoService } from "../../proto/gen/video_pb.ts";
import { WorldStateStoreService } from "../../proto/gen/world_state_store_pb.ts";
import type { Api } from "../resource/registry.ts";
import { type ForwardingResource, passthrough } from "./shared/passthrough.ts";

export const PUBLISHED: readonly Api<ForwardingResource>[] = [
  passthrough("rdk:component:audio_in", AudioInService),
  passthrough("rdk:component:audio_out", AudioOutService),
  passthrough("rdk:component:pose_tracker", PoseTrackerService),
  passthrough("rdk:service:navigation", NavigationService),
  passthrough("rdk:service:video", VideoService),
  passthrough("rdk:service:world_state_store", WorldStateStoreService),
];
