/** Video service: stored or live video of a time span, as a stream of parts of a file. */

import { VideoService } from "../../../proto/gen/video_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";
import { toMs, toTimestamp } from "../shared/time.ts";

/** A span of a recorded video. */
export interface VideoSpan {
  /** Since the Unix epoch; absent means the beginning, or the present. */
  readonly startMs?: number;
  /** Its end in milliseconds since 1970; by default now. */
  readonly endMs?: number;
  /** `h264`, … and `mp4`, … as published; empty for the service's own. */
  readonly codec: string;
  /** Such as `mp4`. */
  readonly container: string;
  /** Of the caller's choice. */
  readonly requestId: string;
}

/** A piece of a video file. */
export interface VideoPart {
  /** Bytes of the file. */
  readonly data: Uint8Array;
  /** Such as `mp4`. */
  readonly container: string;
}

/** Keeps recorded videos. */
export interface Video extends Resource {
  /** The pieces of one file, in order. */
  getVideo(request: VideoSpan, call?: Call): AsyncIterable<VideoPart>;
}

class VideoClient extends ResourceClient<typeof VideoService> implements Video {
  async *getVideo(request: VideoSpan, call?: Call): AsyncGenerator<VideoPart> {
    const { startMs, endMs, codec, container, requestId } = request;
    const message = {
      ...this.request(call),
      startTimestamp: startMs === undefined ? undefined : toTimestamp(startMs),
      endTimestamp: endMs === undefined ? undefined : toTimestamp(endMs),
      videoCodec: codec,
      videoContainer: container,
      requestId,
    };
    for await (const { videoData, videoContainer } of this.rpc.getVideo(message, call)) {
      yield { data: videoData, container: videoContainer };
    }
  }
}

/** The API `rdk:service:video`. */
export const VideoApi: Api<Video> = {
  name: "rdk:service:video",
  desc: VideoService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new VideoClient(name, channel, VideoService),
  serve: (find) =>
    service(VideoService, {
      ...resourceHandlers(find),
      getVideo: async function* (request, ctx) {
        const { startTimestamp, endTimestamp, videoCodec: codec, videoContainer: container, requestId } =
          request;
        const wanted = {
          startMs: startTimestamp && toMs(startTimestamp),
          endMs: endTimestamp && toMs(endTimestamp),
          codec,
          container,
          requestId,
        };
        for await (const part of find(request.name).getVideo(wanted, callOf(request, ctx))) {
          yield { requestId, videoData: part.data, videoContainer: part.container };
        }
      },
    }),
};
