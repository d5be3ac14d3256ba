/**
 * The videos of cameras on a connection: everybody who looks at a camera shares one, because the machine gives each
 * connection a camera's video once. It ends with its last viewer, and the next one begins after that end.
 */

import { type RobotClient, StreamClient } from "@viamrobotics/sdk";

export interface WatchedVideo {
  readonly stream: Promise<MediaStream>;
  /** This viewer looks no more. */
  leave(): void;
}

interface SharedVideo {
  readonly stream: Promise<MediaStream>;
  viewers: number;
  ended: Promise<void>;
}

class ClientVideos {
  readonly #streams: StreamClient;
  readonly #byName = new Map<string, SharedVideo>();

  constructor(client: RobotClient) {
    this.#streams = new StreamClient(client);
  }

  watch(name: string): WatchedVideo {
    let video = this.#byName.get(name);
    if (!video || video.viewers === 0) {
      const before = video?.ended ?? Promise.resolve();
      const stream = before.then(() => this.#streams.getStream(name));
      stream.catch(() => {});
      video = { stream, viewers: 0, ended: before };
      this.#byName.set(name, video);
    }
    video.viewers++;
    return { stream: video.stream, leave: () => this.#leave(name, video) };
  }

  /** Before a video has begun the machine knows nothing to end: it would go on, and refuse the next one. */
  #leave(name: string, video: SharedVideo): void {
    if (--video.viewers > 0) return;
    const begun = video.stream.then(() => {}, () => {});
    video.ended = begun.then(() => this.#streams.remove(name)).catch(() => {});
  }
}

const VIDEOS = new WeakMap<RobotClient, ClientVideos>();

/** Watches a camera until `leave` is called, once. */
export function watchVideo(client: RobotClient, name: string): WatchedVideo {
  let videos = VIDEOS.get(client);
  if (!videos) VIDEOS.set(client, videos = new ClientVideos(client));
  return videos.watch(name);
}
