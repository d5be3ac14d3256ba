/**
 * StreamService: cameras as video tracks of WebRTC peers.
 *
 * Each watched camera has one video, which ends with its last viewer. A stream has its camera's name, with `+` in
 * place of `:` (published). The encoding is VP8, on a thread per camera.
 *
 * The room owns the machine's videos: who watches which camera, its pictures, and their encoding.
 */

import { StreamService } from "../../../proto/gen/stream_pb.ts";
import { type Camera, CameraApi } from "../../api/sensors/camera.ts";
import { type PoolHolder, SharedPool } from "../../base/async/shared_pool.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { type CallContext, type Peer, type Service, service } from "../../wire/rpc/service.ts";
import type { RtcPeer } from "../../wire/webrtc/peer.ts";
import { VP8_PAYLOAD_TYPE, wantsKeyPicture } from "../../wire/webrtc/vp8_rtp.ts";
import type { Machine } from "../graph/machine.ts";
import { CameraVideo, nearestSize, videoPicture, type VideoSize, videoSizes } from "./camera_video.ts";
import { type VideoEncoder, Vp8Encoder } from "./video_encoder.ts";

/** Cameras encoded at once, also for one caller: each one takes a thread. */
const VIDEOS_MAX = 8;
/** Videos that one peer may add during its connection: each one makes its descriptions longer. */
const VIDEOS_OF_PEER_MAX = 64;
/** Time limits of a camera's first picture, and of a viewer's acceptance. */
const BEGIN_MS = 15_000;

export interface StreamsParts {
  readonly machine: Pick<Machine, "names" | "find">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The encoder; by default VP8 on a thread. */
  readonly encoder?: () => VideoEncoder;
}

/** A peer that may watch. */
interface Watcher {
  readonly peer: RtcPeer;
  /** The watched streams by name, each with the function that ends it; `undefined` while it starts. */
  readonly watching: Map<string, (() => void) | undefined>;
  added: number;
}

export class Streams {
  readonly service: Service;
  readonly #parts: StreamsParts;
  readonly #watchers = new Map<Peer, Watcher>();
  readonly #videos = new Map<string, CameraVideo>();
  readonly #places: SharedPool;
  readonly #placeOf = new Map<string, PoolHolder>();
  /** How often a camera's size is halved, by camera. */
  readonly #halvings = new Map<string, number>();
  readonly #closing = new Set<Promise<void>>();

