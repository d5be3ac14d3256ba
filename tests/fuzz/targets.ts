/** All targets. */

import type { Target } from "./target.ts";
import { CONFIG_TARGETS } from "./targets/config.ts";
import { CONTENT } from "./targets/content.ts";
import { DEVICES } from "./targets/devices.ts";
import { MAPS } from "./targets/maps.ts";
import { MEDIA } from "./targets/media.ts";
import { PORT } from "./targets/port.ts";
import { SAME } from "./targets/same.ts";
import { SAME_HPACK } from "./targets/same_hpack.ts";
import { SAME_HTTP2 } from "./targets/same_http2.ts";
import { WEBRTC_PEER } from "./targets/webrtc_peer.ts";
import { WIRE } from "./targets/wire.ts";

export const TARGETS: readonly Target[] = [
  ...WIRE,
  PORT,
  WEBRTC_PEER,
  ...DEVICES,
  ...CONFIG_TARGETS,
  ...MEDIA,
  ...MAPS,
  ...CONTENT,
  ...SAME,
  ...SAME_HPACK,
  SAME_HTTP2,
];
