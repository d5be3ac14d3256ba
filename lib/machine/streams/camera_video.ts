/**
 * The video of one camera: takes pictures while somebody watches, encodes each once, and sends it to all viewers.
 */

import type { Images } from "../../api/sensors/camera.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { imageSize, MIME } from "../../geometry/image/image.ts";
import type { VideoTrack } from "../../wire/webrtc/addon.ts";
import { VP8_CLOCK_HZ, Vp8Packetizer } from "../../wire/webrtc/vp8_rtp.ts";
import type { VideoEncoder, VideoFrame } from "./video_encoder.ts";

/** Minimum time between pictures. */
const PICTURE_MS = 66;
/** Share of a slow picture's time that the next one waits, so that other work gets the computer. */
const REST_SHARE = 0.5;
/** Pause after a failed picture. */
const RETRY_MS = 1_000;
/** A camera without a picture for this long has stalled: the next attempt may reach the one that has replaced it. */
const STALLED_MS = 15_000;

export interface VideoSize {
  readonly width: number;
  readonly height: number;
}

export interface CameraVideoParts {
  readonly name: string;
  /** The camera's present picture. Throws if it has none, or is gone. */
  readonly images: (signal: AbortSignal) => Promise<Images>;
  readonly encoder: VideoEncoder;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Each offered size is half as wide and high as the one before it. */
const SIZES = 4;
const SIDE_MIN = 32;

/** The picture of a camera that its video shows. Throws `unavailable` without any, `unimplemented` without colours. */
export function videoPicture({ images }: Images, name: string): Uint8Array {
  if (images.length === 0) throw new SvcError("unavailable", `camera ${name} has no picture`);
  const picture = images.find(({ mimeType }) => mimeType !== MIME.depth);
  if (!picture) throw new SvcError("unimplemented", `camera ${name} gives no colour picture`);
  return picture.image;
}

/** The sizes in which a video may show a picture: its own, and those halved again and again. */
export function videoSizes(picture: Uint8Array): VideoSize[] {
  const { width, height } = imageSize(picture);
  const half = (side: number, times: number) => 2 * Math.floor(side / 2 ** times / 2);
  const all = Array.from({ length: SIZES }, (_, times) => ({
    width: half(width, times),
    height: half(height, times),
  }));
  return all.filter((size, times) => times === 0 || Math.min(size.width, size.height) >= SIDE_MIN);
}

/**
 * Which of some sizes is closest to a wanted one, by the number of pixels: programs ask for 640x480 whatever the shape of
 * the camera's picture is, which the video keeps.
 */
export function nearestSize(sizes: readonly VideoSize[], wanted: VideoSize): number {
  const distances = sizes.map(({ width, height }) =>
    Math.abs(Math.log((width * height) / (wanted.width * wanted.height)))
  );
  return distances.indexOf(Math.min(...distances));
}

interface Viewer {
  readonly track: VideoTrack;
  readonly packetizer: Vp8Packetizer;
}

export class CameraVideo {
  /** How often the camera's own size is halved: a camera may change its size while it is watched. */
  halvings = 0;
  readonly #parts: CameraVideoParts;
  readonly #viewers = new Set<Viewer>();
  readonly #over = new AbortController();
  readonly #first = Promise.withResolvers<VideoFrame>();
  readonly #ended: Promise<void>;
  #wantsKey = true;
  #problem = "";

  constructor(parts: CameraVideoParts) {
    this.#parts = parts;
    this.#first.promise.catch(() => {});
    this.#ended = this.#run();
  }

  /** The first picture; rejects if the camera has none, or it cannot be shown. */
  get first(): Promise<VideoFrame> {
    return this.#first.promise;
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Sends the video to a track from now on; the returned function stops it. */
  watch(track: VideoTrack, ssrc: number): () => void {
    const viewer = { track, packetizer: new Vp8Packetizer(ssrc) };
    this.#viewers.add(viewer);
    this.#wantsKey = true;
    return () => void this.#viewers.delete(viewer);
  }

  /** A viewer has lost data and needs a key frame. */
  refresh(): void {
    this.#wantsKey = true;
  }

  async close(): Promise<void> {
    const canceled = new SvcError("canceled", "the video was closed");
    this.#over.abort(canceled);
    this.#first.reject(canceled);
    this.#parts.encoder.close();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#over;
    while (!signal.aborted) {
      const begunMs = clock.monotonicMs();
      const isShown = await this.#show(begunMs);
      const tookMs = clock.monotonicMs() - begunMs;
      const pauseMs = isShown ? Math.max(PICTURE_MS - tookMs, tookMs * REST_SHARE) : RETRY_MS;
      await clock.sleep(pauseMs, signal).catch(() => {});
    }
  }

  /** Whether a picture was shown. */
  async #show(nowMs: number): Promise<boolean> {
    const { name, encoder, logger } = this.#parts;
    const key = this.#wantsKey;
    this.#wantsKey = false;

    try {
      const picture = videoPicture(await this.#pictures(), name);
      // A smaller camera may have taken the place of the one that the size was chosen for.
      const size = this.halvings > 0 ? videoSizes(picture).slice(0, this.halvings + 1).at(-1) : undefined;
      const frame = await encoder.encode({ picture, ...size, key });
      this.#first.resolve(frame);
      this.#send(frame, nowMs);
      this.#problem = "";
      return true;
    } catch (error) {
      this.#wantsKey ||= key;
      this.#first.reject(error);
      const problem = chainOf(error);
      if (problem !== this.#problem && !this.#over.signal.aborted) {
        logger.warn(`the video of camera ${name} is interrupted: ${problem}`);
      }
      this.#problem = problem;
      return false;
    }
  }

  /** The camera's pictures; gives up a camera that stalls, because its viewers would wait for ever. */
  async #pictures(): Promise<Images> {
    const { images, clock } = this.#parts;
    const late = () => new SvcError("deadline_exceeded", `no picture within ${STALLED_MS / 1000} s`);
    const { signal, done } = deadline(clock, STALLED_MS, late, this.#over.signal);
    try {
      return await race(images(signal), signal);
    } finally {
      done();
    }
  }

  #send({ frame }: VideoFrame, nowMs: number): void {
    const timestamp = Math.floor(nowMs * VP8_CLOCK_HZ / 1000);
    for (const { track, packetizer } of this.#viewers) {
      if (!track.isOpen) continue;
      for (const packet of packetizer.packets(frame, timestamp)) track.send(packet);
    }
  }
}