  constructor(parts: StreamsParts) {
    this.#parts = parts;
    const shares = [VIDEOS_MAX, Infinity];
    const levels = ["this machine", "one caller"];
    this.#places = new SharedPool({ shares, levels, what: "videos of cameras" }, parts.clock);
    this.service = service(StreamService, {
      listStreams: () => ({ names: this.#cameras().map(streamName) }),
      addStream: async ({ name }, ctx) => {
        await this.#add(cameraName(name), ctx);
        return {};
      },
      removeStream: async ({ name }, ctx) => {
        await this.#remove(cameraName(name), ctx);
        return {};
      },
      getStreamOptions: async ({ name }, { signal }) => ({
        resolutions: await this.#fetchSizes(cameraName(name), signal),
      }),
      setStreamOptions: async ({ name, resolution }, { signal }) => {
        await this.#resize(cameraName(name), resolution, signal);
        return {};
      },
    });
  }

  /** Registers a peer whose calls come from `identity`; the returned function reports its end. */
  joined(peer: RtcPeer, identity: Peer): () => void {
    const watcher: Watcher = { peer, watching: new Map(), added: 0 };
    this.#watchers.set(identity, watcher);
    return () => {
      this.#watchers.delete(identity);
      for (const stop of watcher.watching.values()) stop?.();
      watcher.watching.clear();
    };
  }

  /** Ends all videos. */
  async close(): Promise<void> {
    for (const name of [...this.#videos.keys()]) this.#end(name);
    await Promise.all(this.#closing);
  }

  async #add(name: string, ctx: CallContext): Promise<void> {
    const watcher = this.#watcherOf(ctx);
    this.#camera(name);
    if (watcher.watching.has(name)) {
      throw new SvcError("already_exists", `stream ${streamName(name)} is already active on this connection`);
    }
    if (++watcher.added > VIDEOS_OF_PEER_MAX) {
      const problem = `this connection has had ${VIDEOS_OF_PEER_MAX} videos, the maximum; connect again`;
      throw new SvcError("resource_exhausted", problem);
    }

    const late = () => new SvcError("deadline_exceeded", `no video of camera ${name} within ${BEGIN_MS} ms`);
    const over = deadline(this.#parts.clock, BEGIN_MS, late, ctx.signal);
    watcher.watching.set(name, undefined);

    try {
      await this.#begin(name, ctx.entity ?? `address ${ctx.peer.remoteAddress}`, watcher, over.signal);
    } catch (error) {
      watcher.watching.delete(name);
      this.#endIfUnseen(name);
      throw error;
    } finally {
      over.done();
    }
  }

  async #begin(
    name: string,
    caller: string,
    { peer, watching }: Watcher,
    signal: AbortSignal,
  ): Promise<void> {
    const video = this.#videoOf(name, caller);
    const [ssrc = 0] = crypto.getRandomValues(new Uint32Array(1));
    const listener = {
      feedback: (packet: Uint8Array) => {
        if (wantsKeyPicture(packet)) video.refresh();
      },
      closed: () => {},
    };

    // Published clients give up after 5 s without a track, and the encoder of a slow computer takes seconds to start:
    // the peer gets the track while the first picture is taken.
    const [shown, added] = await Promise.allSettled([
      race(video.first, signal),
      peer.negotiation.addVideo(streamName(name), ssrc, VP8_PAYLOAD_TYPE, listener, signal),
    ]);
    if (added.status === "rejected") throw added.reason;
    const track = added.value;
    if (shown.status === "rejected") {
      track.close();
      await peer.negotiation.renegotiate(signal).catch(() => {});
      throw shown.reason;
    }

    const unwatch = video.watch(track, ssrc);
    const stop = () => {
      unwatch();
      track.close();
      this.#endIfUnseen(name);
    };

    // The peer may have gone meanwhile.
    if (peer.isConnected && watching.has(name)) watching.set(name, stop);
    else stop();
  }

  async #remove(name: string, ctx: CallContext): Promise<void> {
    const { peer, watching } = this.#watcherOf(ctx);
    const stop = watching.get(name);
    if (!stop) {
      throw new SvcError("not_found", `stream ${streamName(name)} is not active on this connection`);
    }
    watching.delete(name);
    stop();
    await peer.negotiation.renegotiate(ctx.signal);
  }

  #watcherOf({ peer }: CallContext): Watcher {
    const watcher = this.#watchers.get(peer);
    if (watcher) return watcher;
    const instead = "connect over WebRTC, or ask the camera for its pictures with GetImages";
    throw new SvcError("failed_precondition", `videos need WebRTC; ${instead}`);
  }

  #videoOf(name: string, caller: string): CameraVideo {
    const known = this.#videos.get(name);
    if (known) return known;

    // The caller who began the most videos gives way, with all their viewers.
    const place = this.#places.take([caller], () => {
      for (const { watching } of this.#watchers.values()) {
        const stop = watching.get(name);
        watching.delete(name);
        stop?.();
      }
      this.#end(name);
    });
    this.#placeOf.set(name, place);

    const { clock, logger, encoder = () => new Vp8Encoder() } = this.#parts;
    const images = (signal: AbortSignal) => this.#camera(name).getImages([], { signal });
    const video = new CameraVideo({ name, images, encoder: encoder(), clock, logger });
    video.halvings = this.#halvings.get(name) ?? 0;
    this.#videos.set(name, video);

    return video;
  }

  #endIfUnseen(name: string): void {
    const isWanted = this.#watchers.values().some(({ watching }) => watching.has(name));
    if (!isWanted && this.#videos.get(name)?.viewers === 0) this.#end(name);
  }

  #end(name: string): void {
    const video = this.#videos.get(name);
    this.#videos.delete(name);
    this.#placeOf.get(name)?.release();
    this.#placeOf.delete(name);
    const closed = video?.close().finally(() => this.#closing.delete(closed!));
    if (closed) this.#closing.add(closed);
  }

  async #fetchSizes(name: string, signal: AbortSignal): Promise<VideoSize[]> {
    return videoSizes(videoPicture(await this.#camera(name).getImages([], { signal }), name));
  }

  async #resize(name: string, size: VideoSize | undefined, signal: AbortSignal): Promise<void> {
    if (size && !(size.width > 0 && size.height > 0)) {
      const found = `found ${size.width}x${size.height}, wanted a width and a height above 0`;
      throw new SvcError("invalid_argument", `cannot resize stream ${streamName(name)}: ${found}`);
    }
    const halvings = size ? nearestSize(await this.#fetchSizes(name, signal), size) : 0;
    if (!size) this.#camera(name);

    if (halvings > 0) this.#halvings.set(name, halvings);
    else this.#halvings.delete(name);
    const video = this.#videos.get(name);
    if (!video) return;

    video.halvings = halvings;
    video.refresh();
  }

  #cameras(): string[] {
    return this.#parts.machine.names.filter(({ api }) => api === CameraApi.name).map(({ short }) => short);
  }

  #camera(name: string): Camera {
    return this.#parts.machine.find(CameraApi.name, name) as Camera;
  }
}

function streamName(camera: string): string {
  return camera.replaceAll(":", "+");
}

function cameraName(stream: string): string {
  return stream.replaceAll("+", ":");
}
