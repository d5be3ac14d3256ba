import { assert } from "@std/assert";
import { type Video, VideoApi } from "../../lib/api/services/video.ts";
import type { Contract } from "./contract.ts";

const REQUEST = { codec: "h264", container: "mp4", requestId: "one" };

export const contract: Contract<Video> = {
  api: VideoApi,
  cases: {
    "getVideo returns parts with bytes": async (video) => {
      let bytes = 0;
      for await (const { data } of video.getVideo({ ...REQUEST, startMs: 1_000, endMs: 2_000 })) {
        bytes += data.length;
      }
      assert(bytes > 0);
    },
    "getVideo ends when its call is aborted": async (video) => {
      const stop = new AbortController();
      stop.abort();
      const follow = async () => {
        for await (const _ of video.getVideo(REQUEST, { signal: stop.signal }));
      };
      await follow().catch(() => {});
    },
  },
};
